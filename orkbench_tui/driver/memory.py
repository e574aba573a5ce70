"""NPU buffers: allocation, mapping, cache maintenance, and small pieces out of big ones.

Cacheable memory has two views. What the CPU wrote reaches the NPU only after a sync to the device,
what the NPU wrote reaches the CPU only after a sync from it. Fresh buffers are synced both ways once,
so that no dirty line of the allocation can later be evicted over an NPU result.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.descriptor_state import DescriptorBook
from orkbench_tui.driver.device import Device, Mapping
from orkbench_tui.driver.dma_heap import DmaBuffer
from orkbench_tui.driver.failures import from_os_error
from orkbench_tui.driver.teardown import teardown_order
from orkbench_tui.errors import NoDeviceError, NoMemoryError

__all__ = ["Arena", "Buffer", "DomainUse", "Memory", "Slice"]


@dataclass(eq=False, slots=True)
class Buffer:
    """One GEM object, mapped. ``iova`` is what registers hold, ``view`` is uint8 [size].

    ``domain`` is where it is mapped, ``recorded`` where the kernel believes it to be: a stock kernel
    records every import in domain 0. ``source`` is an import's own buffer; ``sram_bytes`` is how much of
    the buffer lies in on-chip memory; an ``anchor`` holds no data, it makes imports of its domain work.
    ``descriptors`` is used where the buffer is a task array.
    """

    handle: int
    obj_addr: int
    iova: int
    size: int
    flags: int
    domain: int
    view: np.ndarray
    mapping: Mapping
    live: bool = True
    recorded: int = 0
    source: DmaBuffer | None = None
    sram_bytes: int = 0
    anchor: bool = False
    descriptors: DescriptorBook = field(default_factory=DescriptorBook)


@dataclass(frozen=True, slots=True)
class Slice:
    """``size`` bytes of a buffer, starting at ``offset``."""

    buffer: Buffer
    offset: int
    size: int

    @property
    def iova(self) -> int:
        return self.buffer.iova + self.offset

    @property
    def view(self) -> np.ndarray:
        """uint8 [size]."""
        return self.buffer.view[self.offset : self.offset + self.size]

    def part(self, offset: int, size: int) -> Slice:
        """``size`` bytes from ``offset`` within this piece."""
        return Slice(self.buffer, self.offset + offset, size)


@dataclass(frozen=True, slots=True)
class DomainUse:
    """What this process holds in one IOMMU domain; bytes.

    ``holes`` counts the free ranges of the window, ``imports`` the buffers that were imported.
    """

    id: int
    used_bytes: int
    buffers: int
    largest_free_bytes: int
    capacity_bytes: int
    holes: int
    imports: int
    imported_bytes: int
    anchors: int


class Memory:
    """Allocates buffers on one device and keeps account of them by domain.

    The kernel moves the NPU to a buffer's domain with every call on it. ``kernel_domain`` is where our
    calls have left it, None when that is not known; ``implicit_switches`` counts moves nobody asked for.
    ``lock`` keeps allocations and frees from running beside a switch.
    """

    def __init__(self, device: Device, *, window_bytes: int, guard_bytes: int) -> None:
        self._device = device
        self._window = window_bytes
        self._guard = guard_bytes
        self._buffers: dict[int, Buffer] = {}
        self.syncs = 0
        self.lock = threading.RLock()
        self.kernel_domain: int | None = None
        self.implicit_switches = 0

    def _ioctl(self, request: int, structure: ctypes.Structure, action: str) -> bytearray:
        argument = bytearray(structure)
        try:
            self._device.ioctl(request, argument)
        except OSError as error:
            raise from_os_error(error, action, self._device.name) from error
        return argument

    def _moved_to(self, domain: int) -> None:
        if self.kernel_domain is not None:
            self.implicit_switches += 1
        self.kernel_domain = domain

    def allocate(
        self, size: int, flags: int = uapi.DATA_FLAGS, domain: int = 0, *, sram_request: int = 0
    ) -> Buffer:
        """A zeroed, mapped, coherent buffer of at least ``size`` bytes.

        ``sram_request`` bounds the on-chip part of a buffer that asks for one (``driver.sram``); 0 asks for
        all of it.

        Raises:
            RefusedError: SRAM asked for a buffer the kernel reads (GRD-02), or a domain the kernel
                does not have (GRD-09).
            NoMemoryError: the domain's window or memory is full.
        """
        if size <= 0:
            raise ValueError(f"buffer of {size} bytes")
        if flags & uapi.MemFlag.KERNEL_MAPPING and flags & uapi.MemFlag.TRY_ALLOC_SRAM:
            guards.refuse("GRD-02", seen=f"flags {int(flags):#x}", do="allocate task arrays in DRAM (0x40b)")
        self.require_room(size, domain)
        with self.lock:
            return self._allocate(size, flags, domain, sram_request)

    def require_room(self, size: int, domain: int) -> None:
        """Raises RefusedError (GRD-09) for a domain there is not, NoMemoryError above its ceiling."""
        if not 0 <= domain < uapi.MAX_IOMMU_DOMAINS:
            guards.refuse(
                "GRD-09",
                seen=f"domain {domain}, allowed: 0 to {uapi.MAX_IOMMU_DOMAINS - 1}",
                do="place the model in fewer domains",
            )
        used = self.used_bytes(domain)
        if used + size > self._guard:
            raise NoMemoryError(
                f"domain {domain} cannot take {size} more bytes",
                why=f"{used} of {self._guard} usable bytes are taken",
                do="use a smaller model, or another domain",
            )

    def _allocate(self, size: int, flags: int, domain: int, sram_request: int) -> Buffer:
        action = f"allocating {size} bytes of NPU memory"
        request = uapi.MemCreate(
            flags=flags | uapi.MemFlag.ZEROING,
            size=uapi.page_up(size),
            sram_size=sram_request,
            iommu_domain_id=domain,
        )
        created = uapi.MemCreate.from_buffer(self._ioctl(uapi.RKNPU_MEM_CREATE, request, action))
        if domain != self.kernel_domain:
            self._moved_to(domain)
        try:
            offset = uapi.MemMap.from_buffer(
                self._ioctl(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=created.handle), action)
            ).offset
            mapping = self._device.mmap(offset, created.size)
        except OSError as error:
            self._destroy(created.handle, created.obj_addr)
            raise from_os_error(error, action, self._device.name) from error
        buffer = Buffer(
            handle=created.handle,
            obj_addr=created.obj_addr,
            iova=created.dma_addr,
            size=created.size,
            flags=flags,
            domain=domain,
            view=np.frombuffer(mapping, dtype=np.uint8),
            mapping=mapping,
            recorded=domain,
            sram_bytes=created.sram_size if flags & uapi.MemFlag.TRY_ALLOC_SRAM else 0,
        )
        self._buffers[created.handle] = buffer
        self.sync(buffer, uapi.SyncFlag.TO_DEVICE | uapi.SyncFlag.FROM_DEVICE)
        return buffer

    def adopt(self, buffer: Buffer) -> None:
        """Take a buffer made elsewhere (an import) into the account; ``free`` gives it back."""
        self._buffers[buffer.handle] = buffer

    def sync(self, part: Buffer | Slice, direction: uapi.SyncFlag) -> None:
        """Cache maintenance over the whole part; nothing to do for uncached memory."""
        buffer, offset = (part.buffer, part.offset) if isinstance(part, Slice) else (part, 0)
        if buffer.source is not None:
            self._sync_import(buffer.source, direction)
            return
        if not buffer.flags & uapi.MemFlag.CACHEABLE:
            return
        self.syncs += 1
        if buffer.domain != self.kernel_domain:
            self._moved_to(buffer.domain)
        self._ioctl(
            uapi.RKNPU_MEM_SYNC,
            uapi.MemSync(flags=int(direction), obj_addr=buffer.obj_addr, offset=offset, size=part.size),
            "syncing NPU memory",
        )

    def _sync_import(self, source: DmaBuffer, direction: uapi.SyncFlag) -> None:
        """The kernel syncs no import through the NPU's node; the buffer's own descriptor does, as a whole."""
        try:
            if direction & uapi.SyncFlag.TO_DEVICE:
                self.syncs += 1
                source.sync(uapi.DmaBufSyncFlag.END | uapi.DmaBufSyncFlag.WRITE)
            if direction & uapi.SyncFlag.FROM_DEVICE:
                self.syncs += 1
                source.sync(uapi.DmaBufSyncFlag.READ)
        except OSError as error:
            raise from_os_error(error, "syncing an imported buffer", self._device.name) from error

    def free(self, buffer: Buffer) -> None:
        """Release a buffer. Arrays over ``buffer.view`` must not be used afterwards."""
        with self.lock:
            self._free(buffer)

    def _free(self, buffer: Buffer) -> None:
        if self._buffers.pop(buffer.handle, None) is None:
            return
        buffer.live = False
        buffer.view = np.empty(0, dtype=np.uint8)
        # With an array still looking at it, the mapping goes when the last such array does.
        with contextlib.suppress(BufferError):
            buffer.mapping.close()
        if buffer.recorded != self.kernel_domain:
            self._moved_to(buffer.recorded)
        try:
            self._destroy(buffer.handle, buffer.obj_addr)
        finally:
            if buffer.source is not None:
                buffer.source.close()
                # A kernel that records the live domain without saying so may have gone there.
                self.kernel_domain = None if buffer.domain != buffer.recorded else self.kernel_domain

    def _destroy(self, handle: int, obj_addr: int) -> None:
        # With the device the memory went too; whoever frees after a failure must not hide that failure.
        with contextlib.suppress(NoDeviceError):
            self._ioctl(
                uapi.RKNPU_MEM_DESTROY,
                uapi.MemDestroy(handle=handle, obj_addr=obj_addr),
                "freeing NPU memory",
            )

    def free_all(self) -> None:
        """Release everything, domain by domain; see ``driver.teardown``."""
        with self.lock:
            for buffer in teardown_order(self._buffers.values()):
                self._free(buffer)

    def buffers(self, domain: int) -> list[Buffer]:
        """What is mapped in a domain."""
        return [buffer for buffer in list(self._buffers.values()) if buffer.domain == domain]

    def used_bytes(self, domain: int) -> int:
        return sum(b.size for b in self._buffers.values() if b.domain == domain)

    def domains(self) -> list[DomainUse]:
        """Occupancy by domain, from our own allocations."""
        return [self._use(domain) for domain in sorted({b.domain for b in list(self._buffers.values())})]

    def _use(self, domain: int) -> DomainUse:
        held = self.buffers(domain)
        spans = sorted((b.iova, b.iova + b.size) for b in held)
        gaps = [gap for gap in _gaps(spans, self._window) if gap]
        imports = [b.size for b in held if b.source is not None]
        return DomainUse(
            id=domain,
            used_bytes=sum(end - start for start, end in spans),
            buffers=len(spans),
            largest_free_bytes=max(gaps, default=0),
            capacity_bytes=self._window,
            holes=len(gaps),
            imports=len(imports),
            imported_bytes=sum(imports),
            anchors=sum(b.anchor for b in held),
        )


def _gaps(spans: list[tuple[int, int]], window: int) -> Iterator[int]:
    at = 0
    for start, end in spans:
        yield max(0, start - at)
        at = max(at, end)
    yield max(0, window - at)


@dataclass(eq=False)
class Arena:
    """Hands out pieces of a few big buffers: one object per program would cost three ioctls each."""

    memory: Memory
    chunk_bytes: int
    flags: int
    align: int = 64
    domain: int = 0
    _chunks: list[tuple[Buffer, int]] = field(default_factory=list)
    _free: dict[int, list[Slice]] = field(default_factory=dict)

    def take(self, size: int) -> Slice:
        """``size`` bytes, aligned; reused from the free list when one of that size is there."""
        rounded = -(-size // self.align) * self.align
        if free := self._free.get(rounded):
            return free.pop()
        if self._chunks:
            buffer, used = self._chunks[-1]
            if used + rounded <= buffer.size:
                self._chunks[-1] = (buffer, used + rounded)
                return Slice(buffer, used, rounded)
        buffer = self.memory.allocate(max(self.chunk_bytes, rounded), self.flags, self.domain)
        self._chunks.append((buffer, rounded))
        return Slice(buffer, 0, rounded)

    def give_back(self, piece: Slice) -> None:
        self._free.setdefault(piece.size, []).append(piece)
