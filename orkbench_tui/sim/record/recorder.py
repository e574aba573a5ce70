"""Writes a record while a program runs: calls, task descriptors, register words, and what changed in memory."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import threading
from typing import Any

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.sim.chip.faults import DmaFault
from orkbench_tui.sim.kernel.gem import GemObject
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.rknpu import RknpuKernel
from orkbench_tui.sim.record.events import FORMAT, VERSION, digest, packed

__all__ = ["Recorder"]

_TASK = ctypes.sizeof(uapi.Task)
_TRAILER_WORDS = 4
_MAX_TASKS = 65535
_SUBMIT = uapi.ioctl_number(uapi.RKNPU_SUBMIT)
_PRIME = uapi.ioctl_number(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE)


class Recorder:
    """One file, shared by the open files of one program. Thread-safe; a full disk ends the recording."""

    def __init__(self, path: str, kernel: RknpuKernel) -> None:
        self._lock = threading.RLock()
        self._file = os.fdopen(_existing(path), "ab")
        self._numbers: dict[int, int] = {}
        self._opened = itertools.count()
        self._known: dict[tuple[int, str], str] = {}
        self._words: dict[int, str] = {}
        if os.fstat(self._file.fileno()).st_size == 0:
            variant = kernel.variant
            self._write(
                format=FORMAT, version=VERSION, board=variant.board, sram=variant.sram,
                patch_import_domain=variant.patch_import_domain, driver=kernel.driver.name,
            )  # fmt: skip

    def _write(self, **event: Any) -> None:
        with self._lock:
            try:
                self._file.write(json.dumps(event).encode() + b"\n")
                self._file.flush()
            except (OSError, ValueError):
                return

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _number(self, file: OpenFile) -> int:
        with self._lock:
            if id(file) not in self._numbers:
                self._numbers[id(file)] = next(self._opened)
            return self._numbers[id(file)]

    def heap(self, kind: str, identity: int, size: int = 0) -> None:
        """``heap`` for a new buffer, ``heap-release`` for one whose descriptor was closed."""
        self._write(kind=kind, buffer=identity, size=size)

    def closed(self, file: OpenFile) -> None:
        self._write(kind="close", file=self._number(file))
        with self._lock:
            del self._numbers[id(file)]

    def called(
        self, file: OpenFile, request: int, before: bytes, after: bytes, error: int, buffer: int
    ) -> None:
        """A call other than a submit. ``buffer`` identifies what a PRIME call names."""
        event: dict[str, Any] = {"kind": "ioctl", "file": self._number(file), "request": request}
        event |= {"in": before.hex(), "out": after.hex(), "errno": error}
        if uapi.ioctl_number(request) == _PRIME:
            event["buffer"] = buffer
        self._write(**event)

    @staticmethod
    def is_submit(request: int) -> bool:
        return uapi.ioctl_number(request) == _SUBMIT and request >> 8 & 0xFF == ord("d")

    def before_submit(self, kernel: RknpuKernel, file: OpenFile, argument: bytes) -> dict[str, Any]:
        """What the job will meet: memory that changed since the last one, descriptors, programs."""
        padded = argument.ljust(ctypes.sizeof(uapi.Submit), b"\0")
        request = uapi.Submit.from_buffer_copy(padded)
        with kernel.condition:
            gems = list(file.handles.values())
            event: dict[str, Any] = {"kind": "submit", "file": self._number(file), "in": argument.hex()}
            event["memory"] = [change for gem in gems for change in self._changes(gem)]
            event |= self._programs(kernel, gems, request)
        event["gems"] = gems
        return event

    def after_submit(self, event: dict[str, Any], after: bytes, error: int) -> None:
        """Digests of every buffer the job changed; none for a job nobody waited for."""
        gems: list[GemObject] = event.pop("gems")
        asked = uapi.Submit.from_buffer_copy(
            bytes.fromhex(event["in"]).ljust(ctypes.sizeof(uapi.Submit), b"\0")
        )
        results = []
        if not asked.flags & uapi.JobFlag.NONBLOCK:
            for gem in gems:
                now, key = digest(gem.device), (gem.obj_addr, "device")
                if self._known.get(key) != now:
                    self._known[key] = now
                    results.append({"object": gem.obj_addr, "sha256": now})
        self._write(**event, out=after.hex(), errno=error, results=results)

    def _changes(self, gem: GemObject) -> list[dict[str, Any]]:
        sides = [("device", gem.device)]
        if gem.cacheable and gem.flags & uapi.MemFlag.KERNEL_MAPPING:
            sides.append(("cpu", gem.cpu))
        changes = []
        for side, data in sides:
            now, key = digest(data), (gem.obj_addr, side)
            if self._known.get(key) == now:
                continue
            if key in self._known or data.any():
                changes.append({"object": gem.obj_addr, "side": side, "data": packed(data.tobytes())})
            self._known[key] = now
        return changes

    def _programs(
        self, kernel: RknpuKernel, gems: list[GemObject], request: uapi.Submit
    ) -> dict[str, list[dict[str, Any]]]:
        """Task descriptors of the job's ranges, and the words they point to where not written before."""
        tasks: list[dict[str, Any]] = []
        programs: list[dict[str, Any]] = []
        array = next((gem for gem in gems if gem.obj_addr == request.task_obj_addr), None)
        if array is None or request.iommu_domain_id not in kernel.domains.known():
            return {"tasks": tasks, "programs": programs}
        space = kernel.domains[request.iommu_domain_id].space
        count = min(array.size // _TASK, _MAX_TASKS)
        used = {
            index
            for entry in (*request.subcore_task, uapi.SubcoreTask(request.task_start, request.task_number))
            for index in range(min(entry.task_start, count), min(entry.task_start + entry.task_number, count))
        }
        for index in sorted(used):
            raw = array.cpu[index * _TASK : (index + 1) * _TASK].tobytes()
            task = uapi.Task.from_buffer_copy(raw)
            tasks.append({"index": index, "bytes": raw.hex()})
            address = task.regcmd_addr & 0xFFFF_FFFF
            try:
                data = space.read(address, 8 * (min(task.regcfg_amount, 65535) + _TRAILER_WORDS), "record")
            except DmaFault:
                continue
            mark = digest(data)
            if self._words.get(address) == mark:
                continue
            self._words[address] = mark
            words = np.frombuffer(data.tobytes(), "<u8").tolist()
            programs.append({"task": index, "address": address, "words": [f"{word:016x}" for word in words]})
        return {"tasks": tasks, "programs": programs}


def _existing(path: str) -> int:
    """Only a file that is there already: whoever asks for a record has made it."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
