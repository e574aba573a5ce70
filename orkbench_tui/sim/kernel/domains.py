"""IOMMU domains: which address space the NPU works in, and who keeps it there.

One domain is live at a time. A switch waits until no job holds the live one. Ids 0 to 15; each has
its own 4 GiB window and is made on first use.
"""

from __future__ import annotations

import errno
import threading
from typing import Protocol

from orkbench_tui.driver.uapi import MAX_IOMMU_DOMAINS
from orkbench_tui.sim import timing
from orkbench_tui.sim.chip.address_space import AddressSpace, Segment
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.kernel.import_walk import MAX_MAPPINGS, ImportWalk
from orkbench_tui.sim.kernel.iova import IovaAllocator
from orkbench_tui.sim.kernel.kernel_log import ERR, INFO, KernelLog
from orkbench_tui.sim.kernel.live_space import LiveSpace

__all__ = ["Domain", "Domains", "Holder"]

SWITCH_WAIT_NS = 6_000_000_000
_POLL_S = 0.05


class Holder(Protocol):
    """A job that keeps the live domain."""

    hung: bool

    @property
    def gives_up_ns(self) -> int | None:
        """Board time at which its waiter retires it although it hangs; None when nobody will."""
        ...


class _LostReference:
    hung = True
    gives_up_ns: int | None = None


_LOST = _LostReference()


class Domain:
    """One address window. ``leaked`` holds (address, size) of ranges nobody will give back."""

    def __init__(self) -> None:
        self.iova = IovaAllocator()
        self.space = AddressSpace()
        self.natives = 0
        self.imports: frozenset[int] = frozenset()
        self.leaked: list[tuple[int, int]] = []

    def map(self, segment: Segment, *, imported: bool) -> None:
        self.space = self.space.with_segment(segment)
        if imported:
            self.imports |= {segment.iova}
        else:
            self.natives += 1

    def unmap(self, iova: int, size: int, *, imported: bool) -> None:
        self.space = self.space.without(iova)
        self.iova.free(iova, size)
        if imported:
            self.imports -= {iova}
        else:
            self.natives -= 1

    def leak(self, iova: int, size: int) -> None:
        """The object is gone and its range stays reserved. The pages are not kept readable here."""
        self.space = self.space.without(iova)
        self.imports -= {iova}
        self.leaked.append((iova, size))

    def seen_by_chain(self, programs: int) -> AddressSpace:
        """The space as a commit of so many programs meets it."""
        if programs > 1 and len(self.imports) > MAX_MAPPINGS:
            return ImportWalk(self.space, self.imports)
        return self.space


class Domains:
    """Methods expect the kernel's lock to be held; ``condition`` is that lock."""

    def __init__(self, condition: threading.Condition, log: KernelLog, clock: BoardClock) -> None:
        self._condition = condition
        self._log = log
        self._clock = clock
        self._domains: dict[int, Domain] = {0: Domain()}
        self._holders: list[Holder] = []
        self.live = 0
        self._anchors_new = False
        self.switch_waits = True
        """Off in 0.9.6 and 0.9.7: a switch does not look at who runs, and nobody minds that it failed."""

    def __getitem__(self, domain: int) -> Domain:
        return self._domains[domain]

    def anchor_new_ones(self) -> None:
        """From now on a domain that is made maps a page of its own first (patch domain-anchor)."""
        self._anchors_new = True

    def seen_by_chain(self, domain: int, programs: int) -> AddressSpace:
        """What a commit of so many programs in a domain meets."""
        if self.switch_waits:
            return self._domains[domain].seen_by_chain(programs)
        met: dict[AddressSpace, AddressSpace] = {}

        def live() -> AddressSpace:
            now = self._domains[self.live]
            return met.setdefault(now.space, now.seen_by_chain(programs))

        return LiveSpace(live)

    def forget(self) -> None:
        """The driver is gone: every domain, with what was mapped and what had leaked."""
        self._domains = {0: Domain()}
        self._holders.clear()
        self.live = 0
        self._condition.notify_all()

    def known(self) -> list[int]:
        return sorted(self._domains)

    @property
    def leaked_mappings(self) -> int:
        return sum(len(domain.leaked) for domain in self._domains.values())

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
        if self.switch_waits and not self._wait_until_free(domain):
            self._log.device(
                ERR, f"switch iommu domain time out, failed to switch iommu domain, id: {domain}"
            )
            raise OSError(errno.EINVAL, "iommu domain switch")
        if domain == self.live:
            return
        if domain not in self._domains:
            self._domains[domain] = made = Domain()
            made.natives = int(self._anchors_new)
            self._clock.sit_out(timing.FIRST_TOUCH_NS)
        self._log.driver(INFO, f"switch iommu domain from {self.live} to {domain}")
        self.live = domain

    def _wait_until_free(self, domain: int) -> bool:
        """Wait on the board's clock; False after 6 s of it.

        In pace ``fast`` nobody sits through a wait whose end is known: when every holder hangs beyond the
        deadline the clock is moved there.
        """
        deadline = self._clock.now_ns() + SWITCH_WAIT_NS

        def settled() -> bool:
            return not self._holders or domain == self.live or self._stuck_until(deadline)

        while not (not self._holders or domain == self.live):
            if self._stuck_until(deadline):
                self._clock.sit_out(deadline - self._clock.now_ns())
                return False
            left = deadline - self._clock.now_ns()
            if left <= 0:
                return False
            self._condition.wait_for(settled, min(left / 1e9, _POLL_S))
        return True

    def _stuck_until(self, deadline: int) -> bool:
        if self._clock.pace != "fast":
            return False
        return any(
            holder.hung and ((ends := holder.gives_up_ns) is None or ends > deadline)
            for holder in self._holders
        )

    def lose_reference(self) -> None:
        """Count a holder of the live domain that nobody will ever drop."""
        with self._condition:
            self._holders.append(_LOST)

    def find_reference(self) -> None:
        with self._condition:
            if _LOST in self._holders:
                self.drop(_LOST)

    def hold(self, domain: int, holder: Holder) -> None:
        """Switch, and keep the domain live until ``drop``. Raises as ``switch`` does.

        Where a switch does not wait its result is not looked at either: the job runs in the domain that is live.
        """
        try:
            self.switch(domain)
        except OSError:
            if self.switch_waits:
                raise
        self._holders.append(holder)

    def drop(self, holder: Holder) -> None:
        if holder in self._holders:
            self._holders.remove(holder)
        self._condition.notify_all()
