"""Each integer path a thousand times: random shapes, scales, zero points and cores, every element compared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.sdp.fused_programs import PerChannelRequant
from orkbench_tui.driver.sdp.quantization import Quantization, numbers_for
from orkbench_tui.driver.sdp.table import row_for
from tests.driver.sdp import reference as ref

CASES = 1000


@given(st.integers(-(2**60), 2**60), st.integers(0, 40))
def test_both_references_round_alike(value, shift):
    assert int(ref.rounded_int64(np.array([value]), shift)[0]) == ref.rounded_shift([value], shift)[0]


def quantization(random, dtype, op):
    if dtype not in ("int8", "int16"):
        return Quantization()
    a, b, out = np.exp(random.uniform(-3, 1, 3))
    if op == "max":
        return Quantization(a, a, out, out_zero=int(random.integers(-100, 101)))
    zeros = random.integers(*ref.LIMITS["int8"], 3, endpoint=True)
    return Quantization(a, b, out, *(int(zero) for zero in zeros))


def mul(a, b, n, q, dtype):
    product = (a.astype(np.int64) - q.a_zero) * (b.astype(np.int64) - q.b_zero)
    return ref.converted_int64(product, dtype, n.convert.scale, n.convert.shift, q.out_zero)


def add(a, b, n, q, dtype):
    if dtype == "int32":
        return ref.converted_int64(a.astype(np.int64) + b, dtype, 1, 0)
    left = ref.rounded_int64((a.astype(np.int64) - q.a_zero) * n.bs.factor, n.bs.shift)
    right = ref.rounded_int64((b.astype(np.int64) - q.b_zero) * n.ew.scale, n.ew.shift)
    return ref.converted_int64(left + right, dtype, n.convert.scale, n.convert.shift, q.out_zero)


def largest(a, b, n, q, dtype):
    return ref.converted_int64(
        np.maximum(a, b).astype(np.int64), dtype, n.convert.scale, n.convert.shift, q.out_zero
    )


PATHS = {
    ("mul", "int8"): mul, ("mul", "int16"): mul, ("add", "int8"): add, ("add", "int16"): add, ("add", "int32"): add,
    ("max", "int8"): largest, ("max", "int16"): largest, ("mul_perchannel", "int8"): mul,
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids="-".join)
def test_an_element_wise_path(npu, path):
    op, dtype = path
    random = np.random.default_rng(7)
    per_atom = 16 // np.dtype(ref.TYPES[dtype]).itemsize
    for case in range(CASES):
        rows, channels = int(random.integers(1, 9)), per_atom * int(random.integers(1, 5))
        a, b = (ref.extremes(dtype, (rows, channels), seed=2 * case + i) for i in range(2))
        q = quantization(random, dtype, op)
        n = numbers_for(row_for(op, dtype), q)
        core = case % npu.soc.cores
        if op == "mul_perchannel":
            b = b[0]
            seen = npu.sdp.mul_perchannel(a, b, q, core=core)
        else:
            seen = npu.sdp.run(op, a, b, quantization=q, core=core)
        np.testing.assert_array_equal(seen, PATHS[path](a, b, n, q, dtype), err_msg=f"case {case}: {q}")


def test_requantization_per_channel(npu):
    random = np.random.default_rng(7)
    n, k = 64, 64
    w = random.integers(-128, 128, (n, k)).astype(np.int8)
    weight = npu.load(INT8, "w", w)
    for case in range(CASES):
        rows = int(random.integers(1, 9))
        a = ref.extremes("int8", (rows, k), seed=case)
        bias = random.integers(-(2**18), 2**18, n).astype(np.int32)
        scale, shift, offset = (int(random.integers(*ends)) for ends in ((1, 0x8000), (8, 28), (-128, 128)))
        factors = random.integers(0, 0x8000, n)
        requant = PerChannelRequant(bias, factors, OutputConversion(scale, shift, offset))
        inner = ref.rounded_int64((a.astype(np.int64) @ w.T.astype(np.int64) + bias) * factors, 14)
        with npu.sdp.requantized(weight, rows, requant) as matmul:
            seen = matmul.run(a, core=case % npu.soc.cores)
        expected = ref.converted_int64(inner, "int8", scale, shift, offset)
        np.testing.assert_array_equal(seen, expected, err_msg=f"case {case}")
