"""Imports: chunks, limits, chains over few mappings, failures that leave nothing behind."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver import uapi
from orkbench_tui.driver.dma_heap import SystemDmaHeap, raise_descriptor_limit
from orkbench_tui.driver.domains import DomainSettings
from orkbench_tui.driver.importer import (
    MAX_CHAIN_MAPPINGS,
    MAX_IMPORT_BYTES,
    ImportSettings,
    Overflow,
    chunk_units,
)
from orkbench_tui.driver.matmul import assembly
from orkbench_tui.driver.matmul.formats import FP16, INT8
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import (
    BusyError,
    DeniedError,
    NoDeviceError,
    NoMemoryError,
    RefusedError,
    UnhealthyError,
)
from orkbench_tui.sim.inprocess import InProcessBoard

SMALL = 8 << 10


def open_npu(board: InProcessBoard, **settings: object) -> Npu:
    return Npu(
        board.device(),
        timeout_ms=2000,
        heap=board.heap,
        domain_settings=DomainSettings(settle_us=0),
        import_settings=ImportSettings(**settings),  # type: ignore[arg-type]
    )


@pytest.fixture
def importing(board: InProcessBoard) -> Iterator[Npu]:
    with open_npu(board) as npu:
        yield npu


def rows(seed: int, n: int, k: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)


def check(npu: Npu, weights, matrices, m: int = 3) -> None:  # type: ignore[no-untyped-def]
    matmul = npu.matmul_int8(weights, m)
    a = rows(99, m, matrices[0].shape[1])
    matmul.a[:] = a
    matmul.run()
    for matrix, output in zip(matrices, matmul.outputs, strict=True):
        np.testing.assert_array_equal(output, a.astype(np.int32) @ matrix.T.astype(np.int32))
    matmul.close()


# -- chunking ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 100), max_size=60), st.integers(100, 300))
def test_chunks_are_whole_runs_in_order_within_the_bound(units: list[int], bound: int) -> None:
    runs = chunk_units(units, bound)
    assert [i for first, count in runs for i in range(first, first + count)] == list(range(len(units)))
    sizes = [sum(units[first : first + count]) for first, count in runs]
    assert all(0 < size <= bound for size in sizes)
    assert all(a + units[first] > bound for a, (first, _) in zip(sizes, runs[1:], strict=False))


def test_sixty_eight_mb_become_five_chunks() -> None:
    group = 32 * 18944
    assert len(chunk_units([group] * 112, MAX_IMPORT_BYTES)) == 5


def test_a_piece_larger_than_a_chunk_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"GRD-08.*piece of 101 bytes"):
        chunk_units([50, 101], 100)


@pytest.mark.parametrize("size", [0, MAX_IMPORT_BYTES + 1, 64 << 20])
def test_chunk_sizes_beyond_what_works_are_refused(board: InProcessBoard, size: int) -> None:
    with open_npu(board, chunk_bytes=size) as npu, pytest.raises(RefusedError, match="GRD-08"):
        npu.importer()


# -- imported weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [0, 1, 9])
@pytest.mark.parametrize(("n", "k", "chunks"), [(64, 64, 1), (256, 128, 4), (320, 128, 5)])
def test_a_weight_in_chunks_is_exact(board: InProcessBoard, domain: int, n: int, k: int, chunks: int) -> None:
    with open_npu(board, chunk_bytes=SMALL) as npu:
        matrix = rows(n, n, k)
        weight = npu.load(INT8, "w", matrix, domain=domain, imported=True)
        assert len(weight.buffers) == chunks
        assert all(b.size <= SMALL and b.domain == domain for b in weight.buffers)
        for m in (1, 3, 70):
            check(npu, [weight], [matrix], m)


def test_k_slices_lie_in_chunks_too(board: InProcessBoard) -> None:
    with open_npu(board, chunk_bytes=600 << 10) as npu:
        matrix = rows(1, 64, 16384)
        weight = npu.load(INT8, "w", matrix, domain=2, imported=True)
        assert len(weight.slices) == 2 and len(weight.buffers) == 2
        assert weight.tiles is None
        check(npu, [weight], [matrix])


def test_a_chunk_may_hold_parts_of_two_k_slices(board: InProcessBoard) -> None:
    with open_npu(board) as npu:
        matrix = rows(1, 96, 16384)
        weight = npu.load(INT8, "w", matrix, imported=True)
        assert len(weight.buffers) == 1 and len(weight.pieces) == 2
        check(npu, [weight], [matrix])


def test_other_formats_are_imported_as_well(importing: Npu) -> None:
    matrix = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float16)
    matmul = importing.matmul([importing.load(FP16, "w", matrix, domain=1, imported=True)], 2)
    a = np.random.default_rng(1).standard_normal((2, 96)).astype(np.float16)
    matmul.a[:] = a
    matmul.run()
    expected = a.astype(np.float64) @ matrix.T.astype(np.float64)
    np.testing.assert_allclose(matmul.outputs[0], expected, rtol=1e-3, atol=1e-3)


def test_tiles_of_an_imported_weight_are_seen_by_the_cpu(importing: Npu) -> None:
    matrix = rows(4, 64, 64)
    imported = importing.load(INT8, "w", matrix, imported=True)
    native = importing.load(INT8, "w", matrix)
    assert imported.tiles is not None and native.tiles is not None
    np.testing.assert_array_equal(imported.tiles, native.tiles)


def test_one_sync_per_chunk(board: InProcessBoard) -> None:
    with open_npu(board, chunk_bytes=SMALL) as npu:
        npu.load(INT8, "w", rows(0, 256, 128), imported=True)
        assert npu.memory.syncs == 4


def test_an_unsynced_import_shows(importing: Npu) -> None:
    """What the sync of a chunk is for."""
    matrix = rows(5, 64, 64)
    weight = importing.load(INT8, "w", matrix, imported=True)
    weight.buffer.view[:] = 0
    check(importing, [weight], [matrix])
    importing.memory.sync(Slice(weight.buffer, 0, 4096), uapi.SyncFlag.TO_DEVICE)
    check(importing, [weight], [np.zeros_like(matrix)])


# -- chains over imports -------------------------------------------------------------------------------


def test_chains_are_cut_so_that_none_walks_too_many_imports(
    board: InProcessBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_npu(board, chunk_bytes=SMALL) as npu:
        matrices = [rows(seed, 320, 128) for seed in range(3)]
        weights = [npu.load(INT8, f"w{i}", m, domain=1, imported=True) for i, m in enumerate(matrices)]
        assert sum(len(weight.buffers) for weight in weights) == 15
        check(npu, weights, matrices)
        monkeypatch.setattr(assembly, "split_by_imports", lambda run: [list(run)])
        with pytest.raises(RefusedError, match="GRD-07"):
            npu.matmul_int8(weights, 3)
        monkeypatch.setattr(assembly, "require_chain_mappings", lambda count, what: None)
        monkeypatch.setattr(assembly, "deal", lambda programs, cores, limit: [list(programs)])
        with pytest.raises(UnhealthyError, match="did not finish in time"):
            check(npu, weights, matrices)


def test_native_weights_are_never_cut(importing: Npu) -> None:
    matrices = [rows(seed, 64, 64) for seed in range(9)]
    weights = [importing.load(INT8, f"w{i}", m) for i, m in enumerate(matrices)]
    before = importing.counters.submits
    check(importing, weights, matrices)
    assert importing.counters.submits - before == 3


def test_seven_imported_weights_in_one_matmul_are_exact(importing: Npu) -> None:
    matrices = [rows(seed, 64, 64) for seed in range(7)]
    weights = [importing.load(INT8, f"w{i}", m, imported=True) for i, m in enumerate(matrices)]
    check(importing, weights, matrices)


def test_too_many_chunks_go_to_native_memory_or_are_refused(board: InProcessBoard) -> None:
    matrix = rows(0, 384, 128)
    with open_npu(board, chunk_bytes=SMALL) as npu:
        weight = npu.load(INT8, "w", matrix, domain=1, imported=True)
        assert weight.buffers == (weight.buffer,) and weight.buffer.source is None
        check(npu, [weight], [matrix])
    with open_npu(board, chunk_bytes=SMALL, overflow=Overflow.REFUSE) as npu:
        with pytest.raises(RefusedError, match=r"GRD-07.*weight w walks 6 imported mappings, allowed: 5"):
            npu.load(INT8, "w", matrix, domain=1, imported=True)
        assert npu.domains() == []


def test_our_limit_is_below_the_simulated_one() -> None:
    from orkbench_tui.sim.kernel.import_walk import MAX_MAPPINGS

    assert MAX_CHAIN_MAPPINGS < MAX_MAPPINGS


# -- refusals and failures -----------------------------------------------------------------------------


def test_without_anchors_a_fresh_domain_is_refused_and_domain_zero_is_not(board: InProcessBoard) -> None:
    with open_npu(board, anchors=False) as npu:
        with pytest.raises(RefusedError, match="GRD-06"):
            npu.importer().allocate(4096, 1)
        assert npu.importer().allocate(4096, 0).domain == 0


def test_the_anchor_is_there_before_the_first_import(board: InProcessBoard, importing: Npu) -> None:
    importing.importer().allocate(4096, 3)
    order = sorted(importing.memory.buffers(3), key=lambda b: -b.iova)
    assert [b.anchor for b in order] == [True, False]


def test_an_import_that_lands_in_another_process_s_domain_is_made_again(
    board: InProcessBoard, importing: Npu, monkeypatch: pytest.MonkeyPatch
) -> None:
    importing.importer().allocate(4096, 1)
    other, device, meddle = board.device(), importing._device, [1]
    ioctl = device.ioctl

    def between(request: int, argument: bytearray) -> int:
        if request == uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE and meddle[0]:
            meddle[0] -= 1
            other.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=25, value=2)))
        return ioctl(request, argument)

    monkeypatch.setattr(device, "ioctl", between)
    buffer = importing.importer().allocate(4096, 1)
    assert board.kernel.memory.find(buffer.obj_addr).mapped == 1
    meddle[0] = 1000
    with pytest.raises(BusyError, match="another program switches"):
        importing.importer().allocate(4096, 1)


def test_without_a_heap_importing_is_a_typed_error(board: InProcessBoard) -> None:
    with Npu(board.device()) as npu, pytest.raises(NoDeviceError, match="no dma-heap"):
        npu.load(INT8, "w", rows(0, 32, 32), imported=True)


def test_a_failed_chunk_gives_the_others_back(board: InProcessBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_npu(board, chunk_bytes=SMALL) as npu:
        npu.importer().allocate(4096)
        heap = npu._heap
        assert heap is not None
        allocate, left = heap.allocate, [2]

        def failing(size: int):  # type: ignore[no-untyped-def]
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOMEM, "heap")
            return allocate(size)

        monkeypatch.setattr(heap, "allocate", failing)
        with pytest.raises(NoMemoryError, match="importing"):
            npu.load(INT8, "w", rows(0, 256, 128), domain=0, imported=True)
        assert npu.memory.used_bytes(0) == 4096
        assert board.kernel.memory.heap.allocated == 4096


def test_a_refused_mapping_closes_the_buffer(board: InProcessBoard, importing: Npu) -> None:
    importing.importer().allocate(4096)
    board.kernel.domains[0].iova._holes.clear()
    with pytest.raises(NoMemoryError, match="importing 8192 bytes into domain 0"):
        importing.importer().allocate(8192)
    assert board.kernel.memory.heap.allocated == 4096


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_freed_imports_and_closed_npus_leave_nothing(board: InProcessBoard) -> None:
    before = _descriptors()
    with open_npu(board) as npu:
        for _ in range(5):
            npu.free(npu.load(INT8, "w", rows(0, 64, 64), imported=True))
        assert board.kernel.memory.heap.allocated == 0
        npu.load(INT8, "w", rows(0, 64, 64), imported=True)
    assert board.kernel.memory.heap.allocated == board.kernel.memory.objects == 0
    assert _descriptors() == before


def test_the_descriptor_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_heap_node_that_is_not_there_or_closed_to_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoDeviceError, match="cannot open"):
        SystemDmaHeap(str(tmp_path / "system"))

    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DeniedError, match="no permission"):
        SystemDmaHeap(str(tmp_path / "system"))
