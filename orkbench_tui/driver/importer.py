"""Zero-copy buffers: memory of the dma-heap, mapped into the NPU's window where it lies.

An import needs a native buffer in its domain first, a contiguous hole, and a chain that walks few of
them. So weights are packed into chunks of bounded size, and every chunk is one import.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.device import Device
from orkbench_tui.driver.dma_heap import DmaBuffer, DmaHeap, raise_descriptor_limit
from orkbench_tui.driver.domains import Domains
from orkbench_tui.driver.failures import from_os_error
from orkbench_tui.driver.memory import Buffer, Memory
from orkbench_tui.errors import BusyError, OrkError

__all__ = [
    "MAX_CHAIN_MAPPINGS",
    "MAX_IMPORT_BYTES",
    "ImportSettings",
    "Importer",
    "Overflow",
    "chunk_units",
    "require_chain_mappings",
]

MAX_IMPORT_BYTES = 16 << 20
"""The largest import seen to work; 64 MiB fails, between is unknown."""

MAX_CHAIN_MAPPINGS = 5
"""Imported mappings behind one chained submit: 6 were seen to work and 19 to fail, one is kept in hand."""


_ATTEMPTS = 10


class Overflow(StrEnum):
    """What becomes of a weight that needs more chunks than a chain may walk."""

    NATIVE = "native"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """``anchors`` off refuses imports into domains other than 0 instead of preparing them."""

    chunk_bytes: int = MAX_IMPORT_BYTES
    overflow: Overflow = Overflow.NATIVE
    anchors: bool = True


def require_chain_mappings(count: int, what: str) -> None:
    """Raises RefusedError (GRD-07) when one chained submit would walk too many imports."""
    if count > MAX_CHAIN_MAPPINGS:
        guards.refuse("GRD-07", seen=f"{what} walks {count} imported mappings, allowed: {MAX_CHAIN_MAPPINGS}")


def chunk_units(units: Sequence[int], chunk_bytes: int) -> list[tuple[int, int]]:
    """Runs (first, count) of units, given by their bytes, that fit into a chunk each.

    Raises:
        RefusedError: one unit is larger than a chunk (GRD-08).
    """
    runs: list[tuple[int, int]] = []
    first, filled = 0, 0
    for index, size in enumerate(units):
        if size > chunk_bytes:
            guards.refuse("GRD-08", seen=f"a piece of {size} bytes, chunks hold {chunk_bytes}")
        if index > first and filled + size > chunk_bytes:
            runs.append((first, index - first))
            first, filled = index, 0
        filled += size
    if units:
        runs.append((first, len(units) - first))
    return runs


class Importer:
    """Imports buffers of one heap into one NPU."""

    def __init__(
        self,
        device: Device,
        memory: Memory,
        domains: Domains,
        heap: DmaHeap,
        settings: ImportSettings = ImportSettings(),
    ) -> None:
        if not 0 < settings.chunk_bytes <= MAX_IMPORT_BYTES:
            guards.refuse(
                "GRD-08", seen=f"chunks of {settings.chunk_bytes} bytes, allowed: up to {MAX_IMPORT_BYTES}"
            )
        self._device = device
        self._memory = memory
        self._domains = domains
        self._heap = heap
        self.settings = settings
        raise_descriptor_limit()

    def allocate(self, size: int, domain: int = 0) -> Buffer:
        """A zeroed import of at least ``size`` bytes in ``domain``; written data needs a sync to the device.

        Raises:
            RefusedError: too large (GRD-08), no anchor (GRD-06), no such domain (GRD-09).
            NoMemoryError: no hole in the window, no memory, or no file descriptor left.
        """
        if not 0 < size <= MAX_IMPORT_BYTES:
            guards.refuse("GRD-08", seen=f"an import of {size} bytes, allowed: up to {MAX_IMPORT_BYTES}")
        return self.allocate_past_the_limit(size, domain)

    def allocate_past_the_limit(self, size: int, domain: int = 0) -> Buffer:
        """The same without GRD-08, for a probe that looks for the limit itself.

        Raises:
            RefusedError, NoMemoryError: as ``allocate``.
        """
        if domain and not self.settings.anchors and domain not in self._domains.anchors:
            guards.refuse("GRD-06", seen=f"domain {domain} without an anchor, and anchors are switched off")
        self._memory.require_room(size, domain)
        with self._domains.use(domain):
            self._domains.anchor(domain)
            with self._memory.lock:
                return self._import(size, domain)

    def _import(self, size: int, domain: int) -> Buffer:
        action = f"importing {size} bytes into domain {domain}"
        try:
            source = self._heap.allocate(size)
        except OSError as error:
            raise from_os_error(error, action, self._heap.name) from error
        try:
            handle = self._handle(source, domain)
            return self._map(source, handle, domain)
        except OSError as error:
            self._drop(source)
            raise from_os_error(error, action, self._device.name) from error
        except OrkError:
            self._drop(source)
            raise

    def _handle(self, source: DmaBuffer, domain: int) -> int:
        """Map the buffer. That happens in the live domain, and another process may change it at any time.

        Raises:
            BusyError: another process switches domains all the time.
        """
        for _ in range(_ATTEMPTS):
            self._domains.confirm(domain)
            handle = uapi.PrimeHandle.from_buffer(
                self._call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=source.fd))
            ).handle
            if self._domains.is_live(domain):
                return int(handle)
            self._call(uapi.DRM_IOCTL_GEM_CLOSE, uapi.GemClose(handle=handle))
        raise BusyError(
            f"importing into domain {domain}",
            why="another program switches the NPU to other domains",
            do="run one program on the NPU at a time",
        )

    def _map(self, source: DmaBuffer, handle: int, domain: int) -> Buffer:
        """Ask where the mapping is."""
        try:
            made = uapi.MemCreate.from_buffer(
                self._call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(handle=handle))
            )
        except OSError:
            with contextlib.suppress(OSError):
                self._call(uapi.DRM_IOCTL_GEM_CLOSE, uapi.GemClose(handle=handle))
            raise
        buffer = Buffer(
            handle=handle,
            obj_addr=made.obj_addr,
            iova=made.dma_addr,
            size=source.size,
            flags=0,
            domain=domain,
            view=np.frombuffer(source.mapping, dtype=np.uint8),
            mapping=source.mapping,
            # A stock kernel answers nothing here and has recorded 0; a patched one may answer the truth.
            recorded=made.iommu_domain_id if made.iommu_domain_id == domain else 0,
            source=source,
        )
        self._memory.adopt(buffer)
        return buffer

    @staticmethod
    def _drop(source: DmaBuffer) -> None:
        source.mapping.close()
        source.close()

    def _call(self, request: int, structure: ctypes.Structure) -> bytearray:
        argument = bytearray(structure)
        self._device.ioctl(request, argument)
        return argument
