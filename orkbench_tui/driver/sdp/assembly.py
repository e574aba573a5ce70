"""Programs of any size into NPU memory: linked into runs, each run with descriptors of its own.

Descriptors are never shared with matmuls: one that an element-wise operation has filled starts nothing
for a matmul, and no reset repairs it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.descriptor_state import DescriptorEvent, DescriptorOwner
from orkbench_tui.driver.memory import Arena, Memory, Slice
from orkbench_tui.driver.regcmd.registers import INT_CLEAR_ALL, INT_DPU, Enable
from orkbench_tui.driver.regcmd.words import TRAILER_WORDS, link
from orkbench_tui.driver.submit import Job

__all__ = ["Assembly", "RunProgram", "Runs"]

_TASK_BYTES = ctypes.sizeof(uapi.Task)
_WORD_BYTES = 8
_PROGRAM_ALIGN = 64


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A program without a place: an even-length body, the registers it writes, the blocks it starts."""

    body: np.ndarray
    words: int
    enable: int = int(Enable.SDP)

    @property
    def size(self) -> int:
        """Bytes including the trailer, rounded so that the next program is aligned."""
        return -(-(len(self.body) + TRAILER_WORDS) * _WORD_BYTES // _PROGRAM_ALIGN) * _PROGRAM_ALIGN


@dataclass(frozen=True, slots=True)
class Assembly:
    """Jobs and the memory their programs live in."""

    jobs: tuple[Job, ...]
    pieces: tuple[Slice, Slice]


class Runs:
    """Memory for programs and descriptors of element-wise and fused operations."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._words = Arena(memory, 256 << 10, uapi.DATA_FLAGS)
        # A job names its first descriptor by index, so pieces start on a whole descriptor.
        self._tasks = Arena(memory, 64 << 10, uapi.TASK_FLAGS, align=math.lcm(_TASK_BYTES, 64))

    def assemble(self, runs: Sequence[Sequence[RunProgram]], *, pingpong: bool = True) -> Assembly:
        """One job per run; the programs of a run are linked and execute in order."""
        programs = [program for run in runs for program in run]
        words = self._words.take(sum(program.size for program in programs))
        tasks = self._tasks.take(_TASK_BYTES * len(programs))
        offset, done, jobs = 0, 0, []
        # Table programs are the ones that run without pingpong.
        owner = DescriptorOwner.SDP if pingpong else DescriptorOwner.LUT
        event = DescriptorEvent.SDP_RUN if pingpong else DescriptorEvent.LUT_RUN
        for run in runs:
            starts = [offset]
            for program in run[:-1]:
                starts.append(starts[-1] + program.size)
            addresses = [words.iova + start for start in starts]
            linked = link([program.body for program in run], [program.enable for program in run], addresses)
            for start, complete in zip(starts, linked, strict=True):
                data = complete.view(np.uint8)
                words.view[start : start + data.size] = data
            descriptors = b"".join(
                bytes(_descriptor(program, address)) for program, address in zip(run, addresses, strict=True)
            )
            first = _TASK_BYTES * done
            tasks.view[first : first + len(descriptors)] = np.frombuffer(descriptors, dtype=np.uint8)
            at = tasks.offset // _TASK_BYTES + done
            tasks.buffer.descriptors.happened(at, len(run), event)
            jobs.append(Job(tasks, at, len(run), pingpong=pingpong, owner=owner))
            done += len(run)
            offset = starts[-1] + run[-1].size
        for piece in (words, tasks):
            self._memory.sync(piece, uapi.SyncFlag.TO_DEVICE)
        return Assembly(tuple(jobs), (words, tasks))

    def release(self, assembly: Assembly) -> None:
        words, tasks = assembly.pieces
        first, count = tasks.offset // _TASK_BYTES, tasks.size // _TASK_BYTES
        tasks.buffer.descriptors.happened(first, count, DescriptorEvent.FREED)
        self._words.give_back(words)
        self._tasks.give_back(tasks)


def _descriptor(program: RunProgram, address: int) -> uapi.Task:
    return uapi.Task(
        enable_mask=program.enable,
        int_mask=INT_DPU,
        int_clear=INT_CLEAR_ALL,
        regcfg_amount=program.words,
        regcmd_addr=address,
    )
