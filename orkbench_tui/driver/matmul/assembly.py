"""Programs into NPU memory: placed, linked, described, and dealt to the cores as jobs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.memory import Arena, Memory, Slice
from orkbench_tui.driver.regcmd.programs import BODY_WORDS
from orkbench_tui.driver.regcmd.registers import INT_CLEAR_ALL, INT_DPU, Enable
from orkbench_tui.driver.regcmd.words import TRAILER_WORDS, link
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.submit import Job

__all__ = ["Program", "ProgramStore"]

_PROGRAM_BYTES = 8 * (BODY_WORDS + TRAILER_WORDS)
_TASK_BYTES = ctypes.sizeof(uapi.Task)


@dataclass(frozen=True, slots=True)
class Program:
    """One program before it has a place: its body, and its cost for balancing the cores."""

    body: np.ndarray
    cost: int


class ProgramStore:
    """Memory for programs and descriptors of one device."""

    def __init__(self, soc: Soc, memory: Memory) -> None:
        self._soc = soc
        self._memory = memory
        self._words = Arena(memory, 2 << 20, uapi.DATA_FLAGS)
        # A job names its first descriptor by index, so pieces start on a whole descriptor.
        self._tasks = Arena(memory, 512 << 10, uapi.TASK_FLAGS, align=math.lcm(_TASK_BYTES, 64))

    def assemble(self, programs: Sequence[Program]) -> tuple[list[Job], tuple[Slice, Slice]]:
        """One job per core, balanced by cost, and the memory they live in."""
        runs = deal(programs, self._soc.cores, self._soc.max_tasks_per_commit)
        words = self._words.take(_PROGRAM_BYTES * len(programs))
        tasks = self._tasks.take(_TASK_BYTES * len(programs))
        addresses = [words.iova + _PROGRAM_BYTES * i for i in range(len(programs))]
        first_index = tasks.offset // _TASK_BYTES
        linked: list[np.ndarray] = []
        jobs: list[Job] = []
        for run in runs:
            start = len(linked)
            linked += link(
                [program.body for program in run],
                [Enable.MATMUL] * len(run),
                addresses[start : start + len(run)],
            )
            jobs.append(Job(tasks, first_index + start, len(run)))
        words.view[: _PROGRAM_BYTES * len(programs)] = np.concatenate(linked).view(np.uint8)
        descriptors = b"".join(bytes(_descriptor(address)) for address in addresses)
        tasks.view[: len(descriptors)] = np.frombuffer(descriptors, dtype=np.uint8)
        self._memory.sync(words, uapi.SyncFlag.TO_DEVICE)
        self._memory.sync(tasks, uapi.SyncFlag.TO_DEVICE)
        return jobs, (words, tasks)

    def release(self, pieces: tuple[Slice, Slice]) -> None:
        words, tasks = pieces
        self._words.give_back(words)
        self._tasks.give_back(tasks)


def deal(programs: Sequence[Program], cores: int, limit: int) -> list[list[Program]]:
    """Programs in at least ``cores`` runs of at most ``limit``, the heaviest first to the lightest run."""
    runs: list[list[Program]] = [[] for _ in range(cores)]
    loads = [0] * cores
    for program in sorted(programs, key=lambda p: -p.cost):
        lightest = loads.index(min(loads))
        runs[lightest].append(program)
        loads[lightest] += program.cost
    return [
        run[start : start + length]
        for run in runs
        if run
        for start, length in even_parts(len(run), -(-len(run) // limit), 1)
    ]


def _descriptor(address: int) -> uapi.Task:
    return uapi.Task(
        enable_mask=Enable.MATMUL,
        int_mask=INT_DPU,
        int_clear=INT_CLEAR_ALL,
        regcfg_amount=BODY_WORDS,
        regcmd_addr=address,
    )
