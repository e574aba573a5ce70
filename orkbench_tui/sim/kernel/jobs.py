"""Jobs as data: what a submit asked for and how far it got."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.driver.uapi import JobFlag
from orkbench_tui.sim.kernel.gem import GemObject

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.open_file import OpenFile

__all__ = ["SINGLE_CORE_MASKS", "Job", "Work", "cores_of", "fuzz", "program_amount", "subcore_slot"]

SINGLE_CORE_MASKS = (1, 2, 4)
DISPATCHED_MASKS = (1, 2, 3, 4, 7)
_STATUS_PAIRS = (0x3, 0xC, 0x30, 0xC0, 0x300, 0xC00)


def cores_of(mask: int) -> tuple[int, ...]:
    return tuple(core for core in range(RK3588.cores) if mask >> core & 1)


def subcore_slot(mask: int, core: int) -> int:
    """Which entry of subcore_task a core reads: its own index, but three entries up for three cores."""
    return core + 2 if mask == 7 else core


def fuzz(status: int) -> int:
    """An interrupt status with every pair of bits full that has one bit set."""
    for pair in _STATUS_PAIRS:
        if status & pair:
            status |= pair
    return status


def program_amount(body_words: int, scale: int = RK3588.amount_scale) -> int:
    """REGISTER_AMOUNTS for the first program: units of ``scale`` words of body and trailer, minus one."""
    return math.ceil((body_words + 4) / scale) - 1


@dataclass(eq=False, slots=True)
class Work:
    """One core's share of a job: tasks ``first`` to ``first + number`` of the array, in chunks."""

    core: int
    first: int
    number: int
    committed: int = 0
    counter: int = 0
    raw_status: int = 0
    status: int = 0
    predicted_ns: int = 0
    int_mask: int = 0
    finished: bool = False


@dataclass(eq=False, slots=True)
class Job:
    """``hung`` means nothing will ever complete it; ``reset_hit`` that a reset ended it.

    ``lost`` is a job whose domain could not be made live: it is never committed and holds nothing.
    """

    number: int
    file: OpenFile
    flags: JobFlag
    timeout_ms: int
    core_mask: int
    domain: int
    tasks: GemObject
    work: tuple[Work, ...]
    created_ns: int
    owned: int = 0
    commit_ns: int = 0
    done: bool = False
    hung: bool = False
    reset_hit: bool = False
    lost: bool = False
    error: int = 0
    in_queue: set[int] = field(default_factory=set)

    @property
    def nonblock(self) -> bool:
        return bool(self.flags & JobFlag.NONBLOCK)

    @property
    def at_work(self) -> bool:
        """Committed, and a core will still report its end."""
        return self.commit_ns != 0 and not self.hung and not self.done

    @property
    def gives_up_ns(self) -> int | None:
        """Board time at which the waiter of a hung job retires it; None for a job nobody waits for."""
        if self.nonblock:
            return None
        return self.created_ns + self.timeout_ms * 1_000_000

    @property
    def hashed_pointer(self) -> str:
        """What %p prints: a hash, 8 significant hex digits."""
        return f"{(self.number * 0x9E3779B1 + 0x4EB23A7B) & 0xFFFFFFFF:016x}"

    @property
    def predicted_ns(self) -> int:
        return max((work.predicted_ns for work in self.work), default=0)
