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
