"""What is kept of a failed job: the submit, its descriptors and programs, and where the buffers lie.

Nothing a buffer holds is kept, except register programs and descriptors: no weights, no activations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.memory import Buffer
from orkbench_tui.driver.submit import Submitted

__all__ = [
    "MAX_BUFFERS",
    "MAX_WORDS",
    "SCHEMA",
    "Programs",
    "buffer_rows",
    "job_facts",
    "structure_fields",
]

SCHEMA = "ork.npu.failure/1"

MAX_WORDS = 1 << 17
"""Words of programs in one file, 2.5 MB of text: more than the longest chain has."""
MAX_BUFFERS = 4096

_HEX = frozenset(
    {
        "core_mask",
        "enable_mask",
        "flags",
        "int_clear",
        "int_mask",
        "int_status",
        "iova",
        "obj_addr",
        "regcmd_addr",
        "task_base_addr",
        "task_obj_addr",
    }
)
_TRAILER = 4
_TASK_BYTES = ctypes.sizeof(uapi.Task)


class Programs:
    """Register words of the jobs of one file, one after the other, up to ``MAX_WORDS``."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.left_out = 0

    def add(self, words: np.ndarray) -> int | None:
        """Where uint64 [n] begin now; None when there is no room for them."""
        if len(self.words) + len(words) > MAX_WORDS:
            self.left_out += 1
            return None
        first = len(self.words)
        self.words += [f"{word:016x}" for word in words.tolist()]
        return first


def _shown(name: str, value: int) -> int | str:
    return f"{value:#x}" if name in _HEX else value


def structure_fields(structure: ctypes.Structure) -> dict[str, Any]:
    """Fields of a kernel structure by name, addresses and masks as hex strings."""
    found: dict[str, Any] = {}
    for name, *_ in structure._fields_:
        value = getattr(structure, name)
        if isinstance(value, ctypes.Array):
            found[name] = [structure_fields(item) for item in value]
        else:
            found[name] = _shown(name, value)
    return found


def job_facts(job: Submitted, buffers: Sequence[Buffer], programs: Programs) -> dict[str, Any]:
    """One submit as it went and came back, and its descriptors; their words go to ``programs``.

    ``buffers`` are those of its domain. A descriptor whose program lies in none of them has no ``first_word``.
    """
    sent = uapi.Submit.from_buffer_copy(job.sent)
    flags = uapi.JobFlag(sent.flags)
    return {
        "core": job.core,
        "core_mask": f"{sent.core_mask:#x}",
        "flags": str(flags.name),
        "waited_for": not flags & uapi.JobFlag.NONBLOCK,
        "timeout_ms": sent.timeout,
        "domain": sent.iommu_domain_id,
        "owner": job.job.owner.value,
        "submit": structure_fields(sent),
        "answer": structure_fields(uapi.Submit.from_buffer_copy(bytes(job.argument))),
        "descriptors": _descriptors(job, buffers, programs),
    }


def _descriptors(job: Submitted, buffers: Sequence[Buffer], programs: Programs) -> list[dict[str, Any]]:
    array = job.job.descriptors.buffer
    view = array.view.tobytes() if array.live else b""
    rows = []
    for index in range(job.job.first, job.job.first + job.job.tasks):
        part = view[index * _TASK_BYTES : (index + 1) * _TASK_BYTES]
        if len(part) < _TASK_BYTES:
            break
        task = uapi.Task.from_buffer_copy(part)
        words = _program_words(task, buffers)
        rows.append(
            {
                "index": index,
                **structure_fields(task),
                "first_word": programs.add(words) if len(words) else None,
                "words": len(words),
            }
        )
    return rows


def _program_words(task: uapi.Task, buffers: Sequence[Buffer]) -> np.ndarray:
    """What the controller fetches for a descriptor: body and trailer, padded to pairs; uint64 [n]."""
    count = 2 * -(-(task.regcfg_amount + _TRAILER) // 2)
    for buffer in buffers:
        at = task.regcmd_addr - buffer.iova
        if buffer.live and 0 <= at < buffer.size and at % 8 == 0:
            return buffer.view[at : min(at + 8 * count, buffer.size)].view("<u8")
    return np.empty(0, dtype=np.uint64)


def buffer_rows(buffers: Sequence[Buffer]) -> list[dict[str, Any]]:
    """The map of what is mapped, by domain and address; at most ``MAX_BUFFERS``."""
    ordered = sorted(buffers, key=lambda buffer: (buffer.domain, buffer.iova))
    return [_buffer_row(buffer) for buffer in ordered[:MAX_BUFFERS]]


_KINDS: Mapping[bool, str] = MappingProxyType({True: "imported", False: "native"})


def _buffer_row(buffer: Buffer) -> dict[str, Any]:
    return {
        "handle": buffer.handle,
        "domain": buffer.domain,
        "iova": f"{buffer.iova:#x}",
        "size": buffer.size,
        "flags": f"{int(buffer.flags):#x}",
        "obj_addr": f"{buffer.obj_addr:#x}",
        "recorded_domain": buffer.recorded,
        "sram_bytes": buffer.sram_bytes,
        "kind": "anchor" if buffer.anchor else _KINDS[buffer.source is not None],
        "descriptors": bool(buffer.flags & uapi.MemFlag.KERNEL_MAPPING),
    }
