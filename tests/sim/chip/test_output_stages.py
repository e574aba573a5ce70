"""BS, BN and EW behind a convolution against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.sim.chip.faults import DmaFault, NeverCompletes, ProgramError, UnsupportedOperation
from tests.sim.chip import build
from tests.sim.chip.build import PRECISIONS, Machine

M, K, N = 5, 64, 64


def _sums(seed: int, kind: type = np.int8, low: int = -128, high: int = 128) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(low, high, (M, K)).astype(kind), rng.integers(low, high, (N, K)).astype(kind)
    return a, b, a.astype(np.int64) @ b.T.astype(np.int64)


def _convolve(
    name: str, a: np.ndarray, b: np.ndarray, kind: type, change: dict[int, int], enable: int = 0xD,
    operands: dict[int, np.ndarray] | None = None,
) -> np.ndarray:  # fmt: skip
    p = PRECISIONS[name]
    machine = Machine()
    machine.put(build.A, a)
    machine.put(build.B, build.tiles(b, p))
    for iova, data in (operands or {}).items():
        machine.put(iova, data)
    out = machine.output(len(a) * len(b) * p.out_bytes)
    regs = build.matmul(p, "rows", len(a), a.shape[1], len(b)) | {0x5004: 0xE, 0x5068: 0x01010101} | change
    run = machine.run(build.program(regs, enable))
    assert run.fault is None, run.fault
    return out.view(kind).reshape(len(a), len(b))


def _shifted(product: int, positive: int, negative: int) -> int:
    return round(Fraction(product, 1 << (positive if product >= 0 else negative)))


_SHIFTS = st.integers(0, 30)
_FACTOR = st.integers(-0x8000, 0x7FFF)
_ADDEND = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=50, deadline=None)
@given(_ADDEND, _FACTOR, _SHIFTS, _SHIFTS, st.sampled_from([2, 4]), st.integers(0, 2**31))
def test_bs_adds_then_multiplies_and_shifts_by_sign(
    addend: int, factor: int, positive: int, negative: int, algo: int, seed: int
) -> None:
    a, b, sums = _sums(seed)
    change = {
        0x4040: algo << 16 | 0x40, 0x4044: addend & 0xFFFFFFFF, 0x4048: (factor & 0xFFFF) << 16 | positive << 8,
        0x4010: 0x80000000 | negative << 4,
    }  # fmt: skip
    sign = 1 if algo == 2 else -1
    expected = [
        [
            min(max(_shifted((int(x) + sign * addend) * factor, positive, negative), -(2**31)), 2**31 - 1)
            for x in row
        ]
        for row in sums
    ]
    assert _convolve("int8->int32", a, b, np.int32, change).tolist() == expected


@settings(max_examples=50, deadline=None)
@given(_ADDEND, _FACTOR, _SHIFTS, _SHIFTS, st.integers(0, 2**31))
def test_bn_multiplies_then_adds_in_units_of_the_product(
    addend: int, factor: int, positive: int, negative: int, seed: int
) -> None:
    a, b, sums = _sums(seed)
    change = {
        0x4060: 0x20040, 0x4064: addend & 0xFFFFFFFF, 0x4068: (factor & 0xFFFF) << 16 | positive << 8,
        0x4010: 0x80000000 | negative << 10,
    }  # fmt: skip
    expected = [
        [min(max(_shifted(int(x) * factor + addend, positive, negative), -(2**31)), 2**31 - 1) for x in row]
        for row in sums
    ]
    assert _convolve("int8->int32", a, b, np.int32, change).tolist() == expected


def test_sums_of_int16_stay_exact_through_both_stages() -> None:
    """48-bit sums times two 16-bit factors leave 64 bits; the result is still exact."""
    a, b = np.full((M, 8192), -32768, np.int16), np.full((16, 8192), -32768, np.int16)
    change = {
        0x4040: 0x42, 0x4048: 0x7FFF0000, 0x4060: 0x42, 0x4068: 0x7FFF << 16 | 50 << 8,
        0x4010: 0x84000001 | 50 << 10,
    }  # fmt: skip
    out = _convolve("int16->int32", a, b, np.int32, change)
    assert (out == round(Fraction(2**43 * 0x7FFF * 0x7FFF, 1 << 50))).all()


def test_relu_ceiling_and_prelu() -> None:
    a, b, sums = _sums(1)
    assert np.array_equal(_convolve("int8->int32", a, b, np.int32, {0x4040: 0x12}), np.maximum(sums, 0))
    clamped = _convolve("int8->int32", a, b, np.int32, {0x4060: 0x92, 0x406C: 5000})
    assert np.array_equal(clamped, np.clip(sums, 0, 5000))
    prelu = {0x4040: 0x62, 0x4048: 3 << 16 | 2 << 8, 0x4010: 0x80000020}
    expected = np.where(sums < 0, np.rint(sums * 3 / 4), sums)
    assert np.array_equal(_convolve("int8->int32", a, b, np.int32, prelu), expected)


def test_stages_of_a_floating_pipeline() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (M, K)).astype(np.float16), rng.integers(-3, 4, (16, K)).astype(np.float16)
    sums = a.astype(np.float32) @ b.T.astype(np.float32)
    factor, addend = np.float16(0.3), np.float32(1.7)
    bits = int(factor.view(np.uint16)) << 16, int(addend.view(np.uint32))
    bs = _convolve("fp16->fp32", a, b, np.float32, {0x4040: 0x20040, 0x4044: bits[1], 0x4048: bits[0]})
    assert np.array_equal(bs, (sums + addend) * np.float32(factor))
    bn = _convolve("fp16->fp32", a, b, np.float32, {0x4060: 0x40040, 0x4064: bits[1], 0x4068: bits[0]})
    assert np.array_equal(bn, sums * np.float32(factor) - addend)
    ceiling = int(np.float32(2.5).view(np.uint32))
    relu = _convolve("fp16->fp32", a, b, np.float32, {0x4040: 0x92, 0x404C: ceiling})
    assert np.array_equal(relu, np.clip(sums, 0, 2.5))
    prelu = _convolve("fp16->fp32", a, b, np.float32, {0x4040: 0x62, 0x4048: bits[0]})
    assert np.array_equal(prelu, np.where(sums < 0, sums * np.float32(factor), sums))


def _block(bias: np.ndarray, zero_point: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """32 bytes per four channels: int32 bias, int16 minus zero point, uint16 multiplier."""
    parts = []
    for c in range(0, len(bias), 4):
        parts.append(bias[c : c + 4].astype("<i4").tobytes())
        parts.append(zero_point[c : c + 4].astype("<i2").tobytes())
        parts.append(factor[c : c + 4].astype("<u2").tobytes())
    return np.frombuffer(b"".join(parts), np.uint8)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 0x7FFF), st.integers(0, 31), st.integers(-128, 127), st.integers(0, 2**31))
def test_bias_and_a_multiplier_per_channel(scale: int, shift: int, zero: int, seed: int) -> None:
    a, b, sums = _sums(seed)
    rng = np.random.default_rng(seed)
    bias, factor = rng.integers(-(2**20), 2**20, N), rng.integers(0, 1 << 16, N)
    change = build.PER_CHANNEL | {0x4080: zero & 0xFFFFFFFF, 0x4084: scale, 0x4088: shift}
    block = _block(bias, np.zeros(N), factor)
    out = _convolve("int8->int8", a, b, np.int8, change, 0x1D, {build.BLOCK: block})

    def one(x: int, n: int) -> int:
        first = _shifted((x + int(bias[n])) * int(factor[n]), 14, 14)
        return min(max(round(Fraction(first * scale, 1 << shift)) + zero, -128), 127)

    assert out.tolist() == [[one(int(x), n) for n, x in enumerate(row)] for row in sums]


def test_a_bias_per_channel_alone() -> None:
    a, b, sums = _sums(5)
    bias = np.arange(N, dtype=np.int32) * 1000 - 30000
    change = {0x4040: 0x20150, 0x501C: 2, 0x5020: build.BLOCK, 0x5044: 0x7810}
    out = _convolve("int8->int32", a, b, np.int32, change, 0x1D, {build.BLOCK: bias})
    assert np.array_equal(out, sums + bias)


def test_a_bn_factor_per_channel() -> None:
    a, b, sums = _sums(6)
    factor = (np.arange(N) * 100 - 3000).astype(np.int16)
    change = {0x4060: 0x42, 0x4068: 4 << 8 | 1, 0x4010: 0x80000000 | 4 << 10, 0x5028: 8, 0x502C: build.BLOCK}
    out = _convolve("int8->int32", a, b, np.int32, change | {0x5044: 0x7810}, 0x1D, {build.BLOCK: factor})
    assert np.array_equal(out, np.rint(sums * factor.astype(np.int64) / 16))


def test_weight_zero_points_are_named() -> None:
    zeros = np.zeros(N)
    zeros[40] = 3
    machine = Machine()
    machine.put(build.A, np.zeros((M, K), np.int8))
    machine.put(build.B, np.zeros((N, K), np.int8))
    machine.put(build.BLOCK, _block(np.zeros(N), zeros, np.ones(N)))
    out = machine.output(M * N)
    regs = build.matmul(PRECISIONS["int8->int8"], "rows", M, K, N) | build.PER_CHANNEL | {0x5004: 0xE}
    fault = machine.run(build.program(regs, 0x1D)).fault
    assert isinstance(fault, UnsupportedOperation)
    assert "zero points" in str(fault)
    assert (out == 0x5A).all()


_FUSED = {
    "mul": (0x108003C4, np.multiply), "add": (0x108202C0, np.add), "max": (0x108002C0, np.maximum),
    "min": (0x108102C0, np.minimum),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["cube", "packed"])
@pytest.mark.parametrize("name", sorted(_FUSED))
@pytest.mark.parametrize("n", [16, 48])
def test_an_operand_beside_an_fp16_matmul_from_two_engines_in_turn(layout: str, name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    m, k = 12, 64
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (n, k)).astype(np.float16)
    operand = rng.standard_normal((m, n)).astype(np.float16)
    word, operation = _FUSED[name]
    if layout == "cube":
        data = build.cube(operand, 8)
        regs = build.beside(m, n, word, build.OPERAND, build.OPERAND + 16 * m, 16 * m, 16 * m)
    else:
        data = np.zeros(3 * n * m, np.float16)
        r, c = np.mgrid[:m, :n]
        block = c // 8
        data[(block + 1) // 2 * 16 * m + block // 2 * 8 * m + 8 * r + c % 8] = operand
        regs = build.beside(m, n, word, build.OPERAND, build.OPERAND + 32 * m, 16 * m, 32 * m)
    out = _convolve("fp16->fp16", a, b, np.float16, regs, 0x1D, {build.OPERAND: data})
    sums = a.astype(np.float32) @ b.T.astype(np.float32)
    assert np.array_equal(out, operation(sums, operand.astype(np.float32)).astype(np.float16))


def test_read_engines_without_an_operand_need_the_main_one_disabled() -> None:
    a, b, sums = _sums(8)
    out = _convolve("int8->int32", a, b, np.int32, {0x5044: 0x7810, 0x5034: 1}, 0x1D)
    assert np.array_equal(out, sums)
    regs = build.matmul(PRECISIONS["int8->int32"], "rows", M, K, N) | {0x5044: 0x7800, 0x5034: 1}
    fault = Machine().run(build.program(regs, 0x1D)).fault
    assert isinstance(fault, NeverCompletes)
    assert fault.rule == "operand"


@pytest.mark.parametrize(
    ("name", "enable", "change", "kind", "what"),
    [
        ("int8->int8", 0xD, build.PER_CHANNEL, NeverCompletes, "read engines are off"),
        ("int8->int8", 0x1D, build.PER_CHANNEL | {0x501C: 0}, NeverCompletes, "fetches none"),
        ("int8->int8", 0x1D, build.PER_CHANNEL | {0x501C: 2}, UnsupportedOperation, "data use 1, 7 expected"),
        ("int8->int8", 0x1D, build.PER_CHANNEL | {0x5020: build.BLOCK + 4}, ProgramError, "not a multiple of 16"),
        ("int8->int8", 0x1D, {0x4040: 0x20150, 0x4050: 0x125, 0x501C: 2, 0x5044: 0x7810}, UnsupportedOperation, "zero points"),
        ("int8->int8", 0xD, {0x4054: 3}, UnsupportedOperation, "zero points"),
        ("fp16->fp32", 0x1D, {0x4040: 0x20150, 0x501C: 2, 0x5044: 0x7810}, UnsupportedOperation, "floating-point BS"),
        ("fp16->fp32", 0xD, {0x4040: 0x42, 0x4048: 0x100}, UnsupportedOperation, "shift in a floating-point"),
        ("int8->int32", 0xD, {0x4040: 0x42, 0x4048: 2}, UnsupportedOperation, "shift from memory"),
        ("int8->int32", 0xD, {0x4060: 0x20060, 0x4064: 1}, UnsupportedOperation, "BN PReLU"),
        ("int8->int8", 0x1D, {0x4070: 0x904202C0, 0x5034: 0x40000004, 0x5044: 0x7D00}, UnsupportedOperation, "beside a int8"),
        ("fp16->fp16", 0xD, build.beside(12, 16, 0x108202C0, 0, 0, 0, 0), NeverCompletes, "read engines are off"),
        ("fp16->fp16", 0x1D, build.beside(12, 16, 0x108202C0, 0, 0, 0, 0) | {0x5034: 1}, NeverCompletes, "element read engine"),
        ("fp16->fp16", 0x1D, build.beside(12, 16, 0x108202C0, 0, 0, 0, 0) | {0x4078: 2}, UnsupportedOperation, "conversion of floating"),
        ("fp16->fp16", 0x1D, build.beside(12, 16, 0x108203C0, 0, 0, 0, 0), ProgramError, "silently dropped"),
    ],
)  # fmt: skip
def test_operands_that_are_not_there_or_not_known(
    name: str, enable: int, change: dict[int, int], kind: type, what: str
) -> None:
    n = PRECISIONS[name].group
    regs = build.matmul(PRECISIONS[name], "rows", 12, K, n) | change
    fault = Machine().run(build.program(regs, enable)).fault
    assert isinstance(fault, kind), fault
    assert what in str(fault)


def test_a_parameter_block_outside_the_buffers_is_a_read_error() -> None:
    machine = Machine()
    machine.put(build.A, np.zeros((M, K), np.int8))
    machine.put(build.B, np.zeros((N, K), np.int8))
    machine.put(build.BLOCK, np.zeros(N * 8 - 16, np.uint8))
    out = machine.output(M * N)
    regs = build.matmul(PRECISIONS["int8->int8"], "rows", M, K, N) | build.PER_CHANNEL
    run = machine.run(build.program(regs, 0x1D))
    assert isinstance(run.fault, DmaFault)
    assert run.raw_status & 0x1000
    assert run.fault.iova == build.BLOCK + N * 8 - 16
    assert (out == 0x5A).all()
