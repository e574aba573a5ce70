"""Programs into NPU memory: placed, linked, described, and dealt to the cores as jobs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.descriptor_state import DescriptorEvent
from orkbench_tui.driver.importer import MAX_CHAIN_MAPPINGS, require_chain_mappings
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.memory import Arena, Memory, Slice
from orkbench_tui.driver.regcmd.programs import BODY_WORDS
from orkbench_tui.driver.regcmd.registers import INT_CLEAR_ALL, INT_DPU, Enable
from orkbench_tui.driver.regcmd.words import TRAILER_WORDS, link
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.submit import Job

__all__ = [
    "PROGRAM_BYTES",
    "TASK_BYTES",
    "Program",
    "ProgramStore",
    "linked_run",
    "split_by_imports",
    "write_descriptors",
]

PROGRAM_BYTES = 8 * (BODY_WORDS + TRAILER_WORDS)
TASK_BYTES = ctypes.sizeof(uapi.Task)


@dataclass(frozen=True, slots=True)
class Program:
    """One program before it has a place: its body, its cost for balancing the cores, and the handles of
    the imported buffers it reads.

    ``joined`` programs work with what the one before them left in the core: same run, directly behind.
    """

    body: np.ndarray
    cost: int
    imports: frozenset[int] = frozenset()
    joined: bool = False


class ProgramStore:
    """Memory for programs and descriptors of one device, apart by IOMMU domain."""

    def __init__(self, soc: Soc, memory: Memory) -> None:
        self._soc = soc
        self._memory = memory
        self._arenas: dict[int, tuple[Arena, Arena]] = {}

    def _arena(self, domain: int) -> tuple[Arena, Arena]:
        if domain not in self._arenas:
            self._arenas[domain] = (
                Arena(self._memory, 2 << 20, uapi.DATA_FLAGS, domain=domain),
                # A job names its first descriptor by index, so pieces start on a whole descriptor.
                Arena(
                    self._memory, 512 << 10, uapi.TASK_FLAGS, align=math.lcm(TASK_BYTES, 64), domain=domain
                ),
            )
        return self._arenas[domain]

    def assemble(
        self, programs: Sequence[Program], cores: int | None = None, domain: int = 0
    ) -> tuple[list[Job], tuple[Slice, Slice]]:
        """One job per core (default all), balanced by cost, and the memory they live in."""
        runs = deal(programs, cores or self._soc.cores, self._soc.max_tasks_per_commit)
        runs = [part for run in runs for part in split_by_imports(run)]
        for run in runs:
            walked = frozenset[int]().union(*(program.imports for program in run))
            require_chain_mappings(len(walked), f"a chain of {len(run)} programs")
        words, tasks = self.take(len(programs), domain)
        first_index = tasks.offset // TASK_BYTES
        placed = [words.iova + PROGRAM_BYTES * i for i in range(len(programs))]
        linked: list[np.ndarray] = []
        jobs: list[Job] = []
        for run in runs:
            start = len(linked)
            linked += linked_run([program.body for program in run], placed[start : start + len(run)])
            jobs.append(Job(tasks, first_index + start, len(run), domain))
        words.view[: PROGRAM_BYTES * len(programs)] = np.concatenate(linked).view(np.uint8)
        write_descriptors(tasks, placed)
        self._memory.sync(words, uapi.SyncFlag.TO_DEVICE)
        self._memory.sync(tasks, uapi.SyncFlag.TO_DEVICE)
        return jobs, (words, tasks)

    def take(self, programs: int, domain: int = 0) -> tuple[Slice, Slice]:
        """Room for the words and the descriptors of so many programs."""
        words, tasks = self._arena(domain)
        return words.take(PROGRAM_BYTES * programs), tasks.take(TASK_BYTES * programs)

    def release(self, pieces: tuple[Slice, Slice]) -> None:
        """Give room back; not while a job may still read it."""
        words, tasks = pieces
        first, count = tasks.offset // TASK_BYTES, tasks.size // TASK_BYTES
        tasks.buffer.descriptors.happened(first, count, DescriptorEvent.FREED)
        if words.buffer.live:
            arenas = self._arena(words.buffer.domain)
            arenas[0].give_back(words)
            arenas[1].give_back(tasks)


def linked_run(bodies: Sequence[np.ndarray], addresses: Sequence[int]) -> list[np.ndarray]:
    """Matmul bodies as complete programs, each leading to the next, the last ending the run."""
    return link(bodies, [Enable.MATMUL] * len(bodies), addresses)


def write_descriptors(tasks: Slice, addresses: Sequence[int]) -> None:
    """The descriptors of matmul programs into their array; the caller syncs it."""
    descriptors = b"".join(bytes(_descriptor(address)) for address in addresses)
    tasks.view[: len(descriptors)] = np.frombuffer(descriptors, dtype=np.uint8)
    first = tasks.offset // TASK_BYTES
    tasks.buffer.descriptors.happened(first, len(addresses), DescriptorEvent.MATMUL_WRITTEN)


def split_by_imports(run: Sequence[Program]) -> list[list[Program]]:
    """A run in parts that walk few enough imported mappings each; programs of one mapping stay together."""
    parts: list[list[Program]] = []
    walked: frozenset[int] = frozenset()
    for program in sorted(run, key=lambda p: sorted(p.imports)):
        if not parts or len(walked | program.imports) > MAX_CHAIN_MAPPINGS:
            parts.append([])
            walked = frozenset()
        walked |= program.imports
        parts[-1].append(program)
    return parts


def deal(programs: Sequence[Program], cores: int, limit: int) -> list[list[Program]]:
    """Programs in at least ``cores`` runs of at most ``limit``, the heaviest first to the lightest run.

    Joined programs stay behind the one they need; more of them than ``limit`` cannot be dealt.
    """
    runs: list[list[list[Program]]] = [[] for _ in range(cores)]
    loads = [0] * cores
    for unit in sorted(_units(programs), key=lambda unit: -_cost(unit)):
        lightest = loads.index(min(loads))
        runs[lightest].append(unit)
        loads[lightest] += _cost(unit)
    return [part for run in runs if run for part in _commits(run, limit)]


def _units(programs: Sequence[Program]) -> list[list[Program]]:
    units: list[list[Program]] = []
    for program in programs:
        if program.joined:
            units[-1].append(program)
        else:
            units.append([program])
    return units


def _cost(unit: Sequence[Program]) -> int:
    return sum(program.cost for program in unit)


def _commits(run: Sequence[Sequence[Program]], limit: int) -> Iterator[list[Program]]:
    """A run in parts of at most ``limit`` programs, near-equal where units have one."""
    total = sum(len(unit) for unit in run)
    size = even_parts(total, -(-total // limit), 1)[0][1]
    part: list[Program] = []
    for unit in run:
        if len(unit) > limit:
            raise ValueError(f"{len(unit)} joined programs, one commit takes {limit}")
        if part and len(part) + len(unit) > size:
            yield part
            part = []
        part.extend(unit)
    yield part


def _descriptor(address: int) -> uapi.Task:
    return uapi.Task(
        enable_mask=Enable.MATMUL,
        int_mask=INT_DPU,
        int_clear=INT_CLEAR_ALL,
        regcfg_amount=BODY_WORDS,
        regcmd_addr=address,
    )
