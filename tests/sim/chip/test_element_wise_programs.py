"""Stand-alone programs: every row of the published table against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.sim.chip.faults import DmaFault, NeverCompletes, ProgramError, UnsupportedOperation
from tests.sim import programs
from tests.sim.chip import build
from tests.sim.chip.build import Machine

_KIND = {8: np.int8, 16: np.int16, 32: np.int32}


def _shifted(product: int, shift: int) -> int:
    return round(Fraction(product, 1 << shift))


def _saturated(value: int, bits: int) -> int:
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


def _two_operands(
    regs: dict[int, int], a: np.ndarray, b: np.ndarray, kind: type, *, b_bytes: np.ndarray | None = None
) -> np.ndarray:
    """Run on cubes of ``a`` and ``b`` [M][N]; the result [M][N]."""
    per_atom = 16 // a.itemsize
    machine = Machine()
    machine.put(build.A, build.cube(a, per_atom))
    machine.put(build.OPERAND, build.cube(b, per_atom) if b_bytes is None else b_bytes)
    out = machine.output(a.nbytes)
    run = machine.run(build.program(regs, 0x18))
    assert run.fault is None, run.fault
    assert run.raw_status == 0x100
    return build.from_cube(out.view(kind), *a.shape)


def _one_operand(regs: dict[int, int], a: np.ndarray) -> np.ndarray:
    machine = Machine()
    machine.put(build.A, build.cube(a, 16 // a.itemsize))
    out = machine.output(a.nbytes)
    run = machine.run(build.program(regs, 0x18))
    assert run.fault is None, run.fault
    return build.from_cube(out.view(a.dtype), *a.shape)


def _pair(bits: int, m: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low, high = -(1 << bits - 1), 1 << bits - 1
    return tuple(rng.integers(low, high, (m, n)).astype(_KIND[bits]) for _ in range(2))


_ZERO_POINTS = st.integers(-128, 127)
_CUBES = st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**31))
_INTEGER = {
    # bits: (0x4010, 0x4070 of MUL, of ADD, 0x5034, 0x5044, elements per atom)
    8: (0, 0x904002C4, 0x904202C0, 0x40000004, 0x7801, 16),
    16: (0x24000001, 0x908002C4, 0x908202C0, 0x40000008, 0xF821, 8),
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([8, 16]),
    _CUBES,
    _ZERO_POINTS,
    _ZERO_POINTS,
    _ZERO_POINTS,
    st.integers(1, 0x7FFF),
    st.integers(0, 40),
)
def test_integer_mul(
    bits: int, sizes: tuple[int, int, int], za: int, zb: int, zo: int, scale: int, shift: int
) -> None:
    formats, mul, _, erdma, rdma, per_atom = _INTEGER[bits]
    m, n = sizes[0], sizes[1] * per_atom
    a, b = _pair(bits, m, n, sizes[2])
    regs = build.sdp(m, n, formats=formats, rdma=rdma, erdma=erdma)
    regs |= {0x4040: 0x20050, 0x4044: za & 0xFFFFFFFF, 0x4070: mul, 0x4074: zb & 0xFFFFFFFF, 0x4078: 1}
    regs |= {0x4080: zo & 0xFFFFFFFF, 0x4084: scale, 0x4088: shift}
    expected = [
        [
            _saturated(_shifted((int(x) + za) * (int(e) + zb) * scale, shift) + zo, bits)
            for x, e in zip(*rows, strict=True)
        ]
        for rows in zip(a, b, strict=True)
    ]
    assert _two_operands(regs, a, b, _KIND[bits]).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([8, 16]),
    _CUBES,
    st.tuples(_ZERO_POINTS, _ZERO_POINTS, _ZERO_POINTS),
    st.tuples(st.integers(-0x8000, 0x7FFF), st.integers(0, 20)),
    st.tuples(st.integers(-0x8000, 0x7FFF), st.integers(0, 20)),
    st.tuples(st.integers(1, 0x7FFF), st.integers(0, 40)),
)
def test_integer_add(
    bits: int,
    sizes: tuple[int, int, int],
    zeros: tuple[int, int, int],
    first: tuple[int, int],
    second: tuple[int, int],
    final: tuple[int, int],
) -> None:
    (za, zb, zo), (ma, sa), (kb, sb) = zeros, first, second
    formats, _, add, erdma, rdma, per_atom = _INTEGER[bits]
    m, n = sizes[0], sizes[1] * per_atom
    a, b = _pair(bits, m, n, sizes[2])
    regs = build.sdp(m, n, formats=formats | sa << 4, rdma=rdma, erdma=erdma)
    regs |= {0x4040: 0x20040, 0x4044: za & 0xFFFFFFFF, 0x4048: (ma & 0xFFFF) << 16 | sa << 8, 0x4070: add}
    regs |= {0x4074: zb & 0xFFFFFFFF, 0x4078: sb << 16 | (kb & 0xFFFF)}
    regs |= {0x4080: zo & 0xFFFFFFFF, 0x4084: final[0], 0x4088: final[1]}

    def one(x: int, e: int) -> int:
        total = _shifted((x + za) * ma, sa) + _shifted((e + zb) * kb, sb)
        return _saturated(_shifted(total * final[0], final[1]) + zo, bits)

    expected = [[one(int(x), int(e)) for x, e in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]
    assert _two_operands(regs, a, b, _KIND[bits]).tolist() == expected


def test_vendor_int8_add_of_equal_scales_is_the_rounded_mean() -> None:
    """a * 16384 + b * 16384, times 16384, shifted by 29: RNE((a + b) / 2)."""
    a, b = _pair(8, 16, 32, 9)
    regs = build.sdp(16, 32, formats=0, rdma=0x7801, erdma=0x40000004)
    regs |= {
        0x4040: 0x20040,
        0x4048: 0x40000000,
        0x4070: 0x904202C0,
        0x4078: 0x4000,
        0x4084: 0x4000,
        0x4088: 29,
    }
    expected = np.rint((a.astype(np.float64) + b) / 2)
    assert np.array_equal(_two_operands(regs, a, b, np.int8), expected)


def test_a_shift_for_positive_numbers_alone_leaves_negative_ones_unshifted() -> None:
    a = np.tile(np.array([8, -8, 3, -3, 1, -1, 0, 127], np.int16), (1, 1))
    regs = build.sdp(1, 8, formats=0x24000001, rdma=0xF821)
    regs |= {0x4040: 0x42, 0x4048: 1 << 16 | 1 << 8, 0x4070: 0x383}
    assert _one_operand(regs, a).tolist() == [[4, -8, 2, -3, 0, -1, 0, 64]]
    both = _one_operand(regs | {0x4010: 0x24000011}, a)
    assert both.tolist() == [[4, -4, 2, -2, 0, 0, 0, 64]]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([0x90000004, 0xB0000004]), _CUBES)
def test_int32_add_and_its_sum_as_fp32(formats: int, sizes: tuple[int, int, int]) -> None:
    m, n = sizes[0], 4 * sizes[1]
    a, b = _pair(32, m, n, sizes[2])
    regs = build.sdp(m, n, formats=formats, rdma=0x27881, erdma=0x4000000C) | {0x4070: 0x10C203C0}
    total = a.astype(np.int64) + b
    if formats == 0x90000004:
        expected = np.clip(total, -(2**31), 2**31 - 1)
        assert np.array_equal(_two_operands(regs, a, b, np.int32), expected)
    else:
        assert np.array_equal(
            _two_operands(regs, a, b, np.float32), total.astype(np.float64).astype(np.float32)
        )


def test_int32_add_in_place() -> None:
    a, b = _pair(32, 8, 16, 4)
    regs = build.sdp(8, 16, formats=0x90000004, rdma=0x27881, erdma=0x4000000C, dst=build.A) | {
        0x4070: 0x10C203C0
    }
    machine = Machine()
    raw = machine.put(build.A, build.cube(a, 4))
    machine.put(build.OPERAND, build.cube(b, 4))
    assert machine.run(build.program(regs, 0x18)).fault is None
    total = np.clip(a.astype(np.int64) + b, -(2**31), 2**31 - 1)
    assert np.array_equal(build.from_cube(raw.view(np.int32), 8, 16), total)


_FP16 = {
    "mul": (0x108003C4, np.multiply),
    "add": (0x108202C0, np.add),
    "max": (0x108002C0, np.maximum),
    "min": (0x108102C0, np.minimum),
    "minus": (0x108402C0, np.subtract),
    "div": (0x108302C0, np.divide),
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(_FP16)), _CUBES)
def test_fp16_operations(name: str, sizes: tuple[int, int, int]) -> None:
    m, n = sizes[0], 8 * sizes[1]
    rng = np.random.default_rng(sizes[2])
    a, b = (rng.standard_normal((m, n)).astype(np.float16) for _ in range(2))
    word, operation = _FP16[name]
    regs = build.sdp(m, n, formats=0x48000002, rdma=0x17849, erdma=0x40000008) | {
        0x4070: word,
        0x4084: 0x10001,
    }
    expected = operation(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    assert np.array_equal(_two_operands(regs, a, b, np.float16), expected)


@pytest.mark.filterwarnings("error")
def test_fp16_special_numbers() -> None:
    a = np.array([[np.nan, np.inf, -np.inf, 65504, 1, 0, -1, 0]], np.float16)
    b = np.array([[1, 1, np.inf, 65504, 0, 0, 0, -1]], np.float16)
    base = build.sdp(1, 8, formats=0x48000002, rdma=0x17849, erdma=0x40000008) | {0x4084: 0x10001}
    total = _two_operands(base | {0x4070: 0x108202C0}, a, b, np.float16)[0]
    assert np.isnan(total[[0, 2]]).all()
    assert total[1] == np.inf
    assert total[3] == np.inf
    quotient = _two_operands(base | {0x4070: 0x108302C0}, a, b, np.float16)[0]
    assert quotient[4] == np.inf
    assert quotient[6] == -np.inf
    assert np.isnan(quotient[5])


@pytest.mark.parametrize(("code", "operation"), [(5, np.abs), (6, np.negative), (7, np.floor), (8, np.ceil)])
def test_fp16_operations_of_one_operand(code: int, operation: np.ufunc) -> None:
    a = np.random.default_rng(code).standard_normal((5, 16)).astype(np.float16)
    regs = build.sdp(5, 16, formats=0x48000002, rdma=0x17849) | {0x4070: 0x380 | code << 16, 0x4084: 0x10001}
    assert np.array_equal(_one_operand(regs, a), operation(a))


@pytest.mark.parametrize(("code", "operation"), [(0, np.maximum), (1, np.minimum), (4, np.subtract)])
def test_integer_alu_codes(code: int, operation: np.ufunc) -> None:
    a, b = _pair(8, 6, 32, code)
    regs = build.sdp(6, 32, formats=0, rdma=0x7801, erdma=0x40000004) | {0x4070: 0x104003C0 | code << 16}
    expected = np.clip(operation(a.astype(np.int64), b), -128, 127)
    assert np.array_equal(_two_operands(regs, a, b, np.int8), expected)


def test_fp32_dequantisation_of_one_row() -> None:
    """fp32 x fp16 scalar x fp16 vector: one row out of a cube of several, contiguous result."""
    rng = np.random.default_rng(1)
    rows, n, row = 6, 32, 4
    data = rng.standard_normal((rows, n)).astype(np.float32)
    scalar = np.float16(0.37)
    vector = rng.standard_normal(n).astype(np.float16)
    regs = build.sdp(1, n, formats=0xB4000005, rdma=0x2F8A1, erdma=0x4000000C)
    regs |= {0x5018: build.A + 16 * row, 0x504C: 16 * (rows - 1), 0x4024: 16, 0x40C0: 16, 0x5040: 16}
    regs |= {0x4040: 0x42, 0x4048: int(scalar.view(np.uint16)) << 16, 0x4070: 0x10C003C4}
    machine = Machine()
    machine.put(build.A, build.cube(data, 4))
    machine.put(build.OPERAND, vector.view(np.uint16).astype(np.uint32) | 0xABCD0000)
    out = machine.output(4 * n)
    assert machine.run(build.program(regs, 0x18)).fault is None
    expected = data[row] * np.float32(scalar) * vector.astype(np.float32)
    assert np.array_equal(out.view(np.float32), expected)


@pytest.mark.parametrize("n", [32, 7680])
def test_int8_copy(n: int) -> None:
    a, _ = _pair(8, 3, n, n)
    assert np.array_equal(_one_operand(build.sdp(3, n, formats=0, rdma=0x7801), a), a)


@pytest.mark.parametrize(
    ("kind", "formats", "rdma", "scale"),
    [
        (np.int8, 0, 0x7801, 1),
        (np.int16, 0x24000001, 0xF821, 1),
        (np.float16, 0x48000002, 0x17849, 0x10001),
    ],
)
def test_relu_of_one_input(kind: type, formats: int, rdma: int, scale: int) -> None:
    a = np.random.default_rng(2).integers(-100, 100, (7, 32)).astype(kind)
    regs = build.sdp(7, 32, formats=formats, rdma=rdma) | {0x4040: 0x12, 0x4084: scale}
    assert np.array_equal(_one_operand(regs, a), np.maximum(a, 0))


def test_an_int16_operand_per_channel() -> None:
    a, b = _pair(16, 9, 24, 6)
    regs = build.sdp(9, 24, formats=0x24000001, rdma=0xF821, erdma=8) | {0x4070: 0x908202C0, 0x4078: 1}
    out = _two_operands(regs, a, b, np.int16, b_bytes=b[0])
    assert np.array_equal(out, np.clip(a.astype(np.int64) + b[0], -32768, 32767))


def test_cubes_inside_larger_cubes() -> None:
    """Surface notches of both inputs and of the output, and several lines with a notch at their end."""
    rng = np.random.default_rng(8)
    width, height, channels, total = 5, 3, 32, 40
    a, b = (rng.integers(-50, 50, (2, total, 16)).astype(np.int8) for _ in range(2))
    regs = build.sdp(width * height, channels, formats=0, rdma=0x7801, erdma=0x40000004)
    regs |= {
        0x4030: width - 1, 0x4034: height - 1, 0x405C: height - 1 << 16 | width - 1, 0x4038: 2 << 16,
        0x40C0: 16 * total, 0x4024: 16 * total, 0x500C: width - 1, 0x5010: 3 << 16 | height - 1, 0x5048: 1 << 19,
        0x504C: 16 * (total - (width + 1) * height), 0x5040: 16 * width, 0x506C: 16 * (total - width),
        0x4070: 0x104203C0,
    }  # fmt: skip
    machine = Machine()
    machine.put(build.A, a)
    machine.put(build.OPERAND, b)
    out = machine.output(2 * total * 16, fill=0)
    run = machine.run(build.program(regs, 0x18))
    assert run.fault is None, run.fault
    got = out.view(np.int8).reshape(2, total, 16)
    expected = np.zeros_like(got)
    for line in range(height):
        for column in range(width):
            total_at = a[:, line * (width + 1) + column].astype(int) + b[:, line * (width + 3) + column]
            expected[:, line * (width + 2) + column] = total_at
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("kind", "formats", "rdma", "scale", "last"),
    [
        (np.int8, 0, 0x7801, 1, 8176),
        (np.int16, 0x24000001, 0xF821, 1, 8176),
        (np.float16, 0x48000002, 0x17849, 0x10001, 8188),
    ],
)
def test_row_ceilings(kind: type, formats: int, rdma: int, scale: int, last: int) -> None:
    n = 16 // np.dtype(kind).itemsize
    a = np.random.default_rng(2).integers(-100, 100, (last + 1, n)).astype(kind)
    assert np.array_equal(
        _one_operand(build.sdp(last, n, formats=formats, rdma=rdma) | {0x4084: scale}, a[:last]), a[:last]
    )
    machine = Machine()
    machine.put(build.A, build.cube(a, n))
    out = machine.output(a.nbytes)
    fault = machine.run(
        build.program(build.sdp(last + 1, n, formats=formats, rdma=rdma) | {0x4084: scale}, 0x18)
    ).fault
    assert isinstance(fault, NeverCompletes)
    assert fault.rule == "rows"
    assert (out == 0x5A).all()


def _add() -> dict[int, int]:
    return build.sdp(4, 32, formats=0, rdma=0x7801, erdma=0x40000004) | {0x4070: 0x904202C0}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({0x5034: 1}, "element read engine is disabled"),
        ({0x5044: 0x7811}, "main read engine is disabled"),
        ({0x4040: 0x20140}, "BS waits for operands"),
    ],
)
def test_waiting_for_data_nobody_fetches(change: dict[int, int], what: str) -> None:
    fault = Machine().run(build.program(_add() | change, 0x18)).fault
    assert isinstance(fault, NeverCompletes)
    assert fault.rule == "operand"
    assert what in str(fault)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({0x4010: 0x20000000}, "int8 to int8 to int16"),
        ({0x4010: 0x6C000003}, "bf16"),
        ({0x400C: 0x1E4}, "without a convolution"),
        ({0x4070: 0x904302C0}, "integer element-wise div"),
        ({0x4070: 0x904902C0}, "element-wise operation 9"),
        ({0x4070: 0x90420280}, "register operand"),
        ({0x4070: 0x906202C0}, "comparison"),
        ({0x5034: 0x80000004}, "data mode 2"),
        ({0x5034: 0x00000004}, "per channel in a int8 pipeline"),
        ({0x5034: 0x60000004}, "operand surface mode"),
        ({0x4070: 0x908202C0, 0x5034: 0x40000008}, "operands of 2 bytes in a int8 pipeline"),
        ({0x5048: 1}, "unpooling"),
        ({0x4040: 0x10040}, "BS operation 1"),
    ],
)
def test_what_is_recognised_and_not_executed_is_named(change: dict[int, int], what: str) -> None:
    fault = Machine().run(build.program(_add() | change, 0x18)).fault
    assert isinstance(fault, UnsupportedOperation), fault
    assert what in str(fault)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({0x5034: 0x40000008}, "operand size"),
        ({0x500C: 7}, "geometry"),
        ({0x5014: 15}, "geometry"),
        ({0x403C: 0x00070007, 0x4058: 7}, "geometry"),
        ({0x4058: 15}, "geometry"),
        ({0x4050: 0x126}, "geometry"),
        ({0x5044: 0xF821}, "precision"),
        ({0x5018: build.A + 8}, "alignment"),
        ({0x5038: build.OPERAND + 1}, "alignment"),
        ({0x4088: 63}, "output"),
    ],
)
def test_a_broken_rule_is_named(change: dict[int, int], rule: str) -> None:
    fault = Machine().run(build.program(_add() | change, 0x18)).fault
    assert isinstance(fault, ProgramError), fault
    assert fault.rule == rule, fault


def test_an_fp16_add_with_its_converter_bypassed_is_refused() -> None:
    regs = build.sdp(4, 16, formats=0x48000002, rdma=0x17849, erdma=0x40000008)
    fault = Machine().run(build.program(regs | {0x4070: 0x108203C0, 0x4084: 0x10001}, 0x18)).fault
    assert isinstance(fault, ProgramError)
    assert "silently dropped" in str(fault)


@pytest.mark.parametrize(("missing", "write"), [(build.A, False), (build.OPERAND, False), (build.C, True)])
def test_reads_and_writes_are_checked_before_anything_is_written(missing: int, write: bool) -> None:
    machine = Machine()
    for iova in (build.A, build.OPERAND, build.C):
        machine.put(iova, np.full(4 * 32 - (16 if iova == missing else 0), 3, np.int8))
    run = machine.run(build.program(_add(), 0x18))
    assert isinstance(run.fault, DmaFault)
    assert run.fault.write is write
    assert run.fault.iova == missing + 4 * 32 - 16
    assert (machine.memory[build.C] == 3).all()


def test_behind_a_matmul_an_element_wise_program_that_uses_bs_stalls() -> None:
    p = build.PRECISIONS["int8->int8"]
    rng = np.random.default_rng(4)
    a, b = rng.integers(-3, 4, (8, 32)).astype(np.int8), rng.integers(-1, 2, (32, 32)).astype(np.int8)
    product = build.program(build.matmul(p, "fold", 8, 32, 32) | {0x4020: build.BLOCK})
    copy = build.sdp(8, 32, formats=0, rdma=0x7801, src=build.BLOCK)
    machine = Machine()
    machine.put(build.A, build.cube(a, 16))
    machine.put(build.B, build.tiles(b, p))
    machine.put(build.BLOCK, np.zeros(8 * 32, np.int8))
    out = machine.output(8 * 32)
    run = machine.run(product, build.program(copy | {0x4040: 0x12}, 0x18))
    assert isinstance(run.fault, NeverCompletes)
    assert run.fault.rule == "chain"
    assert run.programs == 1
    assert machine.run(product, build.program(copy, 0x18)).fault is None
    assert np.array_equal(build.from_cube(out.view(np.int8), 8, 32), programs.exact(a, b))


def test_time_follows_the_bytes_moved() -> None:
    machine = Machine()
    machine.put(build.A, np.zeros(8176 * 32, np.int8))
    machine.output(8176 * 32)
    run = machine.run(build.program(build.sdp(8176, 32, formats=0, rdma=0x7801), 0x18))
    assert run.predicted_ns == int(4380 + 2 * 8176 * 32 / 10.8)
