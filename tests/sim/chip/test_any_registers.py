"""Whatever the registers hold, the core answers: a result, or a fault that says why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd.registers import by_address
from orkbench_tui.sim.chip.faults import DmaFault, ProgramError, UnsupportedOperation
from tests.sim import programs
from tests.sim.chip import build
from tests.sim.chip.build import PRECISIONS, Machine

_STARTS = {
    "int8 per channel": (build.matmul(PRECISIONS["int8->int8"], "rows", 8, 64, 32) | build.PER_CHANNEL, 0x1D),
    "fp16 beside": (
        build.matmul(PRECISIONS["fp16->fp16"], "rows", 12, 32, 16)
        | build.beside(12, 16, 0x108202C0, build.OPERAND, build.OPERAND + 192, 192, 192),
        0x1D,
    ),
    "int4": (build.matmul(PRECISIONS["int4->int16"], "fold", 8, 64, 64), 0xD),
    "bf16": (build.matmul(PRECISIONS["bf16->bf16"], "cube", 8, 64, 16), 0xD),
    "int16 table": (
        build.sdp(8, 8, formats=0x24000001, rdma=0xF821) | build.TABLE | {0x4070: 0x302, 0x4060: 0x42, 0x4068: 0x10000},
        0x18,
    ),
    "fp16 add": (
        build.sdp(8, 16, formats=0x48000002, rdma=0x17849, erdma=0x40000008)
        | {0x4070: 0x108202C0, 0x4084: 0x10001},
        0x18,
    ),
    "int32 add": (
        build.sdp(8, 8, formats=0x90000004, rdma=0x27881, erdma=0x4000000C) | {0x4070: 0x10C203C0},
        0x18,
    ),
}  # fmt: skip


def _machine() -> tuple[Machine, np.ndarray]:
    machine = Machine()
    rng = np.random.default_rng(0)
    for iova in (build.A, build.B, build.OPERAND, build.BLOCK):
        data = rng.integers(0, 256, 4096).astype(np.uint8)
        if iova == build.BLOCK:
            data.reshape(-1, 32)[:, 16:24] = 0  # no weight zero points
        machine.put(iova, data)
    return machine, machine.output(4096)


@pytest.mark.parametrize("name", sorted(_STARTS))
def test_the_programs_that_are_changed_run(name: str) -> None:
    machine, _ = _machine()
    assert machine.run(build.program(*_STARTS[name])).fault is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(_STARTS))
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_changed_registers_give_a_result_or_a_reason(name: str, data: st.DataObject) -> None:
    regs, enable = _STARTS[name]
    wanted = data.draw(
        st.dictionaries(
            st.sampled_from(
                sorted(build.RDMA_ORDER[1:] + build.SDP_ORDER[2:-17] if enable == 0x18 else [*regs])
            ),
            st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 31), st.booleans()),
            min_size=1,
            max_size=3,
        )
    )
    changed = dict(regs)
    for address, (value, bit, whole) in wanted.items():
        register = by_address(address)
        assert register is not None
        new = value if whole else changed.get(address, 0) ^ 1 << bit
        changed[address] = new & register.known_mask
    machine, out = _machine()
    before = out.copy()
    run = machine.run(build.program(changed, enable))
    if run.fault is not None:
        assert str(run.fault)
        assert np.array_equal(out, before), "a program that was refused has written"
    if isinstance(run.fault, DmaFault):
        assert run.raw_status & 0x3000


def test_pooling_is_decoded_and_named() -> None:
    registers = {
        0x600C: 15, 0x6010: 7, 0x6014: 31, 0x6018: 7, 0x601C: 3, 0x6020: 31, 0x6024: 0x11, 0x6034: 1 << 20 | 1 << 16 | 1 << 8 | 1,
        0x6040: 0x1001, 0x6070: 0xE0000000,
    }  # fmt: skip
    fetched = {0x701C: 0xF0000000, 0x7030: 2}
    words = [programs.word(0x4001, value, address) for address, value in registers.items()]
    words += [programs.word(0x8001, value, address) for address, value in fetched.items()]
    fault = Machine().run([*words, *programs.trailer(enable=0x60)]).fault
    assert isinstance(fault, UnsupportedOperation)
    assert str(fault) == (
        "[not simulated] pooling (enable 0x60): max 2x2, stride 2x2, padding 1,0,0,1, 16x8x32 to 8x4x32, fp16, "
        "from 0xf0000000 to 0xe0000000"
    )


@pytest.mark.parametrize(
    ("target", "address", "value", "rule"),
    [(0x4001, 0x6048, 1, "register"), (0x4001, 0x6024, 1 << 31, "field"), (0x8001, 0x6024, 1, "target"),
     (0x0201, 0x1FFC, 1, "register"), (0x1001, 0x4030, 1 << 31, "field")],
)  # fmt: skip
def test_what_no_block_documents_is_reported(target: int, address: int, value: int, rule: str) -> None:
    """Strict about every block, pooling included: an unknown register or bit is named and not ignored."""
    fault = Machine().run([programs.word(target, value, address), 0, *programs.trailer(enable=0x60)]).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == rule
    assert f"{address:#06x}" in str(fault)


def test_a_cube_far_larger_than_memory_faults_at_its_first_missing_atom() -> None:
    machine, _ = _machine()
    regs = build.sdp(8176, 16, formats=0, rdma=0x7801)
    run = machine.run(build.program(regs | {0x4034: 8191, 0x405C: 8191 << 16 | 8175, 0x5010: 8191}, 0x18))
    assert isinstance(run.fault, DmaFault)
    assert run.fault.iova == build.A + 4096
