"""IOMMU domains of one open NPU: which one is active, who works in it, and when it may change.

Up to 16 address windows of 4 GiB; the NPU works in one at a time. Work enters a domain and leaves it;
a switch waits until nobody of ours is inside, because a board loses jobs when it is switched in mid-flight.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.memory import Buffer, Memory
from orkbench_tui.errors import OrkError, UnhealthyError

__all__ = ["ANCHOR_BYTES", "DomainSettings", "Domains", "SwitchCounters"]

ANCHOR_BYTES = 64 << 10
_REAP_MARGIN_S = 0.05
_LOOKS = 20


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """``settle_us`` is slept after a switch; ``reap_max_ms`` bounds the wait for a lost job;
    ``drain`` waits for our own jobs before a switch (lost jobs 11.5 % without, 2 % with it)."""

    settle_us: int = 1000
    reap_max_ms: int = 60_000
    drain: bool = True


@dataclass(slots=True)
class SwitchCounters:
    """Switches asked for, and the time they took on this machine's clock.

    The first switch into a domain builds its tables and our scratch there; it is counted apart.
    """

    total: int = 0
    first_touch: int = 0
    switch_s: float = 0.0
    settle_s: float = 0.0
    reap_s: float = 0.0
    reaped: int = 0

    @property
    def steady(self) -> int:
        return self.total - self.first_touch


class Domains:
    """``set_domain`` and ``get_domain`` are driver actions; ``reap`` makes the kernel drop a lost job of a domain whose
    time-out has passed. ``now`` and ``sleep`` are in seconds.
    """

    def __init__(
        self,
        memory: Memory,
        set_domain: Callable[[int], None],
        settings: DomainSettings = DomainSettings(),
        *,
        get_domain: Callable[[], int] | None = None,
        reap: Callable[[int], None] = lambda domain: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._memory = memory
        self._set_domain = set_domain
        self._get_domain = get_domain
        self._settings = settings
        self.reap = reap
        self._now = now
        self._sleep = sleep
        self._lock = memory.lock
        self._door = threading.Condition(self._lock)
        self._inside = 0
        self._unattended = 0
        self._touched = {0}
        self._dirty: dict[int, float] = {}
        self._anchors: dict[int, Buffer] = {}
        self._ending = False
        self._switches = SwitchCounters()

    @property
    def active(self) -> int | None:
        """The domain our calls left the NPU in; None before the first and where it is not known."""
        return self._memory.kernel_domain

    @property
    def counters(self) -> SwitchCounters:
        """A copy."""
        return replace(self._switches)

    @property
    def anchors(self) -> tuple[int, ...]:
        """Domains that have an anchor."""
        return tuple(sorted(self._anchors))

    # -- entering ---------------------------------------------------------------------------------

    def enter(self, domain: int, *, unattended: bool = False) -> None:
        """Work in ``domain`` until ``leave``; several may be in one domain.

        ``unattended``: the caller leaves only in a later call, so nobody may wait for it here.

        Raises:
            LifetimeError: unattended work runs in another domain.
            RefusedError: no such domain (GRD-09), or objects are being freed (GRD-05).
            OrkError: the kernel refused the switch.
        """
        with self._lock:
            if domain != self._memory.kernel_domain or self._ending:
                self._go(domain)
            self._inside += 1
            self._unattended += unattended

    def leave(self, *, unattended: bool = False) -> None:
        with self._lock:
            self._inside -= 1
            self._unattended -= unattended
            if not self._inside:
                self._door.notify_all()

    @contextlib.contextmanager
    def use(self, domain: int) -> Iterator[None]:
        """``enter`` and ``leave``."""
        self.enter(domain)
        try:
            yield
        finally:
            self.leave()

    def activate(self, domain: int) -> None:
        """Make ``domain`` the active one; nothing happens when it is. Raises as ``enter`` does."""
        with self._door:
            self._go(domain)

    def confirm(self, domain: int) -> None:
        """Activate, and tell the kernel even when we believe it is there: another process may have switched."""
        with self._door:
            if domain != self._memory.kernel_domain:
                self._go(domain)
            elif self._touched != {0}:
                self._set_domain(domain)

    def _go(self, domain: int) -> None:
        self._memory.require_room(0, domain)
        if self._ending:
            guards.refuse("GRD-05", seen=f"domain {domain} asked for while objects are freed")
        self._wait_for_others(domain)
        here = self._memory.kernel_domain
        if here == domain:
            return
        for left in (here, domain):
            if left is not None:
                self._clean(left)
        if domain == 0 and self._touched == {0} and self._live() in (0, None):
            # Neither we nor a program before us left domain 0; a driver without domains does not know the action.
            self._memory.kernel_domain = 0
            return
        began = self._now()
        self._set_domain(domain)
        self._switches.switch_s += self._now() - began
        if domain not in self._touched:
            self._require_entered(domain)
        self._memory.kernel_domain = domain
        self._switches.total += 1
        self._switches.first_touch += domain not in self._touched
        self._touched.add(domain)
        if self._settings.settle_us:
            self._sleep(self._settings.settle_us / 1e6)
            self._switches.settle_s += self._settings.settle_us / 1e6

    def is_live(self, domain: int) -> bool:
        """Whether the kernel says the NPU is in ``domain`` now; true where it cannot be asked."""
        return self._live() in (domain, None)

    def _live(self) -> int | None:
        """The domain the kernel says is live, which outlives the program that went there; None without domains."""
        if self._get_domain is None:
            return None
        try:
            return self._get_domain()
        except OrkError:
            self._get_domain = None
            return None

    def _require_entered(self, domain: int) -> None:
        """Another process may switch between two calls of ours, so one look proves nothing.

        Raises:
            UnhealthyError: the kernel never was where it was sent.
        """
        for _ in range(_LOOKS):
            if self._get_domain is None or self._get_domain() == domain:
                return
            self._set_domain(domain)
        raise UnhealthyError(
            f"the kernel did not enter domain {domain}",
            why="it took the call and did nothing, as a kernel built without CONFIG_NO_GKI does",
            do="use domain 0, or a kernel with IOMMU domains",
        )

    def _wait_for_others(self, domain: int) -> None:
        if not self._settings.drain:
            return
        while self._inside and self._memory.kernel_domain != domain:
            if self._unattended:
                raise LifetimeError(
                    f"entering domain {domain}",
                    why=f"a job that was submitted without waiting runs in domain {self._memory.kernel_domain}",
                    do="end it first",
                )
            self._door.wait()

    # -- lost jobs --------------------------------------------------------------------------------

    def mark_dirty(self, domain: int, timeout_ms: int) -> None:
        """A job with this time-out was dropped in ``domain``: the kernel holds it until that has passed."""
        wait_s = min(timeout_ms, self._settings.reap_max_ms) / 1e3 + _REAP_MARGIN_S
        with self._door:
            self._dirty[domain] = max(self._dirty.get(domain, 0.0), self._now() + wait_s)

    @property
    def dirty(self) -> tuple[int, ...]:
        return tuple(sorted(self._dirty))

    def _clean(self, domain: int) -> None:
        due = self._dirty.get(domain)
        if due is None:
            return
        left = due - self._now()
        if left > 0:
            self._sleep(left)
            self._switches.reap_s += left
        self.reap(domain)
        self._switches.reaped += 1
        del self._dirty[domain]

    # -- anchors and the end ----------------------------------------------------------------------

    def anchor(self, domain: int) -> None:
        """Make imports into ``domain`` safe: one native buffer there, once, kept until the end.

        The first buffer of a domain sets it up; when that is an import the NPU reads other pages. Domain 0
        is set up by the kernel.
        """
        if domain == 0:
            return
        with self._door:
            if domain in self._anchors:
                return
            buffer = self._memory.allocate(ANCHOR_BYTES, uapi.DATA_FLAGS, domain)
            buffer.anchor = True
            self._anchors[domain] = buffer
            self._touched.add(domain)

    def release_all(self) -> None:
        """Free every buffer when no job of ours is inside any more; no domain can be entered afterwards."""
        with self._door:
            self._door.wait_for(lambda: self._inside <= self._unattended)
            self._ending = True
            self._anchors.clear()
            self._memory.free_all()
