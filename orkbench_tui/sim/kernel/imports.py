"""PRIME import: a dma-buf becomes an object of the NPU, mapped where the NPU happens to be.

The mapping is made in the live domain. The object records domain 0 whatever that was, so destroying it
later unmaps from the wrong table, unless the kernel carries the patch that records the live one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from orkbench_tui.driver.uapi import PAGE, MemFlag, page_up
from orkbench_tui.sim.chip.address_space import Segment
from orkbench_tui.sim.kernel.dma_heap import DmaBuf
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.gem import GemObject
from orkbench_tui.sim.kernel.kernel_log import KernelLog

__all__ = ["MAX_IMPORT_BYTES", "import_buffer"]

MAX_IMPORT_BYTES = 16 << 20
"""The largest size known to work; 64 MiB is known to fail."""

_LOST_SHARE = 8
"""An import before any native buffer: the last eighth of its pages is not what the NPU reads."""


def shown_bytes(size: int, anchored: bool) -> int:
    """Leading bytes of an import of ``size`` bytes that the NPU sees as they are."""
    return size if anchored else size - max(PAGE, page_up(size // _LOST_SHARE))


def import_buffer(
    domains: Domains, log: KernelLog, source: DmaBuf, next_obj: Callable[[], int], *, record_domain: bool
) -> GemObject:
    """Map ``source`` into the live domain. The lock is held.

    Raises:
        OSError: ENOMEM when it is too large or no hole fits.
    """
    live = domains.live
    domain = domains[live]
    address = None if source.size > MAX_IMPORT_BYTES else domain.iova.allocate(source.size)
    if address is None:
        log.chip(f"no contiguous addresses for an import of {source.size} bytes in domain {live}")
        raise OSError(errno.ENOMEM, "import")
    anchored = live == 0 or domain.natives > 0
    source.attach(shown_bytes(source.size, anchored))
    gem = GemObject(
        size=source.size,
        flags=MemFlag(0),
        domain=live if record_domain else 0,
        mapped=live,
        obj_addr=next_obj(),
        fake_offset=0,
        dma_addr=address,
        fd=source.fd,
        cpu=source.cpu,
        device=source.device,
        source=source,
    )
    domain.map(Segment(address, source.device), imported=True)
    return gem
