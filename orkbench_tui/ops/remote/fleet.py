"""Several boards followed at once, on a thread of their own, and each of them as a feed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from orkbench_tui.errors import UnreachableError
from orkbench_tui.ops.remote.link import Condition, Link, LinkState, pause_after
from orkbench_tui.ops.remote.ssh_command import checked_host, watch_command
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.settings import Settings

__all__ = ["Fleet", "RemoteFeed", "unreachable"]

_KEPT = 600


def unreachable(host: str, reason: str) -> UnreachableError:
    return UnreachableError(f"{host} does not answer", why=reason, do=f"try `ssh {host} ork board status`")


class Fleet:
    """Starts a link to each host when it is entered and ends them all when it is left.

    ``heard`` is called on the fleet's thread with every new state of every board.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        settings: Settings,
        interval_s: float,
        *,
        pause: Callable[[int], float] = pause_after,
        heard: Callable[[LinkState], None] | None = None,
    ) -> None:
        """
        Raises:
            UsageError: no host, or one that is none.
        """
        self.hosts = tuple(dict.fromkeys(checked_host(host) for host in hosts))
        self._commands = {host: watch_command(host, settings, interval_s) for host in self.hosts}
        self._silence_s = max(15.0, 4 * interval_s)
        self._pause, self._heard = pause, heard
        self._news = threading.Condition()
        self._states = {host: LinkState(host) for host in self.hosts}
        self._numbers = dict.fromkeys(self.hosts, 0)
        self._past: dict[str, deque[Sample]] = {host: deque(maxlen=_KEPT) for host in self.hosts}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="boards", daemon=True)
        self._ended = False

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every ssh that was started."""
        with self._news:
            if self._ended:
                return
            self._ended = True
            self._news.notify_all()
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(10.0)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._follow_all())
        # Transports close in a step of the loop of their own.
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _follow_all(self) -> None:
        links = [
            Link(host, self._commands[host], self._changed, silence_s=self._silence_s, pause=self._pause)
            for host in self.hosts
        ]
        await asyncio.gather(*(link.run() for link in links))

    def _changed(self, state: LinkState) -> None:
        with self._news:
            if state.condition is Condition.LIVE and state.sample is not None:
                self._past[state.host].append(state.sample)
                self._numbers[state.host] += 1
            self._states[state.host] = state
            self._news.notify_all()
        if self._heard is not None:
            self._heard(state)

    def states(self) -> tuple[LinkState, ...]:
        """Every board as it stands now, in the order given."""
        with self._news:
            return tuple(self._states[host] for host in self.hosts)

    def past(self, host: str) -> tuple[Sample, ...]:
        with self._news:
            return tuple(self._past[host])

    def next_sample(self, host: str, after: int, timeout_s: float) -> tuple[int, Sample]:
        """The newest sample and its number, once there is one later than number ``after``.

        Raises:
            UnreachableError: the board does not answer, or said nothing for so long.
        """
        with self._news:

            def decided() -> bool:
                state = self._states[host].condition
                return self._ended or self._numbers[host] > after or state is Condition.UNREACHABLE

            self._news.wait_for(decided, timeout_s)
            state = self._states[host]
            # The last words of a board that is gone are no news.
            here = not self._ended and state.condition is Condition.LIVE
            if here and self._numbers[host] > after and state.sample is not None:
                return self._numbers[host], state.sample
            raise unreachable(host, state.reason or f"nothing came for {timeout_s:.0f} s")

    def feed(self, host: str) -> RemoteFeed:
        return RemoteFeed(self, host)


class RemoteFeed:
    """One board of a fleet. Closing it leaves the link open."""

    def __init__(self, fleet: Fleet, host: str) -> None:
        self._fleet, self._host = fleet, host
        # What came before this feed began is shown at once.
        self._number = 0
        self._patience_s = 60.0

    def sample(self) -> Sample:
        """Waits for the next.

        Raises:
            UnreachableError: the board does not answer.
        """
        self._number, sample = self._fleet.next_sample(self._host, self._number, self._patience_s)
        return sample

    def past(self) -> tuple[Sample, ...]:
        return self._fleet.past(self._host)

    def close(self) -> None:
        return None
