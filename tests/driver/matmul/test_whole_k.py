"""The whole K in one program, and the same weights in slices of it whose sums are added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu


@pytest.mark.parametrize("rows", [1, 3, 70])
def test_slicing_k_changes_the_submits_and_no_bit(npu: Npu, rows: int) -> None:
    random = np.random.default_rng(7)
    b = random.integers(-128, 128, (96, 2048), dtype=np.int8)
    a = random.integers(-128, 128, (rows, 2048), dtype=np.int8)
    results, programs = [], []
    for format in (INT8, replace(INT8, k_limit=512)):
        weight = npu.load(format, "w", b)
        assert len(weight.slices) == (1 if format is INT8 else 4)
        matmul = npu.matmul([weight], rows)
        matmul.a[:] = a
        before = npu.counters.tasks
        matmul.run_on(0)
        programs.append(npu.counters.tasks - before)
        results.append(matmul.outputs[0].copy())
        matmul.close()
        npu.free(weight)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], a.astype(np.int32) @ b.T.astype(np.int32))
    assert programs[1] > programs[0]


_ONE_PROGRAM_ON_BOARDS = 10752
"""K that boards take in one int8 program, as published."""


@pytest.mark.parametrize("k", [8192, 8224, 10752, 18944])
def test_k_beyond_the_ceiling_is_split_and_stays_exact(npu: Npu, k: int) -> None:
    random = np.random.default_rng(k)
    b = random.integers(-128, 128, (32, k), dtype=np.int8)
    a = random.integers(-128, 128, (2, k), dtype=np.int8)
    weight = npu.load(INT8, "w", b)
    assert sum(part.length for part in weight.slices) == k
    assert max(part.length for part in weight.slices) <= INT8.k_limit
    assert INT8.k_limit <= _ONE_PROGRAM_ON_BOARDS
    assert len(weight.slices) == -(-k // INT8.k_limit)
    matmul = npu.matmul([weight], 2)
    matmul.a[:] = a
    matmul.run()
    np.testing.assert_array_equal(matmul.outputs[0], a.astype(np.int32) @ b.T.astype(np.int32))
