"""Runs a record again on a fresh board in this process and compares every result."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.kernel.dma_heap import HeapFile
from orkbench_tui.sim.kernel.gem import GemObject
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.record.events import digest, read_events, unpacked

__all__ = ["Replayed", "replay"]

_NUMBER = uapi.ioctl_number
_SETTLE_S = 10.0
_IGNORED = {_NUMBER(uapi.RKNPU_MEM_MAP), _NUMBER(uapi.RKNPU_MEM_SYNC), _NUMBER(uapi.DRM_IOCTL_VERSION)}
"""They move no bytes here: the record holds the memory each job met."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """``differences`` are lines for people, one for each call or result that came out otherwise."""

    calls: int
    submits: int
    results: int
    predicted_ns: int
    differences: tuple[str, ...]


class _Player:
    def __init__(self, board: InProcessBoard) -> None:
        self._kernel = board.kernel
        self._files: dict[int, OpenFile] = {}
        self._handles: dict[tuple[int, int], int] = {}
        self._objects: dict[int, GemObject] = {}
        self._heap = HeapFile(0)
        self._buffers: dict[int, Any] = {}
        self.calls = self.submits = self.results = 0
        self.differences: list[str] = []

    def play(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "heap":
            buffer = self._kernel.memory.heap.allocate(self._heap, event["size"])
            self._buffers[event["buffer"]] = buffer
        elif kind == "heap-release":
            self._kernel.memory.heap.release(self._heap, self._buffers.pop(event["buffer"]).identity)
        elif kind == "close":
            if (file := self._files.pop(event["file"], None)) is not None:
                self._kernel.close(file)
        elif kind == "submit":
            self._submit(event)
        elif kind == "ioctl":
            self._ioctl(event)
        else:
            raise ValueError(f"event {kind!r}")

    def _file(self, number: int) -> OpenFile:
        if number not in self._files:
            self._files[number] = self._kernel.open(0)
        return self._files[number]

    def _call(self, file: OpenFile, request: int, argument: bytearray, buffer: int | None) -> int:
        self.calls += 1
        try:
            self._kernel.ioctl(file, request, argument, buffer)
        except OSError as error:
            return error.errno or 0
        return 0

    def _compare(self, what: str, recorded: int, now: int) -> bool:
        if recorded != now:
            self.differences.append(f"call {self.calls}, {what}: errno {now}, recorded {recorded}")
        return recorded == now

    def _ioctl(self, event: dict[str, Any]) -> None:
        request, number = event["request"], _NUMBER(event["request"])
        if number == _NUMBER(uapi.RKNPU_MEM_SYNC):
            self._note_clean(bytes.fromhex(event["in"]))
        if number in _IGNORED:
            return
        file, slot = self._file(event["file"]), event["file"]
        argument, recorded = bytearray.fromhex(event["in"]), bytes.fromhex(event["out"])
        buffer = None
        if number in (_NUMBER(uapi.RKNPU_MEM_CREATE), _NUMBER(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE)):
            if number == _NUMBER(uapi.RKNPU_MEM_CREATE):
                self._place(recorded)
                self._rename(argument, slot)
            else:
                known = self._buffers.get(event["buffer"])
                buffer = known.identity if known is not None else 0
        elif number in (_NUMBER(uapi.RKNPU_MEM_DESTROY), _NUMBER(uapi.DRM_IOCTL_GEM_CLOSE)):
            self._rename(argument, slot)
        error = self._call(file, request, argument, buffer)
        if self._compare(f"ioctl {request:#x}", event["errno"], error) and not error:
            self._remember(number, slot, bytes(argument), recorded)

    def _note_clean(self, argument: bytes) -> None:
        """Bytes come with the submits; that they were cleaned decides what a cold core's results look like."""
        sync = _structure(uapi.MemSync, argument)
        gem = self._objects.get(sync.obj_addr)
        if gem is not None and gem.marks is not None and sync.flags & uapi.SyncFlag.TO_DEVICE:
            gem.marks.clean(sync.offset, sync.size)

    def _place(self, recorded: bytes) -> None:
        """Let the next buffer land where it did: register words hold addresses."""
        answer = _structure(uapi.MemCreate, recorded)
        if answer.dma_addr and answer.iommu_domain_id in self._kernel.domains.known():
            self._kernel.domains[answer.iommu_domain_id].iova.next_address = answer.dma_addr

    def _rename(self, argument: bytearray, slot: int) -> None:
        """The handle in front of a structure, from the record's to this board's."""
        handle = int.from_bytes(argument[:4], "little")
        argument[:4] = self._handles.get((slot, handle), handle).to_bytes(4, "little")

    def _remember(self, number: int, slot: int, now: bytes, recorded: bytes) -> None:
        if number == _NUMBER(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE):
            handles = (
                _structure(uapi.PrimeHandle, recorded).handle,
                _structure(uapi.PrimeHandle, now).handle,
            )
            self._handles[slot, handles[0]] = handles[1]
        if number == _NUMBER(uapi.RKNPU_MEM_CREATE):
            then, here = _structure(uapi.MemCreate, recorded), _structure(uapi.MemCreate, now)
            self._handles[slot, then.handle] = here.handle
            self._objects[then.obj_addr] = self._kernel.memory.find(here.obj_addr)
            if then.dma_addr != here.dma_addr:
                self.differences.append(
                    f"call {self.calls}: a buffer at {here.dma_addr:#x}, recorded {then.dma_addr:#x}"
                )

    def _submit(self, event: dict[str, Any]) -> None:
        self.submits += 1
        for change in event["memory"]:
            gem = self._objects[change["object"]]
            side = gem.device if change["side"] == "device" else gem.cpu
            data = unpacked(change["data"], len(side))
            side[: len(data)] = np.frombuffer(data, np.uint8)
        argument = bytearray.fromhex(event["in"])
        request = _structure(uapi.Submit, bytes(argument))
        if (tasks := self._objects.get(request.task_obj_addr)) is not None:
            request.task_obj_addr = tasks.obj_addr
        argument[:] = bytes(request)[: len(argument)]
        file = self._file(event["file"])
        error = self._call(file, uapi.RKNPU_SUBMIT, argument, None)
        self._compare(f"submit {self.submits}", event["errno"], error)
        if request.flags & uapi.JobFlag.NONBLOCK:
            deadline = time.monotonic() + _SETTLE_S
            while file.jobs and time.monotonic() < deadline:
                time.sleep(0.001)
        for result in event["results"]:
            self.results += 1
            if digest(self._objects[result["object"]].device) != result["sha256"]:
                address = self._objects[result["object"]].dma_addr
                self.differences.append(f"submit {self.submits}: other bytes in the buffer at {address:#x}")


