"""Every matmul format through driver, kernel and chip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import FORMATS, MatmulFormat, measured_int8_rows
from orkbench_tui.driver.matmul.splitting import max_rows
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32, OutputConversion
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import RefusedError

_ONE_BOARD = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_SHAPES = st.tuples(st.integers(1, 60), st.integers(1, 700), st.integers(1, 300))
_SEED = st.integers(0, 2**31)


def _random(format: MatmulFormat, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if format.operand is np.float16:
        return rng.standard_normal(shape).astype(np.float16)
    limits = np.iinfo(format.operand)
    low, high = format.low or limits.min, format.high or limits.max
    return rng.integers(low, high, shape, endpoint=True).astype(format.operand)


def _run(
    npu: Npu, name: str, a: np.ndarray, weights: np.ndarray, convert: OutputConversion | None = None
) -> np.ndarray:
    """The result [rows, n] of one matmul; padding of K is zero, padding of N is cut off."""
    weight = npu.load(FORMATS[name], "w", weights)
    matmul = npu.matmul([weight], len(a), convert)
    matmul.a[:] = 0
    matmul.a[:, : a.shape[1]] = a
    matmul.run()
    result = matmul.outputs[0][:, : len(weights)].copy()
    matmul.close()
    return result


def _exact(a: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (a.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)


@_ONE_BOARD
@given(st.sampled_from(["int8", "int16", "int4"]), _SHAPES, _SEED)
def test_integer_formats_are_exact(npu: Npu, name: str, shape: tuple[int, int, int], seed: int) -> None:
    format = FORMATS[name]
    rows, k, n = shape
    rng = np.random.default_rng(seed)
    a, weights = _random(format, (rows, k), rng), _random(format, (n, k), rng)
    result = _run(npu, name, a, weights)
    assert result.dtype == format.total
    assert np.array_equal(result, np.clip(_exact(a, weights), -(2**31), 2**31 - 1))


@pytest.mark.parametrize(
    ("name", "rows", "k", "n"),
    [
        ("int16", 300, 32, 16),
        ("int16", 1, 8192, 48),
        ("int16", 3, 64, 4000),
        ("int4", 129, 480, 64),
        ("int4", 5, 2080, 128),
        ("int4", 2, 64, 4224),
        ("fp16", 700, 256, 16),
        ("fp16", 33, 4096, 48),
        ("fp16", 2, 8192, 1040),
    ],
)
def test_shapes_that_are_split(npu: Npu, name: str, rows: int, k: int, n: int) -> None:
    """Whole numbers small enough that every format, floating ones included, is exact."""
    rng = np.random.default_rng(k)
    format = FORMATS[name]
    a = rng.integers(-3, 4, (rows, k)).astype(format.operand)
    weights = rng.integers(-3, 4, (n, k)).astype(format.operand)
    assert np.array_equal(_run(npu, name, a, weights), _exact(a, weights))


@_ONE_BOARD
@given(_SHAPES, _SEED)
def test_fp16_is_within_the_bound_of_its_accumulation(
    npu: Npu, shape: tuple[int, int, int], seed: int
) -> None:
    """One fp32 rounding per block of 32 channels and one per addition of a block."""
    rows, k, n = shape
    rng = np.random.default_rng(seed)
    a, weights = _random(FORMATS["fp16"], (rows, k), rng), _random(FORMATS["fp16"], (n, k), rng)
    result = _run(npu, "fp16", a, weights)
    assert result.dtype == np.float32
    wide_a, wide_w = a.astype(np.float64), weights.astype(np.float64)
    roundings = 2 * -(-k // 32)
    bound = roundings * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_w).T)
    assert (np.abs(result - wide_a @ wide_w.T) <= bound).all()


@_ONE_BOARD
@given(
    st.sampled_from(["int8->int8", "int8->int16"]),
    _SHAPES,
    st.integers(0, 0x7FFF),
    st.integers(0, 31),
    st.integers(-200, 200),
    _SEED,
)
def test_results_are_requantised_on_the_way_out(
    npu: Npu, name: str, shape: tuple[int, int, int], scale: int, shift: int, offset: int, seed: int
) -> None:
    format = FORMATS[name]
    rows, k, n = shape
    rng = np.random.default_rng(seed)
    a, weights = _random(format, (rows, k), rng), _random(format, (n, k), rng)
    result = _run(npu, name, a, weights, OutputConversion(scale, shift, offset))
    limits = np.iinfo(format.result)
    # Products stay below 2**43, so fp64 holds them and their halves exactly; rint is half to even.
    rounded = np.rint(_exact(a, weights) * scale / 2.0**shift) + offset
    assert result.dtype == format.result
    assert np.array_equal(result, np.clip(rounded, limits.min, limits.max))


def test_the_extremes_of_each_format(npu: Npu) -> None:
    for name, value in (("int8", -128), ("int4", -8)):
        a = np.full((2, 480), value, FORMATS[name].operand)
        weights = np.full((64, 480), value, FORMATS[name].operand)
        assert (_run(npu, name, a, weights) == 480 * value * value).all()
    a, weights = np.full((2, 64), -32768, np.int16), np.full((16, 64), -32768, np.int16)
    assert (_run(npu, "int16", a, weights) == 2**31 - 1).all()


@pytest.mark.parametrize(("name", "value"), [("fp16", np.nan), ("fp16", np.inf), ("int4", 8), ("int4", -9)])
def test_activations_a_format_does_not_take(npu: Npu, name: str, value: float) -> None:
    matmul = npu.matmul([npu.load(FORMATS[name], "w", np.ones((64, 64), FORMATS[name].operand))], 3)
    matmul.a[:] = 1
    matmul.a[1, 5] = value
    with pytest.raises(OperandError, match=str(value)):
        matmul.run()
    matmul.a[1, 5] = 1
    matmul.run()
    assert (matmul.outputs[0] == 64).all()


@pytest.mark.parametrize("name", ["int8->int8", "int8->int16", "int16"])
def test_formats_whose_slices_cannot_be_added_refuse_a_larger_k(npu: Npu, name: str) -> None:
    weights = np.zeros((64, 8224), FORMATS[name].operand)
    with pytest.raises(RefusedError, match="8224"):
        npu.load(FORMATS[name], "w", weights)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("int4", np.full((64, 32), 8, np.int8)),
        ("int4", np.full((64, 32), -9, np.int8)),
        ("fp16", np.zeros((16, 32), np.float32)),
        ("int16", np.zeros(32, np.int16)),
        ("int8", np.zeros((0, 32), np.int8)),
    ],
)
def test_weights_a_format_does_not_take(npu: Npu, name: str, weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="w: "):
        npu.load(FORMATS[name], "w", weights)


def test_weights_of_two_formats_do_not_share_an_activation(npu: Npu) -> None:
    pair = [npu.load(FORMATS[name], name, np.zeros((64, 64), np.int8)) for name in ("int8", "int4")]
    with pytest.raises(ValueError, match="share their format"):
        npu.matmul(pair, 4)


def test_fp16_results_round_once_and_overflow_to_infinity(npu: Npu) -> None:
    a = np.array([[1000] * 64, [-1000] * 64, [1] * 63 + [2**-11]], dtype=np.float16)
    result = _run(npu, "fp16->fp16", a, np.full((16, 64), 100, np.float16))
    assert result.dtype == np.float16
    assert np.all(result[0] == np.inf) and np.all(result[1] == -np.inf)
    assert np.all(result[2] == np.float16(np.float32(6300 + 100 * 2**-11)))


@pytest.mark.parametrize(("name", "k", "why"), [("fp16", 64, "floating|integer"), ("int4", 960, "2 slices")])
def test_a_conversion_is_refused_where_it_cannot_be_right(npu: Npu, name: str, k: int, why: str) -> None:
    weight = npu.load(FORMATS[name], "w", np.ones((64, k), FORMATS[name].operand))
    before = npu.counters
    with pytest.raises(OperandError, match=why):
        npu.matmul([weight], 2, OutputConversion(scale=3, shift=1))
    assert npu.counters.since(before).submits == 0


def test_int8_rows_are_those_boards_computed_right_and_fit_the_banks() -> None:
    lengths = range(512, 4097, 512)
    assert [measured_int8_rows(k) for k in lengths] == [704, 320, 192, 128, 128, 64, 64, 64]
    assert [measured_int8_rows(k) for k in (4128, 6144, 6176, 8192, 8224)] == [32, 32, 16, 16, 1]
    for k in range(32, 8193, 32):
        rows = FORMATS["int8"].rows_cap(RK3588, k, 64)
        assert 1 <= rows <= min(measured_int8_rows(k), max_rows(RK3588, INT8_TO_INT32, k))
    # Not the rule of fp16, whose limit is what its banks hold.
    assert FORMATS["fp16"].rows_cap(RK3588, 1024, 64) == 176


def test_an_int8_matmul_of_more_rows_is_split_and_exact(npu: Npu) -> None:
    random = np.random.default_rng(2)
    a, w = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((260, 2048), (32, 2048)))
    tasks = npu.matmul([npu.load(FORMATS["int8"], "count", w)], 260).tasks
    assert tasks >= 3, "128 rows at most at K = 2048"
    np.testing.assert_array_equal(_run(npu, "int8", a, w), _exact(a, w))
