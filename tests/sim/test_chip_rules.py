"""Programs that break a rule stop the core, and the reason names the rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd.registers import by_address
from orkbench_tui.sim.chip.faults import (
    ChipFault,
    DmaFault,
    NeverCompletes,
    ProgramError,
    UnsupportedOperation,
)
from tests.sim import programs
from tests.sim.test_programs_on_chip import CODE, A, B, C, Machine

M, K, N = 8, 64, 64


def _fault(change: dict[int, int], words: list[int] | None = None, enable: int = 0xD) -> ChipFault | None:
    regs = programs.registers(geometry="rows", m=M, k=K, n=N, a=A, b=B, c=C) | change
    machine = Machine()
    machine.put(A, np.zeros(M * K, np.int8))
    machine.put(B, np.zeros(N * K, np.int8))
    out = machine.put(C, np.full(4 * M * N, 7, np.uint8))
    body = programs.body(regs)
    run = machine.run(words or [*body, *programs.trailer(enable=enable)])
    if run.fault is not None:
        assert run.programs == 0
        assert (out == 7).all(), "a program that was refused has written"
    return run.fault


def test_the_unchanged_program_runs() -> None:
    assert _fault({}) is None


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("banks", {0x1040: 0xA1}),
        ("banks", {0x1040: 0xC0}),
        ("banks", {0x1044: 7}),
        ("K", {0x1024: 39 << 16 | 40, 0x1088: 40}),
        ("K", {0x1024: 62 << 16 | 64}),
        ("N", {0x1038: 0x01010000 | 48, 0x3018: 47, 0x403C: 47 << 16 | 47, 0x4058: 47}),
        ("N", {0x1038: 0x01010000 | 8224, 0x3018: 8223, 0x403C: 31 << 16 | 31, 0x4058: 31}),
        ("N", {0x3018: 31}),
        ("weights", {0x1030: K * N - 32}),
        ("weights", {0x1034: 32}),
        ("output", {0x4050: 0x36C}),
        ("output", {0x4088: 63}),
        ("geometry", {0x102C: M + 1}),
        ("geometry", {0x1084: 1 << 16 | 4}),
        ("geometry", {0x4034: 3}),
        (
            "geometry",
            {0x100C: 0, 0x1020: 1 << 16 | 6, 0x102C: 6, 0x1084: 1 << 16 | 6, 0x3014: 5 << 16, 0x4034: 5},
        ),
        ("precision", {0x3010: 0x201}),
        ("precision", {0x4010: 0x88000002}),
        ("alignment", {0x1070: A + 8}),
        ("field", {0x1040: 0x400000B1}),
        ("field", {0x4050: 0x7FC | 1 << 12}),
    ],
)
def test_a_broken_rule_is_named(rule: str, change: dict[int, int]) -> None:
    fault = _fault(change)
    assert isinstance(fault, ProgramError)
    assert fault.rule == rule, str(fault)


def test_too_many_rows_for_the_data_banks() -> None:
    regs = programs.registers(geometry="rows", m=600, k=1024, n=32, a=A, b=B, c=C)
    machine = Machine()
    machine.put(A, np.zeros(600 * 1024, np.int8))
    machine.put(B, np.zeros(32 * 1024, np.int8))
    machine.put(C, np.zeros(600 * 32, np.int32))
    regs[0x1040] = 0x1B
    fault = machine.run([*programs.body(regs), *programs.trailer()]).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "banks"
    assert "19 data banks" in str(fault)


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        ("fp32 matmul", {0x100C: 0x200002D0, 0x3010: 0x501, 0x4010: 0xB4000005}),
        ("int4 output", {0x4010: 0xC0000000}),
        ("feature reuse", {0x1040: 0x10B1}),
        ("BS operation 0", {0x4040: 0x50}),
        ("table multiplexing", {0x4070: 0x302}),
        ("depthwise", {0x100C: 0x20000003}),
        ("padding", {0x1068: 0x11}),
        ("strided", {0x1014: 0x12}),
    ],
)
def test_what_is_recognised_and_not_executed_is_named(operation: str, change: dict[int, int]) -> None:
    fault = _fault(change)
    assert isinstance(fault, UnsupportedOperation)
    assert operation in str(fault)


@pytest.mark.parametrize("enable", [0x18, 0x60])
def test_other_blocks_than_the_convolution_are_named(enable: int) -> None:
    assert isinstance(_fault({}, enable=enable), UnsupportedOperation)


def test_read_engines_that_nothing_takes_data_from_never_complete() -> None:
    fault = _fault({}, enable=0x1D)
    assert isinstance(fault, NeverCompletes)
    assert "main read engine" in str(fault)


def test_an_enable_mask_nobody_uses_is_an_error() -> None:
    fault = _fault({}, enable=0x5)
    assert isinstance(fault, ProgramError)
    assert fault.rule == "enable"


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("register", programs.word(programs.CNA, 1, 0x10F0)),
        ("target", programs.word(programs.CORE, 1, 0x1010)),
        ("word", programs.word(0x0011, 1, 0x1010)),
        ("word", programs.word(programs.PC, 1, 0x0020)),
    ],
)
def test_a_word_no_block_takes_is_an_error(rule: str, word: int) -> None:
    body = programs.body(programs.registers(geometry="rows", m=M, k=K, n=N, a=A, b=B, c=C))
    fault = _fault({}, [*body, word, 0, *programs.trailer()])
    assert isinstance(fault, ProgramError)
    assert fault.rule == rule


def test_an_amount_that_cuts_the_trailer_loses_the_enable_word() -> None:
    regs = programs.registers(geometry="rows", m=M, k=K, n=N, a=A, b=B, c=C)
    machine = Machine()
    machine.put(CODE, np.array([*programs.body(regs), *programs.trailer()], np.uint64))
    fault = machine.core.run(machine.space, CODE, 54, 1).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "enable"


@pytest.mark.parametrize(
    ("change", "write", "address"),
    [
        ({0x1070: 0x1000}, False, 0x1000),
        ({0x1070: A + K * (M - 1) + 16}, False, A + K * M),
        ({0x1110: B + 1024}, False, B + K * N),
        ({0x4020: C + 16}, True, C + 4 * M * N),
        ({0x4020: 0x2000}, True, 0x2000),
    ],
)
def test_an_atom_outside_the_buffers_is_a_dma_error_at_its_address(
    change: dict[int, int], write: bool, address: int
) -> None:
    fault = _fault(change)
    assert isinstance(fault, DmaFault)
    assert (fault.write, fault.iova) == (write, address)


def test_a_program_outside_the_buffers_is_a_dma_error() -> None:
    machine = Machine()
    run = machine.core.run(machine.space, CODE, 55, 1)
    assert isinstance(run.fault, DmaFault)
    assert run.raw_status == 0x1000


_ADDRESSES = sorted({word & 0xFFFF for word in programs.body({})})


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(_ADDRESSES), st.integers(0, 0xFFFFFFFF), min_size=1, max_size=3))
def test_whatever_the_registers_hold_the_core_answers(change: dict[int, int]) -> None:
    """Either the product, or a fault that says why; never an exception, never a write on a fault."""
    known = {address: value & by_address(address).known_mask for address, value in change.items()}
    fault = _fault(known)
    assert fault is None or str(fault)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=2, max_size=40))
def test_random_words_are_a_fault(words: list[int]) -> None:
    assert isinstance(_fault({}, words + [0] * (len(words) % 2)), ChipFault)
