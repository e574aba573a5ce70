"""Programs of one run on one core, with room to grow and a way to end early.

The controller fetches a program's words when it reaches it, descriptors when the job starts. So a
run that has begun can still be shortened or lengthened by its links, within the descriptors it began
with; nothing else of it can be changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.assembly import (
    PROGRAM_BYTES,
    TASK_BYTES,
    ProgramStore,
    linked_run,
    write_descriptors,
)
from orkbench_tui.driver.memory import Memory, Slice
from orkbench_tui.driver.regcmd.programs import BODY_WORDS
from orkbench_tui.driver.regcmd.registers import Enable
from orkbench_tui.driver.regcmd.words import trailer
from orkbench_tui.driver.submit import Job

__all__ = ["LinkedPrograms"]

_LINK_BYTES = 16


class LinkedPrograms:
    """``bodies`` placed and linked, and ``reserve`` more slots behind them.

    ``pieces`` (words, descriptors) are taken from the store unless the caller brings memory of its own.
    """

    def __init__(
        self,
        memory: Memory,
        store: ProgramStore,
        bodies: Sequence[np.ndarray],
        *,
        reserve: int = 0,
        domain: int = 0,
        pieces: tuple[Slice, Slice] | None = None,
    ) -> None:
        self._memory = memory
        self._store = store
        self._owned = pieces is None
        self.capacity = len(bodies) + reserve
        self.count = 0
        self.domain = domain
        self.words, self.tasks = pieces or store.take(self.capacity, domain)
        write_descriptors(self.tasks, [self._address(index) for index in range(self.capacity)])
        memory.sync(self.tasks, uapi.SyncFlag.TO_DEVICE)
        self.extend(bodies)

    @property
    def job(self) -> Job:
        """The run from its first program on, reserved slots counted."""
        return self.job_from(0)

    def job_from(self, index: int) -> Job:
        """The run from program ``index`` on."""
        first = self.tasks.offset // TASK_BYTES
        return Job(self.tasks, first + index, self.capacity - index, self.domain)

    def _address(self, index: int) -> int:
        return self.words.iova + PROGRAM_BYTES * index

    def extend(self, bodies: Sequence[np.ndarray]) -> int:
        """Write programs into the next slots, linked to each other; returns the index of the first.

        What was there before does not lead to them yet: see ``join``.

        Raises:
            OperandError: fewer slots are free.
        """
        first, last = self.count, self.count + len(bodies)
        if last > self.capacity:
            raise OperandError(
                "extending a run",
                why=f"{len(bodies)} programs, {self.capacity - first} reserved slots left",
                do="reserve more when it begins",
            )
        linked = linked_run(bodies, [self._address(index) for index in range(first, last)])
        part = Slice(
            self.words.buffer, self.words.offset + PROGRAM_BYTES * first, PROGRAM_BYTES * len(bodies)
        )
        part.view[:] = np.concatenate(linked).view(np.uint8)
        self._memory.sync(part, uapi.SyncFlag.TO_DEVICE)
        self.count = last
        return first

    def end_after(self, index: int) -> None:
        """Make program ``index`` the last one: no effect once the controller has fetched it."""
        self._write_link(index, 0)

    def join(self, index: int) -> None:
        """Lead program ``index`` on to the next one: no effect once the controller has fetched it."""
        self._write_link(index, self._address(index + 1))

    def lead_to(self, index: int, target: int) -> None:
        """Lead program ``index`` to program ``target``, backwards too. The number announced still bounds the run."""
        self._write_link(index, self._address(target))

    def _write_link(self, index: int, next_address: int) -> None:
        offset = self.words.offset + PROGRAM_BYTES * index + 8 * BODY_WORDS
        part = Slice(self.words.buffer, offset, _LINK_BYTES)
        link = part.view.view(np.uint64)
        address, amount = trailer(Enable.MATMUL, next_address, BODY_WORDS if next_address else 0)[:2]
        if next_address:
            link[0] = address
        # Amount last: an end with an address left behind is an end, an amount without one is a stray.
        link[1] = amount
        self._memory.sync(part, uapi.SyncFlag.TO_DEVICE)

    def release(self) -> None:
        """Give the room back; not while a job may still read it."""
        if self._owned:
            self._store.release((self.words, self.tasks))
