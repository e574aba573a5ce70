"""The memory ioctls: create, import, map, destroy, sync, close; and the address ranges behind them."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from orkbench_tui.driver.uapi import (
    PAGE,
    GemClose,
    MemCreate,
    MemDestroy,
    MemFlag,
    MemMap,
    MemSync,
    PrimeHandle,
    SyncFlag,
    page_up,
)
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.identity import NEWEST, DriverVersion
from orkbench_tui.sim.kernel.dma_heap import DmaHeap, file_identity
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.gem import GemObject, create_memory
from orkbench_tui.sim.kernel.imports import import_buffer
from orkbench_tui.sim.kernel.kernel_log import ERR, KernelLog
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.sram import SramPool
from orkbench_tui.sim.kernel.unmap_warning import log_unmap_warning

__all__ = ["Memory"]

BOARD_MEMORY = 32_507_904 * 1024
KEPT_FREE = 1_400_000 * 1024
"""What the system itself uses on the simulated board; buffers may take the rest."""

FIRST_FAKE_OFFSET = 0x1_0000_0000
FIRST_OBJECT = 0xFFFF_FF81_0400_0000
_ALL_FLAGS = sum(MemFlag)
_DESTROY_ATTEMPTS = 3
_SYNC_FLAGS = int(SyncFlag.TO_DEVICE | SyncFlag.FROM_DEVICE)


class Memory:
    """``wedge`` is called with a reason when a request kills the board; it raises what the caller gets.

    ``import_limit`` answers the largest import that has memory, None for no limit.
    """

    def __init__(
        self,
        condition: threading.Condition,
        log: KernelLog,
        domains: Domains,
        wedge: Callable[[str], NoReturn],
        variant: BoardVariant = STOCK,
        driver: DriverVersion = NEWEST,
        import_limit: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._driver = driver
        self._import_limit = import_limit
        self._condition = condition
        self._log = log
        self._domains = domains
        self._wedge = wedge
        self._variant = variant
        self.heap = DmaHeap(condition, BOARD_MEMORY - KEPT_FREE)
        self.sram = SramPool(log) if variant.sram else SramPool(log, 0)
        self._by_obj: dict[int, GemObject] = {}
        self._by_offset: dict[int, GemObject] = {}
        self._obj_addresses = itertools.count(FIRST_OBJECT, 0x400)
        self._next_offset = FIRST_FAKE_OFFSET
        self.allocated = 0

    @property
    def objects(self) -> int:
        return len(self._by_obj)

    @property
    def held(self) -> int:
        """Bytes of the board's memory taken by NPU buffers and the dma-heap."""
        return self.allocated + self.heap.allocated

    def find(self, obj_addr: int) -> GemObject:
        """The object at a kernel address. Raises OSError(EINVAL): the board would dereference it."""
        found = self._by_obj.get(obj_addr)
        if found is None:
            raise OSError(errno.EINVAL, "obj_addr")
        return found

    def create(self, file: OpenFile, request: MemCreate) -> None:
        """MEM_CREATE. Raises OSError: EINVAL (size, flags, handle, domain) or ENOMEM."""
        if not self._driver.domains:
            request.iommu_domain_id = 0
        with self._condition:
            if request.handle:
                gem = file.get(request.handle)
                if gem.source is not None and self._variant.patch_import_domain:
                    request.iommu_domain_id = gem.domain
            else:
                gem = self._allocate(request)
                request.handle = file.add(gem)
                request.size = gem.size
            request.obj_addr, request.dma_addr = gem.obj_addr, gem.dma_addr
            request.sram_size = gem.sram[1]

    def import_fd(self, file: OpenFile, request: PrimeHandle, identity: int | None = None) -> None:
        """PRIME_FD_TO_HANDLE. A buffer imported twice by one file has one handle.

        ``identity`` names the buffer when the descriptor's number is another process's.

        Raises:
            OSError: EBADF, EINVAL for what is no dma-buf, ENOMEM when it cannot be mapped.
        """
        source_id = file_identity(request.fd) if identity is None else identity
        with self._condition:
            source = self.heap.find(source_id)
            for handle, gem in file.handles.items():
                if gem.source is source:
                    request.handle = handle
                    return
            limit = self._import_limit()
            if limit is not None and source.size > limit:
                self._log.chip(f"no memory to import {source.size} bytes")
                raise OSError(errno.ENOMEM, "import")
            gem = import_buffer(
                self._domains,
                self._log,
                source,
                lambda: next(self._obj_addresses),
                record_domain=self._variant.patch_import_domain,
            )
            self.heap.hold(source)
            self._by_obj[gem.obj_addr] = gem
            request.handle = file.add(gem)

    def _allocate(self, request: MemCreate) -> GemObject:
        if request.size == 0 or request.flags & ~_ALL_FLAGS:
            self._log.device(ERR, f"invalid buffer size: {request.size}")
            raise OSError(errno.EINVAL, "buffer size or flags")
        size, flags = page_up(request.size), MemFlag(request.flags)
        mapped, recorded = self._enter_to_create(request.iommu_domain_id)
        if self.held + size > BOARD_MEMORY - KEPT_FREE:
            self._no_memory(size)
        sram = self._sram(size, flags, request.sram_size)
        domain = self._domains[mapped]
        align = PAGE if flags & MemFlag.IOMMU_LIMIT_IOVA_ALIGNMENT else 1 << (size - 1).bit_length()
        address = domain.iova.allocate(size, align)
        if address is None:
            self._give_sram_back(sram)
            self._log.driver(ERR, "failed to allocate IOVA: -12")
            self._log.device(ERR, f"rknpu_gem_get_pages: dma map {size} fail")
            self._no_memory(size)
        try:
            fd, cpu, device = create_memory(size, bool(flags & MemFlag.CACHEABLE))
        except (OSError, MemoryError):
            domain.iova.free(address, size)
            self._give_sram_back(sram)
            self._no_memory(size)
        gem = GemObject(
            size=size,
            flags=flags,
            domain=recorded,
            mapped=mapped,
            sram=sram,
            obj_addr=next(self._obj_addresses),
            fake_offset=self._next_offset,
            dma_addr=address,
            fd=fd,
            cpu=cpu,
            device=device,
        )
        self._next_offset += size
        self.allocated += size
        self._by_obj[gem.obj_addr] = self._by_offset[gem.fake_offset] = gem
        domain.map(gem.segment(), imported=False)
        return gem

    def _enter_to_create(self, domain: int) -> tuple[int, int]:
        """Make a domain live: (where the buffer is mapped, what is recorded).

        Raises:
            OSError: as a switch does. In 0.9.6 and 0.9.7 a failed one is not minded, and recorded as domain 0.
        """
        try:
            self._domains.switch(domain)
        except OSError:
            if not self._domains.switch_waits:
                return self._domains.live, 0
            self._log.device(ERR, "rknpu_gem_object_create error")
            raise
        return domain, domain

    def _sram(self, size: int, flags: MemFlag, requested: int) -> tuple[int, int]:
        """(first chunk, bytes) of on-chip memory for a buffer; (-1, 0) when it lies in DRAM."""
        if not flags & MemFlag.TRY_ALLOC_SRAM:
            return -1, 0
        sram = self.sram.allocate(size, requested)
        if sram[1] and flags & MemFlag.KERNEL_MAPPING:
            self._wedge(f"a buffer with a kernel mapping (flags {int(flags):#x}) was put into SRAM")
        return sram

    def _give_sram_back(self, sram: tuple[int, int]) -> None:
        if sram[1]:
            self.sram.give_back(*sram)

    def _no_memory(self, size: int) -> NoReturn:
        self._log.device(ERR, f"failed to allocate non-contiguous {size} buffer.")
        raise OSError(errno.ENOMEM, "buffer")

    def map(self, file: OpenFile, request: MemMap) -> None:
        """MEM_MAP. Raises OSError(EINVAL): no such handle, or an import, which its own descriptor maps."""
        with self._condition:
            gem = file.get(request.handle)
            if gem.source is not None:
                raise OSError(errno.EINVAL, "mmap offset of an import")
            request.offset = gem.fake_offset

    def mapped_object(self, file: OpenFile, offset: int, length: int) -> GemObject:
        """The object an mmap call names. Raises OSError: EINVAL, or EACCES without a handle to it."""
        with self._condition:
            gem = self._by_offset.get(offset)
            if gem is None or not 0 < length <= gem.size:
                raise OSError(errno.EINVAL, "mmap")
            if gem not in file.handles.values():
                raise OSError(errno.EACCES, "mmap of another file's buffer")
            return gem

    def sync(self, request: MemSync) -> None:
        """MEM_SYNC. Raises OSError(EINVAL): unknown object, not cacheable, or outside the object."""
        with self._condition:
            gem = self.find(request.obj_addr)
            inside = request.offset + request.size <= gem.size
            taken = gem.cacheable or (self._driver.syncs_uncached and gem.source is None)
            if not taken or not inside or request.flags & ~_SYNC_FLAGS:
                raise OSError(errno.EINVAL, "sync")
            if self._domains.switch_waits:
                self._domains.switch(gem.domain)
        gem.sync(request.offset, request.size, SyncFlag(request.flags))

    def destroy(self, file: OpenFile, request: MemDestroy) -> None:
        with self._condition:
            self._drop_handle(file, request.handle)

    def gem_close(self, file: OpenFile, request: GemClose) -> None:
        with self._condition:
            self._drop_handle(file, request.handle)

    def _drop_handle(self, file: OpenFile, handle: int) -> None:
        gem = file.get(handle)
        self._enter_to_destroy(gem)
        del file.handles[handle]
        gem.references -= 1
        self.collect(gem, file.pid)

    def _enter_to_destroy(self, gem: GemObject) -> None:
        """Make the recorded domain live. Raises OSError(EINVAL) when that fails three times."""
        for _ in range(_DESTROY_ATTEMPTS):
            try:
                self._domains.switch(gem.domain)
            except OSError:
                continue
            return
        self._log.device(ERR, f"failed to destroy dma addr: {gem.dma_addr:#018x}, size: {gem.size}")
        self._log.device(ERR, "failed to destroy memory")
        raise OSError(errno.EINVAL, "destroy")

    def collect(self, gem: GemObject, pid: int = 0) -> None:
        """Free an object nobody refers to any more; the lock is held."""
        if gem.references > 0 or gem.obj_addr not in self._by_obj:
            return
        domain = self._domains[gem.mapped]
        if gem.mapped == gem.domain:
            domain.unmap(gem.dma_addr, gem.size, imported=gem.source is not None)
        else:
            domain.leak(gem.dma_addr, gem.size)
            log_unmap_warning(self._log, pid)
        del self._by_obj[gem.obj_addr]
        if gem.source is not None:
            gem.source.attachments -= 1
            self.heap.drop(gem.source)
        else:
            del self._by_offset[gem.fake_offset]
            self.allocated -= gem.size
            self._give_sram_back(gem.sram)
        gem.release()

    def collect_file(self, file: OpenFile) -> None:
        """Drop every handle of a file that is closed and has no job left; the lock is held."""
        for gem in file.handles.values():
            gem.references -= 1
        dropped = list(file.handles.values())
        file.handles.clear()
        for gem in dropped:
            self.collect(gem, file.pid)

    def power_down(self) -> None:
        """The board goes down: every descriptor is given back."""
        with self._condition:
            self.forget_objects()
            self.heap.power_down()

    def forget_objects(self) -> None:
        """The driver is gone, and its objects with it. Arrays that a core still works on stay alive."""
        for gem in self._by_obj.values():
            if gem.source is None:
                os.close(gem.fd)
                self._give_sram_back(gem.sram)
            else:
                gem.source.attachments -= 1
                self.heap.drop(gem.source)
        self._by_obj.clear()
        self._by_offset.clear()
        self.allocated = 0

    def resident(self) -> int:
        """Bytes of host memory the CPU and device sides may take."""
        return int(np.sum([gem.size * (2 if gem.cacheable else 1) for gem in self._by_obj.values()]))
