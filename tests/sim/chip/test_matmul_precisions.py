"""Matmuls of every precision and geometry against numpy, through the register words alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.sim.chip.faults import ProgramError, UnsupportedOperation
from tests.sim.chip import build
from tests.sim.chip.build import PRECISIONS, Machine

_RANGES = {8: (-128, 128), 16: (-32768, 32768), 4: (-8, 8)}


def _integers(p: build.Precision, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    low, high = _RANGES[p.bits]
    return rng.integers(low, high, shape).astype({8: np.int8, 16: np.int16, 4: np.int8}[p.bits])


def _stored(p: build.Precision, elements: np.ndarray) -> np.ndarray:
    return build.nibbles(elements) if p.bits == 4 else elements


def _features(p: build.Precision, geometry: str, a: np.ndarray) -> np.ndarray:
    m, k = a.shape
    if geometry == "rows":
        laid = a
    elif geometry == "panel8":
        laid = a.reshape(m // 8, 8, k // p.per_atom, p.per_atom).transpose(0, 2, 1, 3)
    else:
        laid = build.cube(a, p.per_atom)
    return _stored(p, np.ascontiguousarray(laid))


def _run(
    p: build.Precision, geometry: str, a: np.ndarray, b: np.ndarray, kind: type | str, change: dict[int, int]
) -> np.ndarray:
    """The result [M][N] as numbers of ``kind``."""
    (m, k), n = a.shape, len(b)
    machine = Machine()
    machine.put(build.A, _features(p, geometry, a))
    machine.put(build.B, _stored(p, build.tiles(b, p)))
    out = machine.output(m * n * p.out_bytes)
    run = machine.run(build.program(build.matmul(p, geometry, m, k, n) | change))
    assert run.fault is None, run.fault
    assert run.raw_status & 0x300
    values = out.view(kind)
    return values.reshape(m, n) if geometry == "rows" else build.from_cube(values, m, n)


_SIZES = st.tuples(st.integers(1, 24), st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**31))
_GEOMETRIES = st.sampled_from(["rows", "fold", "cube"])


def _legal_rows(geometry: str, m: int) -> int:
    return max(4, m // 4 * 4) if geometry == "cube" else m


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["int8->int32", "int16->int32", "int4->int16"]), _GEOMETRIES, _SIZES)
def test_integer_matmuls_are_exact(name: str, geometry: str, sizes: tuple[int, int, int, int]) -> None:
    p = PRECISIONS[name]
    m, k, n = _legal_rows(geometry, sizes[0]), sizes[1] * p.granule, sizes[2] * p.group
    rng = np.random.default_rng(sizes[3])
    a, b = _integers(p, (m, k), rng), _integers(p, (n, k), rng)
    kind = {4: np.int32, 2: np.int16}[p.out_bytes]
    limits = np.iinfo(kind)
    expected = np.clip(a.astype(np.int64) @ b.T.astype(np.int64), limits.min, limits.max)
    assert np.array_equal(_run(p, geometry, a, b, kind, {}), expected)


def test_int4_results_saturate_at_sixteen_bits() -> None:
    p = PRECISIONS["int4->int16"]
    a, b = np.full((3, 1024), -8, np.int8), np.full((64, 1024), -8, np.int8)
    b[1] = 7
    out = _run(p, "fold", a, b, np.int16, {})
    assert (out[:, 0] == 32767).all()
    assert (out[:, 1] == -32768).all()


def test_int16_sums_beyond_int32_saturate() -> None:
    p = PRECISIONS["int16->int32"]
    a, b = np.full((2, 64), -32768, np.int16), np.full((16, 64), -32768, np.int16)
    b[1] = 32767
    out = _run(p, "rows", a, b, np.int32, {})
    assert (out[:, 0] == 2**31 - 1).all()
    assert (out[:, 1] == -(2**31)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 10), st.integers(0, 2**31))
def test_int4_panels_of_eight_rows(panels: int, k32: int, seed: int) -> None:
    p = PRECISIONS["int4->int16"]
    rng = np.random.default_rng(seed)
    a, b = _integers(p, (8 * panels, 32 * k32), rng), _integers(p, (128, 32 * k32), rng)
    out = _run(p, "panel8", a, b, np.int16, {})
    assert np.array_equal(out, np.clip(a.astype(np.int64) @ b.T.astype(np.int64), -32768, 32767))


@pytest.mark.parametrize(("k", "groups"), [(64, 5), (256, 3), (512, 32)])
def test_int4_batch_form_computes_every_fourth_line(k: int, groups: int) -> None:
    """The host packs row j at byte j*K, twice its size; row j of the result is line 4j."""
    rng = np.random.default_rng(k)
    p = PRECISIONS["int4->int16"]
    a, b = _integers(p, (groups, k), rng), _integers(p, (128, k), rng)
    packed = np.zeros((groups + 4, k), np.uint8)
    packed[:groups, : k // 2] = build.nibbles(a).reshape(groups, k // 2)
    regs = build.int4_batch(k, groups)
    regs |= {0x1030: k // 2 * 128, 0x1038: 0x01010080, 0x3018: 127, 0x403C: 127 << 16 | 127, 0x4058: 127}
    machine = Machine()
    machine.put(build.A, packed)
    machine.put(build.B, build.nibbles(build.tiles(b, p)))
    out = machine.output(4 * groups * 128 * 2)
    run = machine.run(build.program(regs))
    assert run.fault is None, run.fault
    values = out.view(np.int16)
    j, n = np.mgrid[:groups, :128]
    got = values[(4 * j + 4 * groups * (n // 64)) * 64 + n % 64]
    assert np.array_equal(got, np.clip(a.astype(np.int64) @ b.T.astype(np.int64), -32768, 32767))


def _random_floats(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """float32 values that the input format holds exactly."""
    values = rng.standard_normal(shape).astype(np.float32)
    if name.startswith("fp16"):
        return values.astype(np.float16).astype(np.float32)
    mask = np.uint32(0xFFFF0000 if name.startswith("bf16") else 0xFFFFE000)
    return (values.view(np.uint32) & mask).view(np.float32)


def _as_input(name: str, values: np.ndarray) -> np.ndarray:
    if name.startswith("fp16"):
        return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if name.startswith("bf16") else values


def _from_output(name: str, out: np.ndarray) -> np.ndarray:
    if name.endswith("bf16"):
        return (out.astype(np.uint32) << 16).view(np.float32)
    return out.astype(np.float32)


_OUT_KIND = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}
_FLOATS = ["fp16->fp32", "fp16->fp16", "bf16->fp32", "bf16->bf16", "tf32->fp32"]


def _block_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact blocks of 32 channels, rounded to fp32 and added in fp32, with Python fractions."""
    sums = np.zeros((len(a), len(b)), np.float32)
    for i, row in enumerate(a):
        for j, weights in enumerate(b):
            total = np.float32(0)
            for k in range(0, len(row), 32):
                block = sum(
                    Fraction(float(x)) * Fraction(float(w))
                    for x, w in zip(row[k : k + 32], weights[k : k + 32], strict=True)
                )
                total = np.float32(total + np.float32(float(block)))
            sums[i, j] = total
    return sums


