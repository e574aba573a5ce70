"""int8 matmuls through driver, kernel and chip: exact in every element, whatever the shape and path."""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver import uapi
from orkbench_tui.driver.layouts import tile_weights
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.npu_info import version_text
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.errors import NoMemoryError, RefusedError
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.sim.inprocess import InProcessBoard


def _weights(n, k, seed):
    return np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)


def _load(npu, matrix, name="w"):
    return npu.load_int8(name, tile_weights(INT8_TO_INT32, matrix), matrix.shape[1], matrix.shape[0])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 300),
    k=st.integers(1, 40).map(lambda g: 32 * g),
    n=st.integers(1, 40).map(lambda g: 32 * g),
    seed=st.integers(0, 2**31),
)
def test_random_shapes_are_exact(npu, m, k, n, seed):
    assert exact_matmul(npu, m, k, n, seed=seed).wrong == 0


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (1, 32, 32),
        (600, 8192, 64),
        (17, 8192, 96),
        (3, 64, 12288),
        (2, 32, 33000 // 32 * 32),
        (4, 16384, 32),
        (5, 8224, 64),
        (1022, 32, 32),
        (1023, 32, 32),
    ],
)
def test_shapes_at_the_limits_are_exact(npu, m, k, n):
    assert exact_matmul(npu, m, k, n, seed=1).wrong == 0


@pytest.mark.parametrize("core", [0, 1, 2])
def test_each_core_alone_is_exact(npu, core):
    result = exact_matmul(npu, 64, 576, 192, core=core)
    assert result.wrong == 0
    assert npu.counters.core_submits[core] == result.submits
    assert sum(npu.counters.core_submits) == result.submits


def test_one_core_beyond_the_last_is_refused(npu):
    with pytest.raises(ValueError, match="core 3"):
        exact_matmul(npu, 1, 32, 32, core=3)


def test_extreme_operands_do_not_saturate(npu):
    weight = _load(npu, np.full((32, 8192), -128, dtype=np.int8))
    matmul = npu.matmul_int8([weight], 2)
    matmul.a[:] = -128
    matmul.run()
    assert (matmul.outputs[0] == 128 * 128 * 8192).all()


def test_weights_that_share_an_activation_run_in_one_stream(npu):
    matrices = [_weights(n, 96, n) for n in (96, 32, 64)]
    matmul = npu.matmul_int8([_load(npu, matrix) for matrix in matrices], 7)
    a = _weights(7, 96, 5)
    matmul.a[:] = a
    before = npu.counters
    matmul.run()
    for matrix, output in zip(matrices, matmul.outputs, strict=True):
        np.testing.assert_array_equal(output, a.astype(np.int32) @ matrix.T.astype(np.int32))
    used = npu.counters.since(before)
    assert used.submits == 3
    assert used.tasks == matmul.tasks


def test_a_matmul_of_another_lane_leaves_operand_and_result_alone(npu):
    matrix = _weights(64, 96, 3)
    weight = _load(npu, matrix)
    first, same, other = (npu.matmul_int8([weight], 9, lane=lane) for lane in (0, 0, 1))
    assert np.shares_memory(first.a, same.a), "the lane's memory is shared, so the next check can fail"
    a, b = _weights(9, 96, 5), _weights(9, 96, 6)
    first.a[:], other.a[:] = a, b
    first.run()
    other.run()
    np.testing.assert_array_equal(first.outputs[0], a.astype(np.int32) @ matrix.T.astype(np.int32))
    np.testing.assert_array_equal(other.outputs[0], b.astype(np.int32) @ matrix.T.astype(np.int32))
    np.testing.assert_array_equal(first.a, a)


def test_a_compiled_matmul_is_rerun_without_new_memory(npu):
    matrix = _weights(64, 64, 0)
    matmul = npu.matmul_int8([_load(npu, matrix)], 9)
    used = npu.memory.used_bytes(0)
    for seed in range(5):
        a = _weights(9, 64, seed)
        matmul.a[:] = a
        matmul.run()
        np.testing.assert_array_equal(matmul.outputs[0], a.astype(np.int32) @ matrix.T.astype(np.int32))
    assert npu.memory.used_bytes(0) == used


def test_closed_matmuls_give_their_program_memory_back(npu):
    weight = _load(npu, _weights(64, 64, 0))
    npu.matmul_int8([weight], 9).close()
    used = npu.memory.used_bytes(0)
    for _ in range(3000):
        npu.matmul_int8([weight], 9).close()
    assert npu.memory.used_bytes(0) == used


def test_two_threads_may_stream_at_once(npu):
    weight = _load(npu, _weights(96, 96, 0))
    failures = []

    def work(rows):
        # Scratch is shared by size, so two threads take row counts whose buffers differ.
        matmul = npu.matmul_int8([weight], rows)
        for seed in range(10):
            a = _weights(rows, 96, seed)
            matmul.a[:] = a
            matmul.run()
            if not np.array_equal(
                matmul.outputs[0], a.astype(np.int32) @ _weights(96, 96, 0).T.astype(np.int32)
            ):
                failures.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (3, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    ("k", "n", "count", "message"),
    [
        (31, 32, 31 * 32, "multiples of 32"),
        (32, 40, 1280, "multiples of 32"),
        (0, 32, 0, "positive"),
        (32, 32, 1000, "expected 1024"),
    ],
)
def test_tiles_of_a_wrong_size_are_refused(npu, k, n, count, message):
    with pytest.raises(ValueError, match=message):
        npu.load_int8("w", np.zeros(count, dtype=np.int8), k, n)


def test_weights_of_different_k_do_not_share_a_matmul(npu):
    with pytest.raises(ValueError, match="must share K"):
        npu.matmul_int8([_load(npu, _weights(32, 32, 0)), _load(npu, _weights(32, 64, 0))], 1)
    with pytest.raises(ValueError, match="0 weights"):
        npu.matmul_int8([], 1)


def test_sram_for_a_task_array_is_refused_before_the_device_is_asked(npu):
    with pytest.raises(RefusedError, match="SRAM"):
        npu.memory.allocate(4096, uapi.TASK_FLAGS | uapi.MemFlag.TRY_ALLOC_SRAM)


def test_more_than_the_window_is_refused_with_the_numbers(npu):
    with pytest.raises(NoMemoryError, match="bytes are taken"):
        npu.memory.allocate(4000 << 20)


def test_the_cpu_view_of_a_weight_is_its_tiles(npu):
    matrix = _weights(64, 96, 3)
    np.testing.assert_array_equal(_load(npu, matrix).tiles, tile_weights(INT8_TO_INT32, matrix))
    assert _load(npu, _weights(32, 8224, 0)).tiles is None


def test_info_is_what_the_driver_says(npu):
    info = npu.info()
    assert info.driver_version == "0.9.8"
    assert info.hw_version == uapi.HW_VERSION_RK3588
    assert info.iommu is True
    assert version_text(908) == "0.9.8" and version_text(10203) == "1.2.3"


def test_closing_frees_everything_on_the_board(board):
    with Npu(board.device()) as npu:
        _load(npu, _weights(64, 64, 0))
    with Npu(board.device()) as second:
        fresh = second.memory.allocate(4096)
    with Npu(InProcessBoard().device()) as other:
        assert other.memory.allocate(4096).iova == fresh.iova
