"""How many programs and submits a matmul takes: published row limits, whole K, several weights, one scale per channel."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.compiled import Matmul
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.matmul.grouped import GroupedMatmul, load_grouped
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.soc import RK3588
from tests.driver.path_operands import matches, random_matrix

WIDE = 512


@pytest.mark.parametrize(
    ("k", "rows"),
    [(128, 256), (256, 704), (512, 352), (768, 21), (1024, 176), (1536, 10), (2048, 8), (3072, 5), (4096, 4)],
)
def test_fp16_rows_are_the_measured_ones(k: int, rows: int) -> None:
    assert FP16.rows_cap(RK3588, k, WIDE) == rows


@pytest.mark.parametrize(("k", "rows"), [(256, 640), (512, 320), (1024, 128)])
def test_narrow_fp16_weights_keep_a_second_weight_bank(k: int, rows: int) -> None:
    assert FP16.rows_cap(RK3588, k, 16) == rows


@pytest.mark.parametrize(
    ("m", "k", "programs"),
    [(21, 768, 1), (22, 768, 2), (256, 128, 1), (257, 128, 2), (1472, 128, 6), (353, 512, 2)],
)
def test_fp16_beyond_a_limit_is_tiled_and_right(npu: Npu, m: int, k: int, programs: int) -> None:
    """K = 768 with int8 sizes, and K = 128 between 257 and 1472 rows, computed wrongly on boards."""
    random = np.random.default_rng(m)
    a, w = random_matrix(FP16, (m, k), random), random_matrix(FP16, (48, k), random)
    matmul = Matmul(npu.context, [npu.load(FP16, "w", w)], m, one_core=True)
    matmul.a[:] = a
    matmul.run()
    assert matmul.tasks == programs
    assert matches(FP16, matmul.outputs[0], a, w)


@pytest.mark.parametrize("k", [512, 1024, 2048, 4096, 8192])
def test_int8_takes_the_whole_k_in_one_submit_per_core(npu: Npu, k: int) -> None:
    random = np.random.default_rng(k)
    a, w = random_matrix(INT8, (300, k), random), random_matrix(INT8, (96, k), random)
    weight = npu.load(INT8, "w", w)
    assert len(weight.slices) == 1
    matmul = npu.matmul([weight], 300)
    matmul.a[:] = a
    before = npu.counters
    matmul.run()
    used = npu.counters.since(before)
    assert used.submits == 3
    # Row tiles alone: columns are cut in three, K not at all.
    assert used.tasks == 3 * -(-300 // INT8.rows_cap(RK3588, k, 32))
    assert matches(INT8, matmul.outputs[0], a, w)


@pytest.mark.parametrize(("format", "count"), [(INT8, 3), (INT8, 2), (INT4, 3), (INT4, 2)])
def test_weights_of_one_input_share_a_submit(npu: Npu, format, count: int) -> None:
    """q, k and v, or gate and up: one submit in place of three or two, the same numbers."""
    random = np.random.default_rng(count)
    a = random_matrix(format, (8, 512), random)
    matrices = [random_matrix(format, (64 * (index + 1), 512), random) for index in range(count)]
    weights = [npu.load(format, f"w{index}", w) for index, w in enumerate(matrices)]
    before = npu.counters
    together = Matmul(npu.context, weights, 8, one_core=True)
    together.a[:] = a
    together.run()
    joined = [output.copy() for output in together.outputs]
    assert npu.counters.since(before).submits == 1
    before = npu.counters
    for weight, w, output in zip(weights, matrices, joined, strict=True):
        alone = Matmul(npu.context, [weight], 8, one_core=True)
        alone.a[:] = a
        alone.run()
        assert np.array_equal(alone.outputs[0], output) and matches(format, output, a, w)
    assert npu.counters.since(before).submits == count


def test_one_scale_per_channel_is_one_submit_and_the_scaled_exact_product(npu: Npu) -> None:
    random = np.random.default_rng(8)
    a, w = random_matrix(INT4, (32, 2048), random), random_matrix(INT4, (256, 2048), random)
    scales = random.uniform(0.01, 0.1, 256).astype(np.float32)
    matmul = Matmul(npu.context, [npu.load(INT4, "w", w)], 32, one_core=True)
    matmul.a[:] = a
    before = npu.counters
    matmul.run()
    assert npu.counters.since(before).submits == 1
    exact = a.astype(np.int64) @ w.T.astype(np.int64)
    np.testing.assert_array_equal(matmul.outputs[0] * scales, exact.astype(np.int32) * scales)


def test_groups_cost_submits_only_where_a_run_is_full(npu: Npu) -> None:
    """K = 2048 in groups of 128: sixteen programs, one submit, where upstream took sixteen submits."""
    weight = load_grouped(npu.context, "w", np.ones((64, 2048), np.int8), np.ones((16, 64), np.float32), 128)
    assert GroupedMatmul(npu.context, weight, 4).submits == 1


def test_what_the_cpu_fills_is_cacheable_and_what_it_polls_is_not(npu: Npu) -> None:
    """0x403 for tiles and activations: uncached fills were eight times slower."""
    assert uapi.DATA_FLAGS == 0x403
    weight = npu.load(INT8, "w", np.ones((32, 512), np.int8))
    assert weight.buffer.flags == 0x403
    matmul = npu.matmul([weight], 1)
    assert all(buffer.flags == 0x403 for buffer in matmul._buffers())
    given = npu.context.dma.find(npu.dma_array((1, 512), np.int8), "a")
    assert given is not None and given.buffer.flags == 0x403
    with npu.doorbell() as doorbell:
        doorbell.build([ChainTask(weight, 1)])
        assert not doorbell._run.entries[0].task.result.buffer.flags & uapi.MemFlag.CACHEABLE
    polled = npu.dma_array((1, 32), np.int32, cached=False)
    found = npu.context.dma.find(polled, "x")
    assert found is not None and not found.buffer.flags & uapi.MemFlag.CACHEABLE


def test_two_int4_products_in_one_int8_product_leak_into_each_other(npu: Npu) -> None:
    """Why nothing packs two codes into one byte: the cross terms lie on top of the low product."""
    random = np.random.default_rng(4)
    high_a, low_a = (random.integers(-4, 4, (2, 32), dtype=np.int8) for _ in range(2))
    high_b, low_b = (random.integers(-4, 4, (32, 32), dtype=np.int8) for _ in range(2))
    matmul = npu.matmul([npu.load(INT8, "w", 16 * high_b + low_b)], 2)
    matmul.a[:] = 16 * high_a + low_a
    matmul.run()

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x.astype(np.int64) @ y.astype(np.int64).T

    cross = product(high_a, low_b) + product(low_a, high_b)
    wanted = 256 * product(high_a, high_b) + product(low_a, low_b)
    assert cross.any()
    np.testing.assert_array_equal(matmul.outputs[0] - wanted, 16 * cross)
