"""Wide int8 shapes through the linked path: the tiles cover the matmul once and add up exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.sliced import SlicedMatmul, load_sliced, slice_plan
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import OrkError


@given(m=st.integers(1, 1000), k=st.integers(1, 40000), n=st.integers(1, 70000))
def test_tiles_cover_each_product_once_within_the_limits(m: int, k: int, n: int) -> None:
    rows, slices, columns = slice_plan(RK3588, m, k, n)
    for parts, total, limit, granule in ((rows, m, 64, 1), (slices, k, 4096, 512), (columns, n, 8192, 32)):
        at = 0
        for start, length in parts:
            assert start == at and 0 < length <= limit and length % granule == 0
            at += length
        assert total <= at < total + granule
    widths = [width for _, width in columns]
    assert max(widths) - min(widths) <= 32
    assert len(columns) >= min(RK3588.cores, -(-n // 32))


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_nothing_cannot_be_sliced(size: tuple[int, int, int]) -> None:
    with pytest.raises(OperandError, match="sizes from 1 on"):
        slice_plan(RK3588, *size)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 150), k=st.integers(1, 9500), n=st.integers(1, 200), seed=st.integers(0, 999))
def test_results_are_exact(npu: Npu, m: int, k: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (m, k), dtype=np.int8)
    w = random.integers(-128, 128, (n, k), dtype=np.int8)
    weight = load_sliced(npu.context, "w", w)
    matmul = SlicedMatmul(npu.context, weight, m)
    assert np.array_equal(matmul.run(a), a.astype(np.int64) @ w.T.astype(np.int64))
    matmul.close()
    for parts in weight.parts:
        for part in parts:
            npu.free(part)


def test_a_down_projection_takes_one_submit_per_core(npu: Npu) -> None:
    """K = 18944 as five slices, three column tiles: the sum of the slices is the sum over the whole K."""
    w = np.full((96, 18944), -128, np.int8)
    a = np.full((3, 18944), -128, np.int8)
    matmul = SlicedMatmul(npu.context, load_sliced(npu.context, "w", w), 3)
    before = npu.counters
    assert np.array_equal(matmul.run(a), np.full((3, 96), 18944 * 128 * 128))
    used = npu.counters.since(before)
    assert used.submits == 3 and used.tasks == matmul.tasks == 15


def test_more_tiles_than_a_run_takes_are_more_runs(npu: Npu, monkeypatch) -> None:
    monkeypatch.setattr("orkbench_tui.driver.matmul.sliced.MAX_STEPS", 2)
    w = np.ones((96, 5000), np.int8)
    matmul = SlicedMatmul(npu.context, load_sliced(npu.context, "w", w), 100)
    before = npu.counters
    assert np.array_equal(matmul.run(np.ones((100, 5000), np.int8)), np.full((100, 96), 5000))
    assert npu.counters.since(before).submits == 6


def test_bad_operands_are_refused_and_submit_nothing(npu: Npu) -> None:
    before = npu.counters
    for bad in (np.ones(4, np.int8), np.ones((2, 2), np.int16), np.ones((0, 4), np.int8)):
        with pytest.raises(OperandError, match="allowed: an int8 matrix"):
            load_sliced(npu.context, "w", bad)
    weight = load_sliced(npu.context, "w", np.ones((4, 40), np.int8))
    with pytest.raises(OperandError, match="0 rows"):
        SlicedMatmul(npu.context, weight, 0)
    matmul = SlicedMatmul(npu.context, weight, 2)
    for a in (np.ones((3, 40), np.int8), np.ones((2, 40), np.int32), np.ones((40, 2), np.int8).T):
        with pytest.raises(OperandError):
            matmul.run(a)
    npu.free(weight.parts[0][0])
    with pytest.raises(LifetimeError):
        matmul.run(np.ones((2, 40), np.int8))
    matmul.close()
    with pytest.raises(OrkError):
        matmul.run(np.ones((2, 40), np.int8))
    assert npu.counters.since(before).submits == 0