def _narrow(name: str, values: np.ndarray) -> np.ndarray:
    """Round fp32 to the output format with exact fractions, to nearest even."""
    if name.endswith("fp16"):
        return values.astype(np.float16).astype(np.float32)
    if name.endswith("bf16"):
        scaled = []
        for value in values.ravel():
            mantissa, exponent = np.frexp(float(value))
            scaled.append(np.ldexp(round(Fraction(float(mantissa)) * 256), int(exponent) - 8))
        return np.array(scaled, np.float32).reshape(values.shape)
    return values


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(_FLOATS), _GEOMETRIES, _SIZES)
def test_float_matmuls_follow_the_reference_order(
    name: str, geometry: str, sizes: tuple[int, int, int, int]
) -> None:
    p = PRECISIONS[name]
    m, k, n = _legal_rows(geometry, min(sizes[0], 5)), sizes[1] * p.granule, 16
    rng = np.random.default_rng(sizes[3])
    a, b = _random_floats(name, (m, k), rng), _random_floats(name, (n, k), rng)
    out = _run(p, geometry, _as_input(name, a), _as_input(name, b), _OUT_KIND[name.split(">")[1]], {})
    sums = _block_order(a, b)
    got, expected = _from_output(name, out), _narrow(name, sums)
    # A block sum is rounded twice, by way of fp64; that can differ once in about 2**28 blocks.
    assert np.mean(got != expected) <= 0.02
    assert np.allclose(got, expected, rtol=2**-6 if "bf16" in name else 2**-9, atol=1e-5)


