"""The one door to the cores: mode transitions happen here, and only while no job of ours runs.

A run path enters before it submits and leaves when its jobs are done. A transition that keeps all
warm costs a counter; any other waits until the cores are empty and does what the table asks. Where the table clears a warm flag or a size, the next output is primed: our
scratch is baked into programs and never moves, so a cleared size means the same as a cold output.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from orkbench_tui.driver.counters import Counters
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.modes import POLICIES, Clear, Mode, ModeState, transition
from orkbench_tui.driver.run_paths import PathMode
from orkbench_tui.errors import RefusedError

__all__ = ["ModeGate"]


class ModeGate:
    """Counts who is inside. ``reset`` resets the device."""

    def __init__(self, state: ModeState, reset: Callable[[], None], counters: Counters) -> None:
        self.state = state
        self._reset = reset
        self._counters = counters
        self._door = threading.Condition()
        self._inside = 0
        self._unattended = 0

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
            if self.state.enter(path.mode, path.profile, path.chain).reset:
                try:
                    self._reset()
                except BaseException:
                    self.state.last_mode = before
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
        step = transition(path.profile, last, path.mode, self.state.knobs)
        return not step.keep

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
            state = self.state
            state.last_mode = Mode.COLD
            state.warm_scalar, state.size_scalar = False, 0
            state.warm_cores, state.size_cores = [False] * state.cores, [0] * state.cores
            state.lut_loaded = [False] * state.cores

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