def _structure(kind: type[Any], data: bytes) -> Any:
    return kind.from_buffer_copy(data.ljust(ctypes.sizeof(kind), b"\0"))


def replay(path: Path) -> Replayed:
    """Raises InvalidFileError for what is no record, OSError where it cannot be read."""
    events = read_events(path)
    head = next(events, None)
    if head is None:
        raise InvalidFileError(str(path), why="is empty")
    if head.get("board") not in BOARDS:
        raise InvalidFileError(str(path), why="it names a board that is not known")
    variant = BoardVariant(bool(head.get("sram")), bool(head.get("patch_import_domain")), head["board"])
    board = InProcessBoard(variant=variant)
    try:
        usual = board.kernel.driver.name
        if head.get("driver", usual) != usual:
            board.machine.set_fault(f"old-driver={head['driver']}")
        player = _Player(board)
        for number, event in enumerate(events, 2):
            try:
                player.play(event)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
                why = f"line {number} cannot be played: {type(error).__name__}: {error}"
                raise InvalidFileError(str(path), why=why) from error
        predicted = board.kernel.scheduler.queues.predicted_ns
    except (KeyError, ValueError) as error:
        raise InvalidFileError(str(path), why=f"it names a driver that is not known: {error}") from error
    finally:
        board.close()
    return Replayed(player.calls, player.submits, player.results, predicted, tuple(player.differences))
