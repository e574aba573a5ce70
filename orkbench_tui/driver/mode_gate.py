"""The one door to the cores: mode transitions happen here, and only while no job of ours runs.

A run path enters before it submits and leaves when its jobs are done. A transition that keeps all
warm costs a counter; any other waits until the cores are empty and does what the table asks. Where the
table resets or clears a warm flag or a size, an *epoch* ends and every result is primed once in the next:
cleaned before its first run, so that no old cache line covers what a cold core writes. Our scratch is
baked into programs and never moves, so a cleared size means the same as a cold output. Priming is kept by
result and not by core: which core takes a job of a stream is not known beforehand.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orkbench_tui.driver.counters import Counters
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.modes import POLICIES, Clear, Mode, ModeState
from orkbench_tui.driver.run_paths import PathMode
from orkbench_tui.errors import RefusedError

__all__ = ["ModeGate", "Priming"]


@dataclass(slots=True)
class Priming:
    """For which epoch the results of one object were primed."""

    epoch: int = -1

    def due(self, gate: ModeGate, *, cold: bool) -> bool:
        """Whether to prime before this run; ``cold`` is what ``ModeGate.enter`` gave. Call it inside."""
        due = cold or self.epoch != gate.epoch
        self.epoch = gate.epoch
        return due


class ModeGate:
    """Counts who is inside. ``reset`` resets the device."""

    def __init__(self, state: ModeState, reset: Callable[[], None], counters: Counters) -> None:
        self.state = state
        self._reset = reset
        self._counters = counters
        self._door = threading.Condition()
        self._inside = 0
        self._unattended = 0
        self.epoch = 0

    def enter(self, path: PathMode, *, unattended: bool = False) -> bool:
        """Go in, after the transition the path needs; true when the output must be primed first.

        ``unattended``: the caller leaves only after later calls, so nobody may wait for it here.

        Raises:
            LifetimeError: another mode is needed while an unattended job runs.
            OrkError: the reset failed; the caller is not inside.
        """
        with self._door:
            while self._inside and self._disturbs(path):
                if self._unattended:
                    raise LifetimeError(
                        f"entering mode {path.mode}",
                        why=f"a job in mode {self.state.last_mode} runs that was submitted without waiting",
                        do="end it first",
                    )
                self._door.wait()
            before = self.state.last_mode
            step = self.state.enter(path.mode, path.profile, path.chain)
            if step.changed and not step.keep:
                self.epoch += 1
            if step.reset:
                try:
                    self._reset()
                except BaseException:
                    self.state.last_mode, self.state.int4_may_be_left = before, True
                    raise
                self._counters.resets += 1
            self._inside += 1
            self._unattended += unattended
            return self._cold(path)

    def _disturbs(self, path: PathMode) -> bool:
        """Whether the transition would take something from those inside."""
        last = self.state.last_mode
        if path.mode is last:
            return False
        return not self.state.step(path.mode, path.profile).keep

    @contextlib.contextmanager
    def inside(self, path: PathMode) -> Iterator[bool]:
        """``enter`` and ``leave`` around a block; gives what ``enter`` gives. A refusal in it ran nothing."""
        cold = self.enter(path)
        try:
            yield cold
        except RefusedError:
            self.leave(path, ran=False)
            raise
        except BaseException:
            self.leave(path, failed=True)
            raise
        self.leave(path)

    def leave(
        self, path: PathMode, *, failed: bool = False, ran: bool = True, unattended: bool = False
    ) -> None:
        """Go out. After a failure nothing is known of the cores, so the next entry starts cold."""
        with self._door:
            self._inside -= 1
            self._unattended -= unattended
            if failed:
                self.forget()
            elif ran:
                self._warm(path)
            if not self._inside:
                self._door.notify_all()

    def forget(self) -> None:
        """The device was reset or failed: what it holds is no longer what we left."""
        with self._door:
            self.state.cool()
            self.state.last_mode, self.state.int4_may_be_left = Mode.COLD, True
            self.epoch += 1

    def reset(self) -> None:
        """Reset the device between runs: nobody's job is hit, and nothing is assumed of it afterwards.

        Raises:
            LifetimeError: a job runs that was submitted without waiting.
            OrkError: the device did not take it; what it holds counts as unknown.
        """
        with self._door:
            while self._inside:
                if self._unattended:
                    raise LifetimeError(
                        "resetting the NPU",
                        why="a job runs that was submitted without waiting",
                        do="end it first",
                    )
                self._door.wait()
            try:
                self._reset()
                self._counters.resets += 1
            finally:
                self.forget()

    def reset_within(self) -> None:
        """Reset the device for a job that is inside and lost, and runs again afterwards in the same mode."""
        self._reset()
        with self._door:
            self.state.cool()
            self.epoch += 1

    def _cold(self, path: PathMode) -> bool:
        target = POLICIES[path.profile].warm
        scalar = target in (Clear.SCALAR, Clear.BOTH) and not self.state.warm_scalar
        return scalar or (target in (Clear.PER_CORE, Clear.BOTH) and not all(self.state.warm_cores))

    def _warm(self, path: PathMode) -> None:
        state, target = self.state, POLICIES[path.profile].warm
        if target in (Clear.SCALAR, Clear.BOTH):
            state.warm_scalar = True
        if target in (Clear.PER_CORE, Clear.BOTH) and not all(state.warm_cores):
            state.warm_cores = [True] * state.cores
