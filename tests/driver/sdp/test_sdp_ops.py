"""Element-wise operations through driver and simulated chip, exact against the published arithmetic."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.sdp.quantization import Quantization, numbers_for
from orkbench_tui.driver.sdp.table import ROWS, Operand, row_for
from orkbench_tui.errors import RefusedError
from tests.driver.sdp import reference as ref

ROW_COUNTS = (1, 7, 8176, 8177)
INTEGERS = ("int8", "int16")


def channels_of(dtype, atoms=2):
    return atoms * 16 // np.dtype(ref.TYPES[dtype]).itemsize


def operands(dtype, rows, seed=0):
    shape = rows, channels_of(dtype)
    return ref.extremes(dtype, shape, seed), ref.extremes(dtype, shape, seed + 1)


FP16 = {
    "mul": lambda a, b: a.astype(np.float32) * b.astype(np.float32),
    "add": lambda a, b: a.astype(np.float32) + b.astype(np.float32),
    "sub": lambda a, b: a.astype(np.float32) - b.astype(np.float32),
    "max": np.maximum,
    "min": np.minimum,
}
INTEGER = {
    "mul": lambda a, b, t: ref.saturated(a.astype(object) * b.astype(object), t),
    "add": lambda a, b, t: ref.saturated(a.astype(object) + b.astype(object), t),
    "max": lambda a, b, t: np.maximum(a, b),
    "min": lambda a, b, t: np.minimum(a, b),
}


def assert_same(seen, expected):
    assert seen.dtype == expected.dtype
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize("rows", ROW_COUNTS)
@pytest.mark.parametrize("op", INTEGER)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_operations_are_exact_at_every_row_count(npu, op, dtype, rows):
    a, b = operands(dtype, rows)
    assert_same(npu.sdp.run(op, a, b), INTEGER[op](a, b, dtype))


@pytest.mark.parametrize("rows", (*ROW_COUNTS, 8188, 8189))
@pytest.mark.parametrize("op", FP16)
def test_fp16_operations_round_once(npu, op, rows):
    a, b = operands("fp16", rows)
    with np.errstate(over="ignore"):
        expected = FP16[op](a, b).astype(np.float16)
    assert_same(npu.sdp.run(op, a, b), expected)


@pytest.mark.parametrize("rows", ROW_COUNTS)
def test_int32_addition_saturates(npu, rows):
    a, b = operands("int32", rows)
    assert_same(npu.sdp.add(a, b), ref.saturated(a.astype(object) + b.astype(object), "int32"))


@pytest.mark.parametrize("rows", (1, 7, 8177))
def test_int32_addition_to_fp32_is_rounded_once(npu, rows):
    a, b = operands("int32", rows)
    expected = (a.astype(np.int64) + b.astype(np.int64)).astype(np.float32)
    assert_same(npu.sdp.add_to_fp32(a, b), expected)


@pytest.mark.parametrize("rows", ROW_COUNTS)
@pytest.mark.parametrize("dtype", (*INTEGERS, "fp16"))
def test_relu_and_copy(npu, dtype, rows):
    a, _ = operands(dtype, rows)
    assert_same(npu.sdp.relu(a), np.maximum(a, a.dtype.type(0)))
    assert_same(npu.sdp.copy(a), a)


def test_scalar_times_vector_of_fp32(npu):
    a = ref.extremes("fp32", (5, 64))
    vector = ref.extremes("fp16", (64,), seed=3)
    expected = (a * np.float32(np.float16(0.3))).astype(np.float32) * vector.astype(np.float32)
    assert_same(npu.sdp.scale_vector(a, 0.3, vector), expected)


@pytest.mark.parametrize("rows", (1, 7, 8177))
def test_a_factor_per_channel(npu, rows):
    a, b = ref.extremes("int8", (rows, 64)), ref.extremes("int8", (64,), seed=5)
    seen = npu.sdp.mul_perchannel(a, b, Quantization(a_scale=0.02, a_zero=3, b_zero=-5, out_zero=7))
    numbers = numbers_for(row_for("mul_perchannel", "int8"), Quantization(a_scale=0.02))
    convert = numbers.convert
    assert_same(
        seen, ref.multiplied(a, b[None], "int8", convert.scale, convert.shift, a_zero=3, b_zero=-5, offset=7)
    )
    a, b = ref.extremes("fp16", (rows, 64)), ref.extremes("fp16", (64,), seed=5)
    with np.errstate(over="ignore"):
        expected = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
    assert_same(npu.sdp.mul_perchannel(a, b), expected)


scales = st.floats(0.01, 2.0)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(data=st.data(), dtype=st.sampled_from(INTEGERS), op=st.sampled_from(["mul", "add"]))
def test_quantized_operations_do_what_the_pipeline_does(npu, data, dtype, op):
    low, high = ref.LIMITS[dtype]
    zeros = st.integers(low, high)
    q = Quantization(*(data.draw(scales) for _ in range(3)), *(data.draw(zeros) for _ in range(3)))
    a, b = operands(dtype, 3, seed=data.draw(st.integers(0, 1000)))
    n = numbers_for(row_for(op, dtype), q)
    zero = {"a_zero": q.a_zero, "b_zero": q.b_zero, "offset": q.out_zero}
    if op == "mul":
        expected = ref.multiplied(a, b, dtype, n.convert.scale, n.convert.shift, **zero)
    else:
        terms = (n.bs.factor, n.bs.shift), (n.ew.scale, n.ew.shift)
        expected = ref.added(a, b, dtype, *terms, n.convert.scale, n.convert.shift, **zero)
    assert_same(npu.sdp.run(op, a, b, quantization=q), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_quantized_results_are_the_real_ones_to_within_a_code(npu, dtype):
    high = ref.LIMITS[dtype][1]
    q = Quantization(2.0 / high, 3.0 / high, 5.0 / high, 5, -7, 11)
    a, b = operands(dtype, 64, seed=2)
    real_a, real_b = (a.astype(float) - 5) * q.a_scale, (b.astype(float) + 7) * q.b_scale

    def codes(real):
        return np.clip(real / q.out_scale + 11, *ref.LIMITS[dtype])

    # Half a code of rounding, the rest from the 15-bit scales.
    slack = 0.51 if dtype == "int8" else 2.5
    assert np.abs(npu.sdp.add(a, b, q) - codes(real_a + real_b)).max() <= slack
    assert np.abs(npu.sdp.mul(a, b, q) - codes(real_a * real_b)).max() <= slack


def test_int16_addition_of_negative_codes_is_exact(npu):
    a = np.arange(-32768, 0, 64, dtype=np.int16).reshape(-1, 8)
    b = np.full_like(a, -1)
    assert_same(npu.sdp.add(a, b), ref.saturated(a.astype(object) - 1, "int16"))


def test_ties_go_to_the_even_code(npu):
    a = np.arange(-8, 8, dtype=np.int8).reshape(1, 16)
    assert_same(npu.sdp.copy(a, Quantization(a_scale=0.5)), np.rint(a / 2).astype(np.int8))


@QUICK
@given(
    dtype=st.sampled_from([*INTEGERS, "fp16"]),
    rows=st.integers(1, 40),
    atoms=st.integers(1, 9),
    core=st.integers(0, 2),
    seed=st.integers(0, 999),
)
def test_any_shape_on_any_core(npu, dtype, rows, atoms, core, seed):
    shape = rows, channels_of(dtype, atoms)
    a, b = ref.extremes(dtype, shape, seed), ref.extremes(dtype, shape, seed + 1)
    assert_same(npu.sdp.max(a, b, core=core), np.maximum(a, b))


def test_wide_cubes_are_cut_by_channels(npu):
    a, b = ref.extremes("int32", (2, 3000)), ref.extremes("int32", (2, 3000), seed=1)
    assert_same(npu.sdp.add(a, b), ref.saturated(a.astype(object) + b.astype(object), "int32"))


@pytest.mark.parametrize(
    ("op", "dtype", "submits"),
    [("mul", "int8", 2), ("max", "int8", 1), ("mul", "fp16", 1), ("add", "int32", 1)],
)
def test_tiles_are_linked_only_where_a_chain_does_not_stall(npu, op, dtype, submits):
    rows = 8177 if dtype != "fp16" else 8189
    with npu.sdp.compile(op, dtype, rows, channels_of(dtype)) as operation:
        assert operation.submits == submits


def test_a_compiled_operation_runs_again(npu):
    with npu.sdp.compile("add", "int8", 4, 32) as operation:
        for seed in range(3):
            a, b = ref.extremes("int8", (4, 32), seed), ref.extremes("int8", (4, 32), seed + 10)
            assert_same(operation.run(a, b), INTEGER["add"](a, b, "int8"))
    with pytest.raises(LifetimeError):
        operation.run(a, b)


def test_memory_comes_back(npu):
    a, b = operands("int8", 7)
    npu.sdp.add(a, b)
    before = npu.memory.used_bytes(0)
    for _ in range(3):
        npu.sdp.add(a, b)
    assert npu.memory.used_bytes(0) == before


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.op}-{row.dtype}")
def test_every_row_of_the_table_runs(npu, row):
    a, b = operands(row.dtype, 3)
    if row.operand is Operand.NONE:
        b = None
    elif row.operand is Operand.CHANNEL:
        b = b[0].astype(np.int16) if row.dtype == "int8" else b[0]
    assert npu.sdp.run(row.op, a, b).shape == a.shape


BAD = {
    "type": (lambda s: s.add(np.zeros((2, 16), np.uint8), np.zeros((2, 16), np.uint8)), "uint8"),
    "channels": (lambda s: s.relu(np.zeros((2, 15), np.int8)), "multiple of 16"),
    "empty": (lambda s: s.relu(np.zeros((0, 16), np.int8)), "positive multiple"),
    "vector": (lambda s: s.relu(np.zeros(16, np.int8)), "shape"),
    "shapes": (
        lambda s: s.add(np.zeros((2, 16), np.int8), np.zeros((3, 16), np.int8)),
        "expected \\(2, 16\\)",
    ),
    "second type": (lambda s: s.add(np.zeros((2, 16), np.int8), np.zeros((2, 16), np.int16)), "int16"),
    "nan": (lambda s: s.relu(np.full((1, 8), np.nan, np.float16)), "nan at \\[0, 0\\]"),
    "inf": (lambda s: s.max(np.zeros((1, 8), np.float16), np.full((1, 8), np.inf, np.float16)), "inf at"),
    "missing": (lambda s: s.run("add", np.zeros((2, 16), np.int8)), "per element"),
    "superfluous": (lambda s: s.run("relu", *2 * [np.zeros((2, 16), np.int8)]), "none"),
    "name": (lambda s: s.run("nothing", np.zeros((2, 16), np.int8)), "nothing"),
    "scales of fp16": (
        lambda s: s.mul(*2 * [np.zeros((2, 8), np.float16)], Quantization(a_scale=2.0)),
        "int8 and int16",
    ),
    "zero point of max": (
        lambda s: s.run("max", *2 * [np.zeros((2, 16), np.int8)], quantization=Quantization(a_zero=1)),
        "zero points of 0",
    ),
    "zero point": (
        lambda s: s.mul(*2 * [np.zeros((2, 16), np.int8)], Quantization(a_zero=200)),
        "a_zero = 200",
    ),
    "scale": (lambda s: s.mul(*2 * [np.zeros((2, 16), np.int8)], Quantization(a_scale=0.0)), "factor 0"),
    "fp16 factor": (
        lambda s: s.scale_vector(np.zeros((1, 4), np.float32), 1e6, np.zeros(4, np.float16)),
        "65504",
    ),
    "int16 per channel": (
        lambda s: s.mul_perchannel(np.zeros((2, 8), np.int16), np.zeros(8, np.int16)),
        "the job hung \\[oRKLLM",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_anything_is_submitted(npu, case):
    call, message = BAD[case]
    before = npu.counters.submits
    with pytest.raises(RefusedError, match=message):
        call(npu.sdp)
    assert npu.counters.submits == before


def test_operand_errors_are_typed():
    assert issubclass(OperandError, RefusedError)
