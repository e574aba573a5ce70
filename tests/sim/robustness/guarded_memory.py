"""Buffers of the simulated board between pages of known bytes: who writes beside a buffer is found out.

Nothing of the chip's own checks is used here, because those are what is tested.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from unittest import mock

import numpy as np

from orkbench_tui.sim.kernel import memory as kernel_memory

GUARD = 4096
CANARY = 0xC7

_PAGE = bytes([CANARY]) * GUARD


class GuardedMemory:
    """Makes the memory of buffers. ``pages`` are the guard pages of buffers that may still be there."""

    def __init__(self) -> None:
        self.pages: list[np.ndarray] = []

    def create(self, size: int, cacheable: bool) -> tuple[int, np.ndarray, np.ndarray]:
        """As ``gem.create_memory``: a guard page behind either side, and one before the device's own."""
        fd = os.memfd_create("ork-sim-fuzz", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size + GUARD)
            cpu = np.frombuffer(mmap.mmap(fd, size + GUARD), np.uint8)
            device = np.frombuffer(mmap.mmap(-1, size + 2 * GUARD), np.uint8) if cacheable else None
        except OSError:
            os.close(fd)
            raise
        guards = [cpu[size:]]
        if device is not None:
            guards += [device[:GUARD], device[GUARD + size :]]
        for guard in guards:
            guard[:] = CANARY
        self.pages += guards
        return fd, cpu[:size], cpu[:size] if device is None else device[GUARD : GUARD + size]

    def check(self) -> None:
        """Raises AssertionError when a guard page has changed."""
        for page in self.pages:
            assert page.tobytes() == _PAGE, "memory beside a buffer was written"

    def forget(self) -> None:
        """The board was started anew: let the old memory go."""
        self.pages.clear()


@contextlib.contextmanager
def guarded() -> Iterator[GuardedMemory]:
    """Every native buffer made inside is guarded."""
    memory = GuardedMemory()
    with mock.patch.object(kernel_memory, "create_memory", memory.create):
        yield memory
