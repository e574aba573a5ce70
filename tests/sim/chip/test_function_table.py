"""The function table: loading, keeping, interpolation, and the published activation programs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.sim.chip.faults import ProgramError, UnsupportedOperation
from tests.sim import programs
from tests.sim.chip import build
from tests.sim.chip.build import PRECISIONS, Machine

_INT16 = np.iinfo(np.int16)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _tables(function, value_scale: float, units: float, step: int = 32) -> tuple[np.ndarray, np.ndarray]:
    index = np.arange(513)
    return tuple(
        np.clip(np.round(value_scale * function(x)), _INT16.min, _INT16.max).astype(np.int16)
        for x in ((index - 512) * step / units, index * step / units)
    )


def _machine(le: np.ndarray, lo: np.ndarray) -> Machine:
    machine = Machine()
    machine.put(build.BLOCK, np.zeros(16, np.uint8))
    _load(machine, le, lo)
    return machine


def _load(machine: Machine, le: np.ndarray, lo: np.ndarray) -> None:
    run = machine.run(build.table_load(le, lo))
    assert run.fault is None, run.fault


def _apply(
    machine: Machine, regs: dict[int, int], values: np.ndarray, kind: type | None = None
) -> np.ndarray:
    machine.put(build.A, build.cube(values, 16 // values.itemsize))
    out = machine.output(values.nbytes)
    run = machine.run(build.program(regs, 0x18))
    assert run.fault is None, run.fault
    return build.from_cube(out.view(kind or values.dtype), *values.shape)


def test_the_vendor_s_int8_silu_is_within_half_a_step_for_every_code() -> None:
    """Its constants: input scale 0.023056 with zero point 2, output scale 0.011717 with zero point -104."""
    machine = _machine(*_tables(_silu, 5692, 2824))
    codes = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)
    regs = build.sdp(16, 16, formats=0x2000, rdma=0x7801) | build.TABLE
    regs |= {
        0x4004: 0x30, 0x5004: 0x30, 0x4060: 0x20040, 0x4064: -2 * 16668 & 0xFFFFFFFF, 0x4068: 16668 << 16 | 8 << 8,
        0x4070: 0x302, 0x4080: -104 & 0xFFFFFFFF, 0x4084: 0x7AD3, 0x4088: 21, 0x4128: 0x4032 << 16, 0x412C: 13 << 5,
    }  # fmt: skip
    out = _apply(machine, regs, codes)
    ideal = _silu((codes.astype(np.float64) - 2) * 0.023056) / 0.011717 - 104
    assert np.abs(out - np.clip(ideal, -128, 127)).max() <= 0.51


def _interpolated(le: np.ndarray, lo: np.ndarray, x: int, slopes: tuple[int, int, int, int]) -> int:
    """The published rule, one value at a time; LE below zero, LO from zero on."""
    under, under_shift, over, over_shift = slopes
    if x < -16384:
        return int(le[0]) + ((x + 16384) * under >> under_shift)
    if x > 16384:
        return int(lo[512]) + ((x - 16384) * over >> over_shift)
    table, offset = (lo, x) if x >= 0 else (le, x + 16384)
    i, f = offset >> 5, offset & 31
    following = int(table[min(i + 1, 512)])
    return int(table[i]) + ((following - int(table[i])) * f >> 5)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.tuples(
        st.integers(-0x8000, 0x7FFF), st.integers(0, 31), st.integers(-0x8000, 0x7FFF), st.integers(0, 31)
    ),
    st.integers(0, 20),
)
def test_int16_interpolation_and_slopes(seed: int, slopes: tuple[int, int, int, int], shift: int) -> None:
    rng = np.random.default_rng(seed)
    le, lo = (rng.integers(-32768, 32768, 513).astype(np.int16) for _ in range(2))
    values = rng.integers(-32768, 32768, (20, 8)).astype(np.int16)
    values[0, :5] = [0, -16384, 16384, -16385, 16385]
    under, under_shift, over, over_shift = slopes
    regs = build.sdp(20, 8, formats=0x24000001, rdma=0xF821) | build.TABLE
    regs |= {
        0x4070: 0x302, 0x4088: shift, 0x4120: under & 0xFFFF, 0x4124: under_shift,
        0x4128: (over & 0xFFFF) << 16, 0x412C: over_shift << 5,
    }  # fmt: skip
    out = _apply(_machine(le, lo), regs, values)
    looked_up = [[_interpolated(le, lo, int(x), slopes) for x in row] for row in values]
    expected = [[min(max(round(Fraction(y, 1 << shift)), -32768), 32767) for y in row] for row in looked_up]
    assert out.tolist() == expected


@pytest.mark.parametrize(
    ("config", "at_zero", "below", "above"),
    [(0x68, 2, 1, 2), (0x28, 1, 1, 2), (0x78, 2, 2, 2), (0x48, 2, 1, 1)],
)
def test_priorities_choose_the_table(config: int, at_zero: int, below: int, above: int) -> None:
    machine = _machine(np.full(513, 1, np.int16), np.full(513, 2, np.int16))
    values = np.tile(np.array([0, -20000, 20000, 1, -1, 0, 0, 0], np.int16), (1, 1))
    regs = build.sdp(1, 8, formats=0x24000001, rdma=0xF821) | build.TABLE | {0x4070: 0x302, 0x4108: config}
    out = _apply(machine, regs, values)
    assert out[0, :5].tolist() == [at_zero, below, above, 2, 1]


def test_fp16_sigmoid() -> None:
    """The published fp16 program; 2596 units per 1.0, values in 2**-15."""
    machine = _machine(*_tables(_sigmoid, 32767, 2596))
    values = np.linspace(-6.2, 6.2, 256, dtype=np.float16).reshape(16, 16)
    regs = build.sdp(16, 16, formats=0x48000002, rdma=0x17849) | build.TABLE
    regs |= {
        0x4060: 0x20040, 0x4064: 0x80000000, 0x4068: 0x6912 << 16, 0x4070: 0x300, 0x4080: 1, 0x4084: 0x10001,
        0x4088: 0x8000F000, 0x4120: 23107, 0x4124: 22,
    }  # fmt: skip
    out = _apply(machine, regs, values)
    assert np.abs(out.astype(np.float64) - _sigmoid(values.astype(np.float64))).max() < 6e-4
    special = _apply(machine, regs, np.tile(np.array([np.nan, np.inf, -np.inf, 7], np.float16), (16, 4)))
    assert np.isnan(special[:, 0]).all()
    assert (special[:, [1, 3]] == np.float16(_sigmoid(np.float64(16384 / 2596)))).all()
    assert np.isfinite(special[:, 2]).all()


def test_fp32_silu() -> None:
    """4096 units per 1.0, step 64, slope 1.0 above 8."""
    machine = _machine(*_tables(_silu, 4096, 4096, 64))
    values = np.linspace(-8, 10, 256, dtype=np.float32).reshape(16, 16)
    regs = build.sdp(16, 16, formats=0xB4000005, rdma=0x2F8A1) | build.TABLE
    regs |= {
        0x4060: 0x20040, 0x4068: 0x6C00 << 16, 0x4070: 0x302, 0x410C: 0x60600, 0x4110: 0xFFFF8000, 0x411C: 0x8000,
        0x4128: 8192 << 16, 0x412C: 13 << 5, 0x4088: 0x8000C000,
    }  # fmt: skip
    out = _apply(machine, regs, values)
    wanted = _silu(values.astype(np.float64))
    # Above 8 the table ends at its 16-bit limit and the slope goes on from there.
    assert np.abs(out - wanted).max() < 4e-3
    assert np.abs(out - wanted)[values < 7.9].max() < 6e-4


def test_a_table_fused_behind_an_int8_matmul() -> None:
    """Bias and multiplier per channel, index by BN, table, output conversion: one program."""
    rng = np.random.default_rng(4)
    m, k, n = 6, 64, 32
    le, lo = _tables(_silu, 5692, 2824)
    a, b = rng.integers(-20, 20, (m, k)).astype(np.int8), rng.integers(-20, 20, (n, k)).astype(np.int8)
    bias, factor = rng.integers(-500, 500, n), rng.integers(1 << 13, 1 << 15, n)
    block = b"".join(
        bias[c : c + 4].astype("<i4").tobytes() + bytes(8) + factor[c : c + 4].astype("<u2").tobytes()
        for c in range(0, n, 4)
    )
    regs = build.matmul(PRECISIONS["int8->int8"], "rows", m, k, n) | build.TABLE
    regs |= {
        0x4004: 0x30, 0x5004: 0x30, 0x4010: 0x44E0, 0x4040: 0x20140, 0x4048: 0x0E01, 0x4050: 0x125,
        0x501C: 0x0E, 0x5020: build.OPERAND, 0x5034: 1, 0x5044: 0x7810, 0x4060: 0x20040, 0x4064: 12345,
        0x4068: 30000 << 16 | 17 << 8, 0x4070: 0x302, 0x4080: -7 & 0xFFFFFFFF, 0x4084: 0x4000, 0x4088: 18,
    }  # fmt: skip
    machine = _machine(le, lo)
    machine.put(build.A, a)
    machine.put(build.B, build.tiles(b, PRECISIONS["int8->int8"]))
    machine.put(build.OPERAND, np.frombuffer(block, np.uint8))
    out = machine.output(m * n)
    run = machine.run(build.program(regs, 0x1D))
    assert run.fault is None, run.fault

    def one(total: int, channel: int) -> int:
        scaled = round(Fraction((total + int(bias[channel])) * int(factor[channel]), 1 << 14))
        index = round(Fraction(scaled * 30000 + 12345, 1 << 17))
        value = _interpolated(le, lo, index, (0, 0, 0, 0))
        return min(max(round(Fraction(value * 0x4000, 1 << 18)) - 7, -128), 127)

    sums = programs.exact(a, b)
    expected = [[one(int(x), c) for c, x in enumerate(row)] for row in sums]
    assert out.view(np.int8).reshape(m, n).tolist() == expected


def _ramp_regs() -> dict[int, int]:
    return build.sdp(1, 8, formats=0x24000001, rdma=0xF821) | build.TABLE | {0x4070: 0x302}


_STEPS = np.tile(np.array([0, 32, 64, 320, -32, -64, -320, 16384], np.int16), (1, 1))


def test_a_ramp_reads_its_own_indices_back() -> None:
    machine = _machine(np.arange(-512, 1), np.arange(513))
    assert _apply(machine, _ramp_regs(), _STEPS).tolist() == [[0, 1, 2, 10, -1, -2, -10, 512]]


def test_tables_survive_other_programs_and_not_a_reset() -> None:
    machine = _machine(np.arange(-512, 1), np.arange(513))
    copy = build.sdp(1, 16, formats=0, rdma=0x7801)
    _apply(machine, copy, np.zeros((1, 16), np.int8))
    first = _apply(machine, _ramp_regs(), _STEPS)
    assert first.any()
    fresh = Machine()
    fresh.memory = machine.memory
    assert not _apply(fresh, _ramp_regs(), _STEPS).any()


def test_a_later_load_replaces_only_what_it_writes() -> None:
    machine = _machine(np.arange(-512, 1), np.arange(513))
    words = [
        programs.word(programs.DPU, 0x30000 | 10, 0x4100),
        programs.word(programs.DPU, 0xFFFF_FF9C, 0x4104),
        programs.word(programs.DPU, 7, 0x4104),
        programs.word(programs.DPU, 0, 0x4100),
        programs.word(programs.DPU, 99, 0x4104),
    ]
    copy = build.sdp(1, 16, formats=0, rdma=0x7801, src=build.CODE, dst=build.BLOCK)
    body = [*programs.body(copy, build.SDP_ORDER), *words]
    assert machine.run([*body, *programs.trailer(enable=0x18)]).fault is None
    assert machine.core.lut.tables[1, 9:13].tolist() == [9, -100, 7, 12]
    assert machine.core.lut.tables[0].tolist() == list(range(-512, 1))


@pytest.mark.parametrize(
    "words", [[(0x20000, 0x4100), *[(1, 0x4104)] * 514], [(0x30201, 0x4100), (1, 0x4104)]]
)
def test_an_entry_beyond_the_last_is_an_error(words: list[tuple[int, int]]) -> None:
    copy = build.sdp(1, 16, formats=0, rdma=0x7801, src=build.CODE, dst=build.BLOCK)
    body = [*programs.body(copy, build.SDP_ORDER), *(programs.word(programs.DPU, v, r) for v, r in words)]
    fault = Machine().run([*body, *([0] * (len(body) % 2)), *programs.trailer(enable=0x18)]).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "table"


def test_an_entry_takes_no_more_than_a_sign_in_its_upper_half() -> None:
    body = [programs.word(programs.DPU, 0x10001, 0x4104), 0]
    fault = Machine().run([*body, *programs.trailer(enable=0x18)]).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "field"


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        ({0x4108: 0x64}, UnsupportedOperation, "multiplexing"),
        ({0x4108: 0xE8}, UnsupportedOperation, "calculation mode"),
        ({0x4108: 0x6A}, UnsupportedOperation, "expanded table"),
        ({0x4110: 0xFFFFBFFF}, ProgramError, "table LE from -16385 to 0"),
        ({0x411C: 0x80000000}, ProgramError, "table LO"),
        ({0x410C: 0xFF0500}, ProgramError, "index select 255"),
    ],
)
def test_settings_that_are_not_a_table(change: dict[int, int], kind: type, what: str) -> None:
    fault = Machine().run(build.program(_ramp_regs() | change, 0x18)).fault
    assert isinstance(fault, kind), fault
    assert what in str(fault)


def test_a_table_on_too_many_fp16_elements_is_refused() -> None:
    regs = (
        build.sdp(4097, 8, formats=0x48000002, rdma=0x17849) | build.TABLE | {0x4070: 0x302, 0x4084: 0x10001}
    )
    fault = Machine().run(build.program(regs, 0x18)).fault
    assert isinstance(fault, ProgramError)
    assert "32768 at most" in str(fault)
