"""Element-wise programs against the published register table, and what may not be built."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.disassemble import disassemble
from orkbench_tui.driver.regcmd.operation import read_operations
from orkbench_tui.driver.regcmd.registers import REGISTERS, Enable
from orkbench_tui.driver.regcmd.words import amount, decode, link
from orkbench_tui.driver.sdp.formats import FORMATS, checked_rows, tiles
from orkbench_tui.driver.sdp.programs import (
    SDP_ORDER,
    SDP_WORDS,
    ElementNumbers,
    SdpNumbers,
    SdpShape,
    StageNumbers,
    sdp_body,
    sdp_registers,
)
from orkbench_tui.driver.sdp.quantization import Quantization, numbers_for
from orkbench_tui.driver.sdp.table import ROWS, TABLE, Evidence, row_for
from orkbench_tui.errors import RefusedError

# The published rows: 4010, 4040, 4060, 4070, 5034, 5044, by operation; SHIFT_NEG bits left out of 4010.
PUBLISHED = {
    ("mul", "int8"): (0x0, 0x20050, 0x53, 0x904002C4, 0x40000004, 0x7801),
    ("add", "int8"): (0x0, 0x20040, 0x53, 0x904202C0, 0x40000004, 0x7801),
    ("mul", "int16"): (0x24000001, 0x20050, 0x53, 0x908002C4, 0x40000008, 0xF821),
    ("add", "int16"): (0x24000001, 0x20040, 0x53, 0x908202C0, 0x40000008, 0xF821),
    ("mul", "fp16"): (0x48000002, 0x53, 0x53, 0x108003C4, 0x40000008, 0x17849),
    ("add", "fp16"): (0x48000002, 0x53, 0x53, 0x108202C0, 0x40000008, 0x17849),
    ("add", "int32"): (0x90000004, 0x53, 0x53, 0x10C203C0, 0x4000000C, 0x27881),
    ("add_to_fp32", "int32"): (0xB0000004, 0x53, 0x53, 0x10C203C0, 0x4000000C, 0x27881),
    ("scale_vector", "fp32"): (0xB4000005, 0x42, 0x53, 0x10C003C4, 0x4000000C, 0x2F8A1),
    ("copy", "int8"): (0x0, 0x53, 0x53, 0x383, 0x1, 0x7801),
    ("relu", "int8"): (0x0, 0x12, 0x53, 0x383, 0x1, 0x7801),
    ("relu", "int16"): (0x24000001, 0x12, 0x53, 0x383, 0x1, 0xF821),
    ("relu", "fp16"): (0x48000002, 0x12, 0x53, 0x383, 0x1, 0x17849),
}
ADDRESSES = (0x4010, 0x4040, 0x4060, 0x4070, 0x5034, 0x5044)
BOTH_BYPASSED = 0x53


def written(body):
    return {decode(int(word))[1]: decode(int(word))[2] for word in body if word}


@pytest.mark.parametrize("key", PUBLISHED, ids="-".join)
def test_mode_words_are_the_published_ones(key):
    words = written(sdp_body(TABLE[key], SdpShape(4, 64, 0x1000, 0x3000, b=0x2000)))
    assert tuple(words[address] for address in ADDRESSES) == PUBLISHED[key]


def test_the_order_is_the_published_one():
    addresses = [REGISTERS[name].address for name in SDP_ORDER]
    assert len(addresses) == SDP_WORDS == 69
    assert addresses[:4] == [0x4004, 0x5004, 0x400C, 0x4010]
    assert addresses[-17:] == [
        0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5028, 0x502C, 0x5034, 0x5038, 0x5040, 0x5044, 0x5048,
        0x504C, 0x5064, 0x5068, 0x506C,
    ]  # fmt: skip
    assert addresses[2:-17] == sorted(addresses[2:-17])
    assert amount(SDP_WORDS) == 36


def test_geometry_of_a_whole_cube():
    rows, channels = 7, 48
    words = written(sdp_body(TABLE["mul", "int8"], SdpShape(rows, channels, 0x10000, 0x30000, b=0x20000)))
    expected = {
        0x4004: 0xE, 0x5004: 0xE, 0x400C: 0x1E5, 0x4020: 0x30000, 0x4024: 16 * rows, 0x40C0: 16 * rows,
        0x5040: 16 * rows, 0x4030: rows - 1, 0x405C: rows - 1, 0x500C: rows - 1, 0x4034: 0, 0x5010: 0,
        0x403C: (channels - 1) << 16 | (channels - 1), 0x4058: channels - 1, 0x5014: channels - 1, 0x4050: 2,
        0x5018: 0x10000, 0x5038: 0x20000, 0x5068: 0x01010101, 0x504C: 0, 0x506C: 0, 0x4038: 0,
    }  # fmt: skip
    assert {address: words[address] for address in expected} == expected


def test_a_slice_of_a_larger_cube_skips_the_other_rows():
    words = written(
        sdp_body(TABLE["add", "fp16"], SdpShape(3, 32, 0x10000, 0x30000, b=0x20000, cube_rows=10))
    )
    assert words[0x504C] == words[0x506C] == 16 * 7
    assert words[0x5040] == 16 * 3
    assert words[0x4024] == words[0x40C0] == 16 * 10


def test_one_row_of_an_fp32_cube_comes_out_contiguous():
    words = written(
        sdp_body(
            TABLE["scale_vector", "fp32"],
            SdpShape(1, 64, 0x10000, 0x30000, b=0x20000, cube_rows=9, out_rows=1),
        )
    )
    assert words[0x504C] == 16 * 8
    assert words[0x4024] == words[0x40C0] == words[0x5040] == 16


@given(
    shift=st.integers(0, 63),
    factor=st.integers(-(1 << 15), (1 << 15) - 1),
    row=st.sampled_from([row for row in ROWS if row.dtype in ("int8", "int16")]),
)
def test_negative_values_are_shifted_as_far_as_positive_ones(shift, factor, row):
    numbers = SdpNumbers(bs=StageNumbers(0, factor, shift), bn=StageNumbers(0, factor, shift))
    words = written(sdp_body(row, SdpShape(1, 64, 0, 0), numbers))
    assert words[0x4010] >> 4 & 0x3F == words[0x4048] >> 8 & 0x3F == shift
    assert words[0x4010] >> 10 & 0x3F == words[0x4068] >> 8 & 0x3F == shift


def test_vendor_numbers_go_to_their_fields():
    numbers = SdpNumbers(bs=StageNumbers(-3, 16384, 0), ew=ElementNumbers(5, 30317, 1))
    words = written(sdp_body(TABLE["add", "int8"], SdpShape(1, 64, 0, 0), numbers))
    assert words[0x4048] == 0x40000000
    assert words[0x4078] == 0x1766D
    assert (words[0x4044], words[0x4074]) == (0xFFFFFFFD, 5)


def test_int16_addition_keeps_the_templates_shift_on_both_signs():
    row = row_for("add", "int16")
    values = sdp_registers(row, SdpShape(1, 8, 0, 0), numbers_for(row, Quantization(a_scale=0.7)))
    assert values["dpu_data_format"] == 0x24000011
    assert values["dpu_bs_mul_cfg"] >> 8 & 0x3F == 1


@pytest.mark.parametrize("key", PUBLISHED, ids="-".join)
def test_the_program_reader_finds_the_published_row_and_no_problem(key):
    body = sdp_body(TABLE[key], SdpShape(5, 64, 0x10000, 0x30000, b=0x20000))
    [program] = link([body], [int(Enable.SDP)], [0x1000])
    [operation] = read_operations(disassemble(program))
    assert operation.published is not None
    assert (operation.m, operation.n) == (5, 64)
    assert [problem for problem in operation.problems if problem.severity == "error"] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.op}-{row.dtype}")
def test_only_programs_with_both_stages_bypassed_may_be_linked(row):
    words = written(sdp_body(row, SdpShape(1, 64, 0, 0)))
    assert row.linkable == (words[0x4040] == BOTH_BYPASSED and words[0x4060] == BOTH_BYPASSED)


def test_every_published_row_is_in_the_table_and_says_so():
    assert PUBLISHED.keys() <= TABLE.keys()
    assert all(TABLE[key].evidence is not Evidence.DERIVED for key in PUBLISHED)


@pytest.mark.parametrize(
    ("dtype", "rows"), [("int8", 8177), ("int16", 8177), ("fp16", 8189), ("int32", 8177), ("int8", 0)]
)
def test_rows_above_the_ceiling_are_refused(dtype, rows):
    with pytest.raises(RefusedError, match=f"GRD-17.*{rows} rows of {dtype}"):
        checked_rows(FORMATS[dtype], rows)
    op = "mul" if dtype != "int32" else "add"
    with pytest.raises(RefusedError, match="GRD-17"):
        sdp_body(TABLE[op, dtype], SdpShape(rows, 64, 0, 0))


@pytest.mark.parametrize(("dtype", "rows"), [("int8", 8176), ("int16", 8176), ("fp16", 8188)])
def test_the_ceiling_itself_is_one_program(dtype, rows):
    assert checked_rows(FORMATS[dtype], rows) == rows
    assert len(tiles(FORMATS[dtype], rows, 64)) == 1
    assert len(tiles(FORMATS[dtype], rows + 1, 64)) == 2


@pytest.mark.parametrize(
    "shape",
    [
        SdpShape(1, 40, 0, 0),
        SdpShape(1, 0, 0, 0),
        SdpShape(1, 7696, 0, 0),
        SdpShape(1, 64, 8, 0),
        SdpShape(1, 64, 0, 1 << 32),
        SdpShape(4, 64, 0, 0, cube_rows=3),
    ],
)
def test_shapes_no_program_has(shape):
    with pytest.raises(OperandError):
        sdp_body(TABLE["mul", "int8"], shape)


@given(
    dtype=st.sampled_from(list(FORMATS)),
    rows=st.integers(1, 30000),
    atoms=st.integers(1, 2000),
    table=st.booleans(),
)
def test_tiles_cover_each_element_once_and_keep_every_ceiling(dtype, rows, atoms, table):
    format = FORMATS[dtype]
    channels = atoms * format.per_atom
    parts = tiles(format, rows, channels, table=table)
    assert sum(tile.elements for tile in parts) == rows * channels
    assert len({(tile.row, tile.channel) for tile in parts}) == len(parts)
    for tile in parts:
        assert 1 <= tile.rows <= format.max_rows
        assert tile.channels % format.per_atom == 0 and tile.channels <= format.max_channels
        assert tile.row + tile.rows <= rows and tile.channel + tile.channels <= channels
        if table and dtype == "fp16":
            assert tile.elements <= 32768


def test_names_and_types_that_do_not_exist():
    with pytest.raises(OperandError, match="fp16"):
        row_for("sub", "int8")
    with pytest.raises(OperandError, match="there are mul"):
        row_for("modulo", "int8")


def test_bodies_have_an_even_length():
    assert len(sdp_body(TABLE["copy", "int8"], SdpShape(1, 16, 0, 0))) == 70
    assert np.uint64(0) == sdp_body(TABLE["copy", "int8"], SdpShape(1, 16, 0, 0))[-1]
