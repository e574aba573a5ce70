"""An open file of the NPU node: its handles. Several connections may share one."""

from __future__ import annotations

import errno
import itertools
from dataclasses import dataclass, field

from orkbench_tui.sim.kernel.gem import GemObject

__all__ = ["OpenFile"]


@dataclass(eq=False, slots=True)
class OpenFile:
    """``pid`` is the client's process; ``jobs`` counts jobs not yet over."""

    pid: int
    handles: dict[int, GemObject] = field(default_factory=dict)
    jobs: int = 0
    closed: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, gem: GemObject) -> int:
        handle = next(self._numbers)
        self.handles[handle] = gem
        gem.references += 1
        return handle

    def get(self, handle: int) -> GemObject:
        """Raises OSError(EINVAL) for a handle this file does not have."""
        found = self.handles.get(handle)
        if found is None:
            raise OSError(errno.EINVAL, "gem handle")
        return found
