"""PRIME imports: where they are mapped, who may touch them, what a chain makes of them, what leaks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim import programs
from tests.sim.board_client import Client
from tests.sim.conftest import log_text
from tests.sim.kernel.imports import Chain, Import, chain, destroy, errno_of, import_into

WARNING = "__iommu_dma_unmap+0xe4/0xf8\n"


@pytest.fixture
def patched() -> Iterator[InProcessBoard]:
    board = InProcessBoard(variant=BoardVariant(patch_import_domain=True))
    yield board
    board.close()


def _weights(seed: int, n: int = 64, k: int = 64) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)


def _imported(client: Client, board: InProcessBoard, rows: np.ndarray, domain: int = 0) -> Import:
    imported = import_into(client, board, rows.size, domain)
    imported.put(programs.weight_tiles(rows))
    return imported


def _warnings(board: InProcessBoard) -> int:
    return log_text(board).count("WARNING: CPU: 5")


def test_the_live_domain_gets_the_mapping_and_domain_zero_the_record(
    board: InProcessBoard, client: Client
) -> None:
    native = client.allocate(4096, domain=3)
    imported = import_into(client, board, 8192, domain=3, asked=2)
    assert imported.iova == native.iova - 8192
    assert imported.domain == 2, "the answer is the caller's own value"
    gem = board.kernel.memory.find(imported.obj_addr)
    assert (gem.mapped, gem.domain) == (3, 0)
    assert client.action(24) == 3


def test_with_the_patch_the_record_is_the_live_domain(patched: InProcessBoard) -> None:
    client = Client(patched.device())
    client.allocate(4096, domain=3)
    imported = import_into(client, patched, 4096, domain=3)
    assert imported.domain == 3
    assert patched.kernel.memory.find(imported.obj_addr).domain == 3


def test_imports_refuse_map_and_sync_of_the_npu_node(board: InProcessBoard, client: Client) -> None:
    imported = import_into(client, board, 4096)
    assert (
        errno_of(lambda: client.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=imported.handle))) == errno.EINVAL
    )
    request = uapi.MemSync(flags=1, obj_addr=imported.obj_addr, size=4096)
    assert errno_of(lambda: client.call(uapi.RKNPU_MEM_SYNC, request)) == errno.EINVAL


def test_one_file_imports_a_buffer_once(board: InProcessBoard, client: Client) -> None:
    imported = import_into(client, board, 4096)
    again = client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=imported.source.fd))
    assert again.handle == imported.handle
    other = Client(board.device())
    handle = other.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=imported.source.fd)).handle
    assert other.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(handle=handle)).dma_addr != imported.iova


def test_what_is_no_dma_buf_is_refused(client: Client) -> None:
    read, write = os.pipe()
    prime = uapi.PrimeHandle(fd=read)
    assert errno_of(lambda: client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, prime)) == errno.EINVAL
    os.close(read)
    os.close(write)
    assert errno_of(lambda: client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, prime)) == errno.EBADF


@pytest.mark.parametrize(("mib", "code"), [(16, None), (64, errno.ENOMEM)])
def test_sixteen_mib_can_be_imported_and_sixty_four_cannot(
    board: InProcessBoard, client: Client, mib: int, code: int | None
) -> None:
    assert errno_of(lambda: import_into(client, board, mib << 20)) == code


def test_an_import_as_task_array_is_refused(board: InProcessBoard, client: Client) -> None:
    imported = import_into(client, board, 4096)
    request = uapi.Submit(flags=5, task_number=1, task_obj_addr=imported.obj_addr, core_mask=1)
    assert errno_of(lambda: client.call(uapi.RKNPU_SUBMIT, request)) == errno.EFAULT


# -- what the device sees ------------------------------------------------------------------------------


def test_sync_of_the_dma_buf_moves_the_bytes(board: InProcessBoard, client: Client) -> None:
    rows = _weights(1)
    imported = import_into(client, board, rows.size)
    work = chain(client, [(imported.iova, rows)])
    imported.view[: rows.size] = programs.weight_tiles(rows).view(np.uint8).reshape(-1)
    work.run()
    assert not work.results()[0].any(), "the chip saw a write nobody synced"
    imported.source.sync(uapi.DmaBufSyncFlag.END | uapi.DmaBufSyncFlag.WRITE)
    work.run()
    assert np.array_equal(work.results()[0], work.expected[0])


def test_mapping_makes_earlier_writes_visible_and_reads_need_a_start(
    board: InProcessBoard, client: Client
) -> None:
    source = board.heap().allocate(4096)
    np.frombuffer(source.mapping, np.uint8)[:] = 5
    client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=source.fd))
    (gem,) = board.kernel.memory._by_obj.values()
    assert (gem.device == 5).all()
    gem.device[:] = 9
    assert source.mapping[0] == 5
    source.sync(uapi.DmaBufSyncFlag.READ)
    assert source.mapping[0] == 9


@pytest.mark.parametrize("flags", [0, 4, 8, 1 << 40])
def test_a_sync_without_direction_or_with_unknown_flags_is_einval(board: InProcessBoard, flags: int) -> None:
    source = board.heap().allocate(4096)
    assert errno_of(lambda: source.sync(flags)) == errno.EINVAL


def test_imports_in_a_domain_with_a_native_buffer_are_exact(board: InProcessBoard, client: Client) -> None:
    client.allocate(64 << 10, domain=1)
    rows = _weights(2, n=512, k=512)
    work = chain(client, [(_imported(client, board, rows, 1).iova, rows)], 1)
    work.run()
    assert np.array_equal(work.results()[0], work.expected[0])


def test_an_import_as_first_buffer_of_a_domain_loses_its_last_columns(
    board: InProcessBoard, client: Client
) -> None:
    seen = []
    for domain in (1, 2):
        rows = _weights(2, n=512, k=512)
        work = chain_of_unanchored(client, board, rows, domain)
        work.run()
        result, expected = work.results()[0], work.expected[0]
        assert np.array_equal(result[:, 0], expected[:, 0]), "C[0] is right, which is the trap"
        wrong = np.flatnonzero((result != expected).any(axis=0))
        assert wrong.min() == 448 and wrong.max() == 511
        seen.append(result.copy())
    assert np.array_equal(seen[0], seen[1]), "the same wrong numbers each time"


def chain_of_unanchored(client: Client, board: InProcessBoard, rows: np.ndarray, domain: int) -> Chain:
    imported = _imported(client, board, rows, domain)
    return chain(client, [(imported.iova, rows)], domain)


def test_domain_zero_needs_no_native_buffer_first(board: InProcessBoard) -> None:
    client = Client(board.device())
    rows = _weights(3)
    imported = _imported(client, board, rows)
    work = chain(client, [(imported.iova, rows)])
    work.run()
    assert np.array_equal(work.results()[0], work.expected[0])


@pytest.mark.parametrize(("count", "code"), [(6, None), (7, errno.ETIMEDOUT), (19, errno.ETIMEDOUT)])
def test_a_chain_walks_six_imported_mappings_and_no_more(
    board: InProcessBoard, client: Client, count: int, code: int | None
) -> None:
    rows = [_weights(seed) for seed in range(count)]
    work = chain(client, [(_imported(client, board, matrix).iova, matrix) for matrix in rows])
    assert errno_of(work.run) == code
    if code is None:
        assert all(np.array_equal(r, e) for r, e in zip(work.results(), work.expected, strict=True))
    else:
        assert "[imports]" in log_text(board)


def test_native_buffers_have_no_such_limit(client: Client) -> None:
    matrices = [_weights(seed) for seed in range(19)]
    weights = []
    for matrix in matrices:
        memory = client.allocate(matrix.size)
        client.put(memory, programs.weight_tiles(matrix))
        weights.append((memory.iova, matrix))
    work = chain(client, weights)
    work.run()
    assert all(np.array_equal(r, e) for r, e in zip(work.results(), work.expected, strict=True))


def test_many_imports_one_program_each_are_fine(board: InProcessBoard, client: Client) -> None:
    for seed in range(9):
        rows = _weights(seed)
        work = chain(client, [(_imported(client, board, rows).iova, rows)])
        work.run()
        assert np.array_equal(work.results()[0], work.expected[0])


# -- the leak ------------------------------------------------------------------------------------------


def _one_process(board: InProcessBoard, domains: int, imports: int) -> None:
    device = board.device()
    client = Client(device)
    for domain in range(domains):
        client.allocate(64 << 10, domain=domain)
        for _ in range(imports):
            import_into(client, board, 1 << 20, domain)
    device.close()


@pytest.mark.parametrize(("domains", "leaked"), [(1, 0), (2, 3), (3, 6)])
def test_a_stock_kernel_leaks_every_import_outside_domain_zero(
    board: InProcessBoard, domains: int, leaked: int
) -> None:
    _one_process(board, domains, 3)
    assert _warnings(board) == leaked == board.kernel.domains.leaked_mappings
    assert (WARNING in log_text(board)) == bool(leaked)


def test_with_the_patch_nothing_leaks(patched: InProcessBoard) -> None:
    for _ in range(5):
        _one_process(patched, 3, 3)
    assert _warnings(patched) == patched.kernel.domains.leaked_mappings == 0


def test_a_destroyed_import_leaks_too_and_its_addresses_stay_taken(
    board: InProcessBoard, client: Client
) -> None:
    client.allocate(64 << 10, domain=1)
    first = import_into(client, board, 1 << 20, 1)
    destroy(client, first)
    assert client.action(24) == 0, "destroying went to the recorded domain"
    assert import_into(client, board, 1 << 20, 1).iova == first.iova - (1 << 20)
    first.source.close()
    assert _warnings(board) == 1


def _small_window(board: InProcessBoard, mib: int) -> None:
    """Leave only so much of domain 1's window; filling 4 GiB would take this machine ten seconds."""
    board.kernel.domains[1].iova._holes = [(1 << 20, (mib + 1) << 20)]