@pytest.mark.parametrize("name", _FLOATS)
@pytest.mark.parametrize("n", [16, 80])
def test_small_whole_numbers_are_exact_in_floating_point(name: str, n: int) -> None:
    p = PRECISIONS[name]
    rng = np.random.default_rng(n)
    a = rng.integers(-3, 4, (12, 96)).astype(np.float32)
    b = rng.integers(0, 2, (n, 96)).astype(np.float32) * (np.arange(96) % 7 == 0)
    out = _run(p, "rows", _as_input(name, a), _as_input(name, b), _OUT_KIND[name.split(">")[1]], {})
    assert np.array_equal(_from_output(name, out), a @ b.T)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", _FLOATS)
def test_nan_and_infinity_go_through_without_warnings(name: str) -> None:
    p = PRECISIONS[name]
    a, b = np.zeros((4, 64), np.float32), np.ones((16, 64), np.float32)
    a[0, 3], a[1, 5], a[2, 7] = np.nan, np.inf, -np.inf
    a[3, 0], b[1, 0] = np.inf, 0
    out = _run(p, "rows", _as_input(name, a), _as_input(name, b), _OUT_KIND[name.split(">")[1]], {})
    got = _from_output(name, out)
    assert np.isnan(got[0]).all()
    assert (got[1] == np.inf).all()
    assert (got[2] == -np.inf).all()
    assert got[3, 0] == np.inf
    assert np.isnan(got[3, 1])


@pytest.mark.filterwarnings("error")
def test_sums_above_the_fp16_range_become_infinite() -> None:
    a, b = np.full((1, 32), 2048, np.float16), np.full((16, 32), 1, np.float16)
    b[1] = -1
    out = _run(PRECISIONS["fp16->fp16"], "rows", a, b, np.float16, {})
    assert out[0, 0] == np.inf
    assert out[0, 1] == -np.inf


def test_tf32_drops_the_low_thirteen_mantissa_bits() -> None:
    a = np.zeros((1, 16), np.float32)
    a[0, 0] = np.uint32(0x3F801FFF).view(np.float32)
    b = np.zeros((16, 16), np.float32)
    b[:, 0] = 1
    out = _run(PRECISIONS["tf32->fp32"], "rows", a, b, np.float32, {})
    assert (out == 1.0).all()


@pytest.mark.parametrize("name", ["int8->fp32", "int8->fp16"])
def test_integer_sums_are_cast_to_floating_outputs(name: str) -> None:
    rng = np.random.default_rng(7)
    p = PRECISIONS[name]
    a, b = _integers(p, (5, 128), rng), _integers(p, (64, 128), rng)
    kind = _OUT_KIND[name.split(">")[1]]
    sums = a.astype(np.int64) @ b.T.astype(np.int64)
    with np.errstate(over="ignore"):
        expected = sums.astype(np.float64).astype(kind)
    assert np.array_equal(_run(p, "rows", a, b, kind, {}), expected)


