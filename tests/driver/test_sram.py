"""SRAM: what was asked and what was granted are both told, and a task array cannot ask."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver import sram, uapi
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.sram import NpuUse, allocate_near
from orkbench_tui.errors import RefusedError
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def near() -> Iterator[InProcessBoard]:
    board = InProcessBoard(variant=BoardVariant(sram=True))
    yield board
    board.close()


@pytest.fixture
def memory(near: InProcessBoard) -> Memory:
    return Memory(near.device(), window_bytes=1 << 32, guard_bytes=3900 << 20)


@pytest.mark.parametrize("use", list(NpuUse))
def test_the_grant_is_reported(memory: Memory, use: NpuUse) -> None:
    found = allocate_near(memory, use, 10_000)
    assert (found.requested, found.granted, found.buffer.sram_bytes) == (12288, 12288, 12288)
    assert found.describe() == f"{use}: 12288 of 12288 bytes in SRAM"


def test_a_part_may_be_asked_for(memory: Memory) -> None:
    found = allocate_near(memory, NpuUse.OUTPUTS, 1 << 20, sram_bytes=8192)
    assert (found.granted, found.buffer.size) == (8192, 1 << 20)


def test_what_does_not_fit_is_granted_less(memory: Memory) -> None:
    first = allocate_near(memory, NpuUse.ACTIVATIONS, 2 << 20)
    assert first.granted == 0xEF000 < first.requested
    second = allocate_near(memory, NpuUse.ACTIVATIONS, 4096)
    assert second.granted == 0
    memory.free(first.buffer)
    assert allocate_near(memory, NpuUse.ACTIVATIONS, 4096).granted == 4096


def test_without_sram_nothing_is_granted_and_nothing_breaks(board: InProcessBoard) -> None:
    memory = Memory(board.device(), window_bytes=1 << 32, guard_bytes=3900 << 20)
    found = allocate_near(memory, NpuUse.REGISTER_PROGRAMS, 4096)
    assert found.granted == 0
    found.buffer.view[:] = 3
    memory.sync(found.buffer, uapi.SyncFlag.TO_DEVICE)


@pytest.mark.parametrize("wanted", [0, -1, 8193])
def test_requests_beyond_the_buffer_are_refused(memory: Memory, wanted: int) -> None:
    with pytest.raises(ValueError, match=f"{wanted} bytes of SRAM"):
        allocate_near(memory, NpuUse.OUTPUTS, 8192, sram_bytes=wanted)


def test_a_task_array_in_sram_cannot_be_said(memory: Memory) -> None:
    assert not any("task" in use for use in NpuUse)
    assert "flags" not in inspect.signature(allocate_near).parameters
    with pytest.raises(ValueError, match="task descriptors"):
        allocate_near(memory, "task descriptors", 4096)  # type: ignore[arg-type]
    assert memory.used_bytes(0) == 0
    with pytest.raises(RefusedError, match="GRD-02"):
        memory.allocate(4096, uapi.TASK_FLAGS | uapi.MemFlag.TRY_ALLOC_SRAM)
    assert "TASK_FLAGS" not in inspect.getsource(sram)


def test_a_board_with_sram_runs_as_any_other(near: InProcessBoard) -> None:
    with Npu(near.device()) as npu:
        assert (npu.info().sram_bytes, npu.info().sram_free_bytes) == (0xEF000, 0xEF000)
        matrix = np.random.default_rng(0).integers(-128, 128, (64, 64), dtype=np.int8)
        matmul = npu.matmul_int8([npu.load(INT8, "w", matrix)], 2)
        matmul.a[:] = 1
        matmul.run()
        assert np.array_equal(matmul.outputs[0], np.tile(matrix.astype(np.int32).sum(axis=1), (2, 1)))
    assert near.kernel.wedged == ""