def test_leaks_fill_the_window_until_nothing_can_be_imported(board: InProcessBoard) -> None:
    device = board.device()
    client = Client(device)
    client.allocate(64 << 10, domain=1)
    _small_window(board, 200)
    done = 0
    while done < 300:
        try:
            imported = import_into(client, board, 16 << 20, 1)
        except OSError as error:
            assert error.errno == errno.ENOMEM
            break
        destroy(client, imported)
        imported.source.close()
        done += 1
    assert done == 12, "200 MiB in pieces of 16"
    device.close()
    late = Client(board.device())
    assert errno_of(lambda: import_into(late, board, 16 << 20, 1)) == errno.ENOMEM
    assert errno_of(lambda: import_into(late, board, 16 << 20, 0)) is None


def test_with_the_patch_the_same_loop_never_ends(patched: InProcessBoard) -> None:
    client = Client(patched.device())
    client.allocate(64 << 10, domain=1)
    _small_window(patched, 40)
    for _ in range(20):
        imported = import_into(client, patched, 16 << 20, 1)
        destroy(client, imported)
        imported.source.close()
    assert patched.kernel.memory.heap.allocated == 0


# -- life of the heap's buffers ------------------------------------------------------------------------


def test_a_buffer_lives_as_long_as_a_handle_or_a_descriptor(board: InProcessBoard, client: Client) -> None:
    heap = board.kernel.memory.heap
    imported = import_into(client, board, 5000)
    assert heap.allocated == 8192
    imported.source.close()
    assert heap.allocated == 8192
    destroy(client, imported)
    assert heap.allocated == 0


