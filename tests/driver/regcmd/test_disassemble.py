"""Words taken apart: programs, trailers, names, and what is listed as odd."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd.disassemble import MAX_FINDINGS, disassemble
from orkbench_tui.driver.regcmd.instruction import blocks_of_enable
from tests.driver.regcmd import captures

ENABLE = 0x0081 << 48 | 0x0D << 16 | 8


def kinds(words):
    return [finding.kind for finding in disassemble(words).findings]


def chained(first_body, second_body, amount):
    return [*captures.program(first_body, 0x0D, 0xFFF00000, amount), *captures.program(second_body, 0x0D)]


def test_the_golden_program_by_name():
    (program,) = disassemble(captures.golden()).programs
    assert (program.body_words, program.enable, program.next_address, program.next_amount) == (
        104,
        0x0D,
        0,
        0,
    )
    assert program.findings == ()
    instructions = list(program.instructions())
    assert len(instructions) == 108
    size = instructions[5]
    assert (size.index, size.block, size.register, size.address) == (5, "CNA", "cna_data_size1", 0x1024)
    assert size.value == 0x003F0040 and dict(size.fields) == {"channel_real_minus1": 63, "channel": 64}
    assert instructions[104].note == "no operation"
    assert instructions[105].register == "pc_register_amounts"
    assert instructions[106].block == "VERSION"
    assert instructions[107].note == "starts CNA, CORE, DPU"


def test_signed_fields_and_precisions_are_spelled_out():
    words = captures.program(captures.body(captures.values("1080=ffffffd 4010=38000006 4080=fffffffb")), 0x0D)
    stride, formats, offset, *_ = disassemble(words).programs[0].instructions()
    assert stride.fields["surf_stride"] == -3
    assert formats.note == "out int16, in int4, proc int4"
    assert offset.note == "= -5"


def test_a_chain_with_padding_between_programs():
    golden = captures.golden()
    listing = disassemble(
        [*golden[:104], 0x0101FFF000800010, 0x0101000000350014, *golden[106:], *[0] * 4, *golden, 0, 0]
    )
    first, second = listing.programs
    assert listing.padding_words == 6 and listing.findings == ()
    assert (first.start, second.start) == (0, 112)
    assert first.next_address == 0xFFF00080 and first.next_amount == 53
    assert next(second.instructions()).index == 112


def test_the_last_write_of_a_register_wins_and_the_earlier_says_so():
    words = captures.program(
        [*captures.body(captures.values("1040=b1")), *captures.body(captures.values("1040=2a"))], 0x0D
    )
    first, second, *_ = disassemble(words).programs[0].instructions()
    assert first.note == "replaced by word 1" and second.note == ""


def test_a_port_is_not_replaced_by_its_next_write():
    (program,) = disassemble(captures.lut_load([1] * 513, [2] * 513)).programs
    notes = {item.note for item in program.instructions() if item.register == "dpu_lut_access_data"}
    assert notes == {""}


def test_unknown_registers_blocks_and_bits_are_listed():
    words = captures.program(
        [
            0x0201 << 48 | 0x1FF0,
            0x0401 << 48 | 0x6024,
            0x0801 << 48 | 0x4010,
            0x0201 << 48 | 0x800 << 16 | 0x1020,
        ],
        0x0D,
    )
    listing = disassemble(words)
    assert [(finding.index, finding.kind) for finding in listing.findings] == [
        (0, "register"), (1, "block"), (2, "register"), (3, "reserved"),
    ]  # fmt: skip
    unknown, block, foreign, reserved, *_ = listing.programs[0].instructions()
    assert unknown.register is None and block.block == "0x0401" and foreign.register is None
    assert reserved.note == "undocumented bits 0x800"


@pytest.mark.parametrize(("amount", "found"), [(53, []), (60, ["amount"]), (20, ["amount"])])
def test_amounts_are_held_against_the_next_body(amount, found):
    body = captures.golden()[:104]
    assert kinds(chained(body, body, amount)) == found
    if amount == 20:
        assert "not fetched" in disassemble(chained(body, body, amount)).findings[0].text


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (captures.golden()[:104], "trailer"),
        (captures.golden()[:106], "trailer"),
        ([*captures.golden()[:106], ENABLE], "trailer"),
        ([*captures.golden()[:103], *captures.golden()[104:]], "trailer"),
        ([ENABLE], "trailer"),
        (captures.program(captures.golden()[:104], 0x0D, 0xFFF00000, 0), "link"),
        (captures.program(captures.golden()[:104], 0x0D, 0, 53), "link"),
        (captures.program(captures.golden()[:104], 0x80), "enable"),
        (captures.program([0, *captures.golden()[:4], 0, *captures.golden()[4:6]], 0x0D), "padding"),
    ],
)
def test_damaged_programs_are_told(words, kind):
    assert kind in kinds(words)


def test_a_cut_off_program_keeps_its_words_and_drops_the_fill():
    listing = disassemble([*captures.golden()[:50], *[0] * 30])
    (program,) = listing.programs
    assert program.enable is None and len(program.words) == 50


@pytest.mark.parametrize("words", [[], [0], [0] * 9])
def test_nothing_but_padding_is_no_program(words):
    listing = disassemble(words)
    assert listing.programs == () and listing.padding_words == len(words)


def test_findings_are_kept_few():
    words = captures.program([0x0201 << 48 | 0x1FF0] * 500, 0x0D)
    findings = disassemble(words).findings
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1].text == f"{500 - MAX_FINDINGS} more findings up to here"


def test_blocks_of_enable():
    assert blocks_of_enable(0x1D) == ("CNA", "CORE", "DPU", "DPU_RDMA")
    assert blocks_of_enable(0x60) == ("PPU", "PPU_RDMA")


@given(st.lists(st.one_of(st.integers(0, (1 << 64) - 1), st.just(0), st.just(ENABLE)), max_size=80))
@settings(max_examples=200, deadline=None)
def test_every_word_is_in_one_program_or_padding(words):
    listing = disassemble(np.array(words, dtype=np.uint64))
    seen = 0
    for program in listing.programs:
        assert program.start >= seen
        seen = program.start + len(program.words)
        assert 0 <= program.body_words <= len(program.words)
        assert [item.word for item in program.instructions()] == words[program.start : seen]
    fill = sum(1 for word in words if word == 0)
    assert listing.words - sum(len(p.words) for p in listing.programs) <= fill