def test_a_shift_before_a_floating_output_floors() -> None:
    p = PRECISIONS["int8->fp32"]
    a, b = np.zeros((4, 32), np.int8), np.zeros((32, 32), np.int8)
    a[:, 0], b[:, 0] = [7, 5, -5, -7], 1
    out = _run(p, "rows", a, b, np.float32, {0x4088: 2})
    assert out[:, 0].tolist() == [1, 1, -2, -2]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["int8->int8", "int8->int16", "int8->int32", "int16->int32"]),
    st.integers(-0x8000, 0x7FFF),
    st.integers(0, 40),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_output_conversion_of_integers(
    name: str, scale: int, shift: int, offset: int, add_first: bool, away: bool, seed: int
) -> None:
    p = PRECISIONS[name]
    rng = np.random.default_rng(seed)
    a, b = _integers(p, (3, 64), rng), _integers(p, (p.group, 64), rng)
    change = {
        0x4080: offset & 0xFFFFFFFF,
        0x4084: scale & 0xFFFF,
        0x4088: add_first << 31 | away << 30 | shift,
    }
    kind = {1: np.int8, 2: np.int16, 4: np.int32}[p.out_bytes]
    limits = np.iinfo(kind)

    def convert(total: int) -> int:
        exact = Fraction((total + offset * add_first) * scale, 1 << shift)
        rounded = round(exact)
        if away and abs(exact - int(exact)) == Fraction(1, 2):
            rounded = int(exact) + (1 if exact > 0 else -1)
        return min(max(rounded + offset * (not add_first), limits.min), limits.max)

    sums = a.astype(np.int64) @ b.T.astype(np.int64)
    expected = [[convert(int(total)) for total in row] for row in sums]
    assert _run(p, "rows", a, b, kind, change).tolist() == expected


