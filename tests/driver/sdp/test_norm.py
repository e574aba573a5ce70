"""RMSNorm: what the NPU computes is exact, what the host adds is stated."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.sdp.norm import row_factors
from orkbench_tui.errors import RefusedError
from tests.driver.sdp import reference as ref

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rounded_products(x, factors, weight):
    """Both multiplications of the NPU, each rounded to fp16."""
    first = (x.astype(np.float32) * factors.astype(np.float32)).astype(np.float16)
    return (first.astype(np.float32) * weight.astype(np.float32)).astype(np.float16)


def exact(x, weight, eps):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + eps) * weight


@QUICK
@given(rows=st.integers(1, 20), atoms=st.integers(1, 30), seed=st.integers(0, 999))
def test_the_npus_part_is_exact_and_the_whole_within_three_roundings(npu, rows, atoms, seed):
    random = np.random.default_rng(seed)
    x = (random.standard_normal((rows, 8 * atoms)) * 10).astype(np.float16)
    weight = random.uniform(0.5, 2.0, 8 * atoms).astype(np.float16)
    with npu.sdp.rmsnorm(weight, rows, eps=1e-5) as norm:
        seen = norm.run(x)
    np.testing.assert_array_equal(seen, rounded_products(x, row_factors(x, 1e-5), weight))
    np.testing.assert_allclose(seen, exact(x, weight, 1e-5), rtol=3.1 * 2.0**-11, atol=1e-6)


@pytest.mark.parametrize("rows", [8188, 8189])
def test_any_number_of_rows(npu, rows):
    x = ref.extremes("fp16", (rows, 16))
    weight = np.ones(16, np.float16)
    with npu.sdp.rmsnorm(weight, rows) as norm:
        np.testing.assert_array_equal(norm.run(x), rounded_products(x, row_factors(x, 1e-6), weight))


def test_both_programs_are_one_submit(npu):
    with npu.sdp.rmsnorm(np.ones(64, np.float16), 4) as norm:
        before = npu.counters
        norm.run(np.ones((4, 64), np.float16))
        used = npu.counters.since(before)
    assert (used.submits, used.tasks) == (1, 2)


def test_squares_that_do_not_fit_fp16(npu):
    x = np.full((1, 64), 60000, np.float16)
    with npu.sdp.rmsnorm(np.ones(64, np.float16), 1) as norm:
        np.testing.assert_allclose(norm.run(x), 1.0, rtol=2.0**-9)


def test_a_row_of_zeros(npu):
    with npu.sdp.rmsnorm(np.ones(64, np.float16), 1) as norm:
        assert not norm.run(np.zeros((1, 64), np.float16)).any()


def test_bad_input(npu):
    ones = np.ones(64, np.float16)
    for weight in (np.ones((2, 64), np.float16), np.ones(63, np.float16), np.ones(64, np.float32)):
        with pytest.raises(RefusedError):
            npu.sdp.rmsnorm(weight, 1)
    with pytest.raises(RefusedError):
        npu.sdp.rmsnorm(ones, 0)
    norm = npu.sdp.rmsnorm(ones, 1, eps=0.0)
    with pytest.raises(RefusedError, match="row 0: mean of squares 0"):
        norm.run(np.zeros((1, 64), np.float16))
    with pytest.raises(RefusedError, match="finite"):
        norm.run(np.full((1, 64), np.inf, np.float16))
    norm.close()
    with pytest.raises(LifetimeError):
        norm.run(np.ones((1, 64), np.float16))
