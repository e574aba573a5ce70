"""The simulated rknpu kernel driver: one object that answers every ioctl of every open file."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from orkbench_tui.driver import uapi
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Executor
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.identity import DRIVER_DATE, DRIVER_VERSION, DRM_DESCRIPTION, DRM_NAME
from orkbench_tui.sim.kernel.actions import run_action
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.kernel_log import BootLine, KernelLog
from orkbench_tui.sim.kernel.memory import Memory
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.scheduler import Scheduler
from orkbench_tui.sim.kernel.submit import run_submit

__all__ = ["POWER_OFF_DELAY_NS", "RknpuKernel"]

POWER_OFF_DELAY_NS = 3_000_000_000


class RknpuKernel:
    """Thread-safe; a blocking submit blocks only its caller."""

    def __init__(
        self,
        clock: BoardClock,
        boot: Iterable[BootLine] = (),
        execute: Executor = execute_native,
        variant: BoardVariant = STOCK,
    ) -> None:
        self.clock = clock
        self.condition = threading.Condition(threading.RLock())
        self.log = KernelLog(clock, boot)
        self.variant = variant
        self.dead = ""
        self.domains = Domains(self.condition, self.log, clock)
        self.memory = Memory(self.condition, self.log, self.domains, self._wedge, variant)
        self.scheduler = Scheduler(clock, self.log, self.condition, self.domains, execute)
        self.files: set[OpenFile] = set()
        self.power_held = False
        """A reference taken through debugfs; it stays until it is given back there."""
        self.power_off_delay_ns = POWER_OFF_DELAY_NS
        self._last_ioctl_ns: int | None = None
        self._handlers: dict[int, tuple[type[Any], Callable[[OpenFile, Any], None]]] = {
            uapi.ioctl_number(uapi.RKNPU_ACTION): (uapi.Action, lambda _, r: run_action(self, r)),
            uapi.ioctl_number(uapi.RKNPU_SUBMIT): (uapi.Submit, self._submit),
            uapi.ioctl_number(uapi.RKNPU_MEM_CREATE): (uapi.MemCreate, self.memory.create),
            uapi.ioctl_number(uapi.RKNPU_MEM_MAP): (uapi.MemMap, self.memory.map),
            uapi.ioctl_number(uapi.RKNPU_MEM_DESTROY): (uapi.MemDestroy, self.memory.destroy),
            uapi.ioctl_number(uapi.RKNPU_MEM_SYNC): (uapi.MemSync, lambda _, r: self.memory.sync(r)),
            uapi.ioctl_number(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE): (uapi.PrimeHandle, self._import),
            uapi.ioctl_number(uapi.DRM_IOCTL_GEM_CLOSE): (uapi.GemClose, self.memory.gem_close),
            uapi.ioctl_number(uapi.DRM_IOCTL_VERSION): (uapi.DrmVersion, self._version),
        }

    @property
    def wedged(self) -> str:
        """Why only a power cycle (a restart of the simulated board) helps; "" while it does not."""
        return self.dead or self.scheduler.wedged

    def _wedge(self, reason: str) -> NoReturn:
        self.dead = reason
        self.log.chip(f"{reason}; the board is wedged until a power cycle (`ork sim stop`)")
        raise OSError(errno.ENODEV, "wedged")

    @property
    def powered(self) -> bool:
        last = self._last_ioctl_ns
        busy = any(core.owner is not None for core in self.scheduler.cores)
        recent = last is not None and self.clock.now_ns() - last < self.power_off_delay_ns
        return busy or self.power_held or recent

    def open(self, pid: int) -> OpenFile:
        file = OpenFile(pid)
        with self.condition:
            self.files.add(file)
        return file

    def close(self, file: OpenFile) -> None:
        """Release a file; its buffers go when the last of its jobs is over."""
        with self.condition:
            file.closed = True
            self.files.discard(file)
            if file.jobs == 0:
                self.memory.collect_file(file)
                return
        threading.Thread(target=self._close_later, args=(file,), name="npu-release", daemon=True).start()

    def _close_later(self, file: OpenFile) -> None:
        with self.condition:
            # A job nobody will ever complete keeps its buffers, as its DMA may still be running.
            self.condition.wait_for(lambda: file.jobs == 0)
            self.memory.collect_file(file)

    def ioctl(self, file: OpenFile, request: int, argument: bytearray, passed_fd: int | None = None) -> int:
        """Dispatch on the command number; copies ``min(user size, kernel size)`` bytes each way.

        ``passed_fd`` is the identity of the descriptor a remote client's PRIME call names.

        Raises:
            OSError: with the errno the driver returns; ENOTTY for a command it does not have.
        """
        entry = self._handlers.get(uapi.ioctl_number(request)) if request >> 8 & 0xFF == ord("d") else None
        if self.dead:
            raise OSError(errno.ENODEV, "wedged")
        if entry is None:
            raise OSError(errno.ENOTTY, "ioctl")
        kind, handler = entry
        structure = kind()
        size = min(ctypes.sizeof(kind), len(argument), request >> 16 & 0x3FFF)
        ctypes.memmove(ctypes.addressof(structure), bytes(argument[:size]), size)
        self._last_ioctl_ns = self.clock.now_ns()
        try:
            if passed_fd is not None and kind is uapi.PrimeHandle:
                self.memory.import_fd(file, structure, passed_fd)
            else:
                handler(file, structure)
        finally:
            argument[:size] = bytes(structure)[:size]
            self._last_ioctl_ns = self.clock.now_ns()
        return 0

    def map_fd(self, file: OpenFile, offset: int, length: int) -> int:
        """What mmap maps: a new file descriptor of the object's memory, for the caller to close.

        Raises:
            OSError: EINVAL, or EACCES without a handle to the object.
        """
        with self.condition:
            return os.dup(self.memory.mapped_object(file, offset, length).fd)

    def _import(self, file: OpenFile, request: uapi.PrimeHandle) -> None:
        self.memory.import_fd(file, request)

    def _submit(self, file: OpenFile, request: uapi.Submit) -> None:
        run_submit(self, file, request)

    @staticmethod
    def _version(file: OpenFile, version: uapi.DrmVersion) -> None:
        """Numbers and lengths; the strings are copied on the client's side of the seam."""
        version.version_major, version.version_minor, version.version_patchlevel = DRIVER_VERSION
        version.name_len, version.date_len = len(DRM_NAME), len(DRIVER_DATE)
        version.desc_len = len(DRM_DESCRIPTION)

    def shut_down(self) -> None:
        self.scheduler.stop()