def test_the_board_s_memory_counts_heap_buffers(board: InProcessBoard) -> None:
    def free() -> int:
        return int(board.files().read("/proc/meminfo").data.split()[4])

    before = free()
    source = board.heap().allocate(2 << 30)
    assert before - free() == pytest.approx(2 << 20, rel=0.05)
    source.close()
    assert board.kernel.memory.held == 0


def test_a_heap_that_is_closed_gives_its_buffers_back(board: InProcessBoard) -> None:
    heap = board.heap()
    for _ in range(3):
        heap.allocate(1 << 20)
    assert board.kernel.memory.heap.allocated == 3 << 20
    heap.close()
    assert board.kernel.memory.heap.allocated == 0
    assert errno_of(lambda: board.heap().allocate(0)) == errno.EINVAL
    assert errno_of(lambda: board.heap().allocate(64 << 30)) == errno.ENOMEM


def test_with_the_anchor_patch_an_import_may_be_the_first_buffer_of_a_domain() -> None:
    """What a native buffer cures on a stock kernel needs no cure there."""
    for patched in (False, True):
        board = InProcessBoard(variant=BoardVariant(patch_domain_anchor=patched))
        client = Client(board.device())
        work = chain_of_unanchored(client, board, _weights(4), 2)
        work.run()
        assert np.array_equal(work.results()[0], work.expected[0]) is patched
        board.close()