def test_requantising_by_one_is_the_identity() -> None:
    """Scale 0x4000 and shift 14, as published."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (4, 32)).astype(np.int8), np.zeros((32, 32), np.int8)
    b[:, 0] = np.arange(-16, 16)
    out = _run(PRECISIONS["int8->int8"], "rows", a, b, np.int8, {0x4084: 0x4000, 0x4088: 14})
    assert np.array_equal(out, a.astype(np.int64) @ b.T.astype(np.int64))


def test_a_panel_of_results() -> None:
    """C in panels of ``cw`` rows: [M/cw][N/4][cw][4]."""
    rng = np.random.default_rng(5)
    p, m, k, n, cw = PRECISIONS["int8->int32"], 24, 64, 64, 8
    a, b = _integers(p, (m, k), rng), _integers(p, (n, k), rng)
    change = {
        0x4024: 16 * cw,
        0x405C: (m // cw - 1) << 16 | cw - 1,
        0x4038: (n // 4 - 1) * cw,
        0x40C0: 128 * cw,
    }
    machine = Machine()
    machine.put(build.A, a)
    machine.put(build.B, build.tiles(b, p))
    out = machine.output(4 * m * n)
    assert machine.run(build.program(build.matmul(p, "rows", m, k, n) | change)).fault is None
    got = out.view(np.int32).reshape(m // cw, n // 4, cw, 4).transpose(0, 2, 1, 3).reshape(m, n)
    assert np.array_equal(got, a.astype(np.int64) @ b.T.astype(np.int64))


def test_captured_int4_program_word_for_word() -> None:
    captured = {
        0x1040: 0xB1, 0x100C: 0x360, 0x1010: 0x20, 0x1020: 0x10001, 0x1024: 0x3F0040, 0x102C: 1, 0x1030: 0x800,
        0x1034: 0x20, 0x1038: 0x1010040, 0x1044: 1, 0x107C: 4, 0x1080: 0xFFFFFFD, 0x3010: 0x601, 0x3018: 0x3F,
        0x4010: 0x38000006, 0x4024: 0x10, 0x4038: 0, 0x403C: 0x3F003F, 0x4050: 0x7FE, 0x4058: 0x3F, 0x405C: 0,
        0x40C0: 0x80,
    }  # fmt: skip
    built = build.matmul(PRECISIONS["int4->int16"], "fold", 1, 64, 64)
    assert {address: built.get(address, 0) for address in captured} == captured


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("fp16->fp32", {0x1024: 47 << 16 | 48, 0x1088: 48}, "K"),
        ("tf32->fp32", {0x1024: 23 << 16 | 24, 0x1088: 24}, "K"),
        ("int4->int16", {0x1038: 0x01010020, 0x3018: 31, 0x4058: 31, 0x403C: 31}, "N"),
        ("fp16->fp32", {0x4050: 0x7FC}, "output"),
        ("fp16->fp32", {0x1034: 64}, "weights"),
        ("tf32->fp32", {0x4010: 0xA8000002}, "precision"),
        ("bf16->fp32", {0x4010: 0xA8000002}, "precision"),
        ("int16->int32", {0x1044: 1}, "banks"),
    ],
)
def test_rules_count_in_the_units_of_the_precision(name: str, change: dict[int, int], rule: str) -> None:
    p = PRECISIONS[name]
    machine = Machine()
    run = machine.run(build.program(build.matmul(p, "rows", 4, 64, p.group) | change))
    assert isinstance(run.fault, ProgramError), run.fault
    assert run.fault.rule == rule, run.fault


def test_features_must_fit_the_data_banks_in_bytes() -> None:
    regs = build.matmul(PRECISIONS["fp16->fp32"], "rows", 33, 512, 16)
    assert regs[0x1040] == 0xA2
    fault = Machine().run(build.program(regs | {0x1040: 0xB1})).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "banks"


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_the_cube_form_takes_rows_in_fours(rows: int) -> None:
    fault = Machine().run(build.program(build.matmul(PRECISIONS["fp16->fp32"], "cube", rows, 64, 16))).fault
    assert isinstance(fault, ProgramError)
    assert fault.rule == "geometry"


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("fp16->fp32", {0x4010: 0x88000002}, "int32 output of fp16 matmul"),
        ("int4->int16", {0x4010: 0x98000006}, "int32 output of int4 matmul"),
        ("int16->int32", {0x4010: 0x24000001}, "int16 output of int16 matmul"),
        ("fp16->fp16", {0x4084: 1}, "fp32tofp16_en = 0"),
        ("fp16->fp32", {0x4088: 3}, "output shift in a floating-point pipeline"),
        ("fp16->fp32", {0x4084: 2}, "floating-point output conversion other than"),
        ("int8->int32", {0x4084: 0x10001}, "floating-point output conversion of integers"),
        ("int16->int32", {0x4050: 0x0800036C}, "transposed output"),
    ],
)
def test_combinations_nobody_has_published_are_named(name: str, change: dict[int, int], what: str) -> None:
    p = PRECISIONS[name]
    fault = Machine().run(build.program(build.matmul(p, "rows", 4, 64, p.group) | change)).fault
    assert isinstance(fault, UnsupportedOperation), fault
    assert what in str(fault)


@pytest.mark.parametrize(
    ("name", "rate"), [("int4->int16", 2048), ("int8->int32", 1024), ("fp16->fp32", 512), ("tf32->fp32", 256)]
)
def test_predicted_time_follows_the_rate_of_the_precision(name: str, rate: int) -> None:
    p, m, k, n = PRECISIONS[name], 64, 512, 512
    machine = Machine()
    machine.put(build.A, np.zeros(m * k * p.bits // 8, np.uint8))
    machine.put(build.B, np.zeros(n * k * p.bits // 8, np.uint8))
    machine.output(m * n * p.out_bytes)
    run = machine.run(build.program(build.matmul(p, "fold", m, k, n)))
    assert run.fault is None, run.fault
    weights = n * k * p.bits // 8 / 10.8
    # Large matmuls reach 86 % of the rate; results are written after the work.
    work, written = m * k * n / rate / 0.86, m * n * p.out_bytes / 10.8
    assert run.predicted_ns == pytest.approx(4380 + max(work, weights) + written, abs=1)
