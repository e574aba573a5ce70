"""IOMMU domains: which address space the NPU works in, and who keeps it there.

One domain is live at a time. A switch waits until no job holds the live one. Ids 0 to 15; each has
its own 4 GiB window and is made on first use.
"""

from __future__ import annotations

import errno
import threading

from orkbench_tui.driver.uapi import MAX_IOMMU_DOMAINS
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.kernel.iova import IovaAllocator
from orkbench_tui.sim.kernel.kernel_log import ERR, INFO, KernelLog

__all__ = ["Domain", "Domains"]

SWITCH_WAIT_S = 6.0


class Domain:
    def __init__(self) -> None:
        self.iova = IovaAllocator()
        self.space = AddressSpace()


class Domains:
    """Methods expect the kernel's lock to be held; ``condition`` is that lock."""

    def __init__(self, condition: threading.Condition, log: KernelLog) -> None:
        self._condition = condition
        self._log = log
        self._domains: dict[int, Domain] = {0: Domain()}
        self.live = 0
        self.holders = 0

    def __getitem__(self, domain: int) -> Domain:
        return self._domains[domain]

    def known(self) -> list[int]:
        return sorted(self._domains)

    def switch(self, domain: int) -> None:
        """Make ``domain`` the live one.

        Raises:
            OSError: EINVAL for an id outside 0..15, or when jobs hold the live domain for 6 s.
        """
        if not 0 <= domain < MAX_IOMMU_DOMAINS:
            self._log.device(ERR, f"invalid iommu domain id: {domain}, reuse domain id: {self.live}")
            raise OSError(errno.EINVAL, "iommu domain id")
        if domain == self.live:
            return
        free = self._condition.wait_for(lambda: self.holders == 0 or domain == self.live, SWITCH_WAIT_S)
        if not free:
            self._log.device(
                ERR, f"switch iommu domain time out, failed to switch iommu domain, id: {domain}"
            )
            raise OSError(errno.EINVAL, "iommu domain switch")
        if domain == self.live:
            return
        self._domains.setdefault(domain, Domain())
        self._log.driver(INFO, f"switch iommu domain from {self.live} to {domain}")
        self.live = domain

    def hold(self, domain: int) -> None:
        """Switch, and keep the domain live until ``drop``. Raises as ``switch`` does."""
        self.switch(domain)
        self.holders += 1

    def drop(self) -> None:
        self.holders -= 1
        self._condition.notify_all()
