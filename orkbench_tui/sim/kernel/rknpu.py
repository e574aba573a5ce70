"""The simulated rknpu kernel driver: one object that answers every ioctl of every open file."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from orkbench_tui.driver import uapi
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.boards.catalogue import profile_of
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Executor
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.faults.active import ActiveFaults
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.faults.foreign import ForeignWork
from orkbench_tui.sim.faults.overlay import HOT_HZ
from orkbench_tui.sim.identity import DRIVERS, DRM_DESCRIPTION, DRM_NAME, NEWEST
from orkbench_tui.sim.kernel.actions import run_action
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.kernel_log import KernelLog
from orkbench_tui.sim.kernel.memory import Memory
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.scheduler import Scheduler
from orkbench_tui.sim.kernel.submit import run_submit

__all__ = ["POWER_OFF_DELAY_NS", "RknpuKernel"]

POWER_OFF_DELAY_NS = 3_000_000_000

FULL_CACHE_IMPORT_BYTES = 1 << 20
"""What still finds memory when the page cache has taken it: assumed."""


class RknpuKernel:
    """Thread-safe; a blocking submit blocks only its caller."""

    def __init__(
        self,
        clock: BoardClock,
        execute: Executor = execute_native,
        variant: BoardVariant = STOCK,
        faults: ActiveFaults | None = None,
        release: str = "",
    ) -> None:
        self.faults = faults or ActiveFaults()
        self.profile = profile_of(variant.board)
        older = self.faults.value("old-driver")
        self.driver = DRIVERS[older] if older else self.profile.driver or NEWEST
        self.governed_hz = self.profile.npu_hz
        self.foreign: ForeignWork = ForeignWork()
        self.calm: threading.Event = threading.Event()
        self.clock: BoardClock = clock
        self.condition = threading.Condition(threading.RLock())
        boot = self.profile.boot_log(variant.sram, self.driver)
        if release:
            boot = tuple(
                replace(line, message=line.message.replace(self.profile.release, release)) for line in boot
            )
        self.log = KernelLog(clock, boot, self.profile.npu, self.profile.iommu)
        self.variant = variant
        self.dead = ""
        self.domains: Domains = Domains(self.condition, self.log, clock)
        self.domains.switch_waits = self.driver.switch_waits
        if variant.patch_domain_anchor:
            self.domains.anchor_new_ones()
        self.memory = Memory(
            self.condition, self.log, self.domains, self._wedge, variant, self.driver, self._import_limit
        )
        self.scheduler: Scheduler = Scheduler(
            clock,
            self.log,
            self.condition,
            self.domains,
            execute,
            self.profile.soc,
            self.driver,
            lambda: self.end_faults(Event.RESET),
        )
        self.set_clock()
        self.files: set[OpenFile] = set()
        self.bound = self.profile.driver is not None
        """Whether the driver has its device (see ``binding``)."""
        self.power_held = False
        """A reference taken through debugfs; it stays until it is given back there."""
        self.power_off_delay_ns = POWER_OFF_DELAY_NS
        self._last_ioctl_ns: int | None = None
        self._handlers: dict[int, tuple[type[Any], Callable[[OpenFile, Any], None]]] = {
            uapi.ioctl_number(uapi.RKNPU_ACTION): (uapi.Action, self._action),
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
        """Why only a power cycle helps; "" while it does not."""
        return self.dead or self.scheduler.wedged

    def _wedge(self, reason: str) -> NoReturn:
        self.dead = reason
        self.log.chip(f"{reason}; the board is wedged until a power cycle (`ork sim power-cycle`)")
        raise OSError(errno.ENODEV, "wedged")

    @property
    def powered(self) -> bool:
        last = self._last_ioctl_ns
        busy = self.scheduler.queues.stalls or any(core.owner is not None for core in self.scheduler.cores)
        recent = last is not None and self.clock.now_ns() - last < self.power_off_delay_ns
        return busy or self.foreign.running or self.power_held or recent

    def interrupt_counts(self) -> list[int]:
        """Of each core since boot, whoever's jobs raised them."""
        foreign = self.foreign.interrupts(self.clock.now_ns())
        return [core.interrupts + foreign for core in self.scheduler.cores]

    @property
    def clock_hz(self) -> int:
        """The NPU's clock now."""
        parked = self.faults.value("parked-governor")
        hz = int(parked) * 1_000_000 if parked else self.governed_hz
        return min(hz, HOT_HZ) if "hot" in self.faults else hz

    def set_clock(self, governed_hz: int | None = None) -> None:
        """Let programs take the time the clock gives; ``governed_hz`` is what the governor now asks for."""
        if governed_hz is not None:
            self.governed_hz = governed_hz
        for core in self.scheduler.cores:
            core.slowdown = self.profile.soc.max_freq_hz / self.clock_hz

    def end_faults(self, event: Event) -> None:
        """Something happened that ends some faults."""
        from orkbench_tui.sim.faults import effects

        for name in self.faults.end(event):
            effects.end(self, name)

    def end_fault(self, name: str) -> None:
        """What caused this one is gone."""
        from orkbench_tui.sim.faults import effects

        if self.faults.clear(name):
            effects.end(self, name)

    def _import_limit(self) -> int | None:
        if "import-no-memory" in self.faults:
            return 0
        return FULL_CACHE_IMPORT_BYTES if "page-cache-full" in self.faults else None

    def check_permission(self) -> None:
        """Raises OSError(EACCES) where this board's user may not open the NPU's nodes."""
        if "permission-denied" in self.faults:
            raise OSError(errno.EACCES, "the user is not in the groups render and video")

    def open(self, pid: int) -> OpenFile:
        """Raises OSError: ENODEV without an rknpu driver, EACCES."""
        if self.profile.driver is None:
            raise OSError(
                errno.ENODEV,
                f"no rknpu driver on this board: the mainline {self.profile.driver_there} driver owns its NPU",
            )
        if not self.bound:
            raise OSError(errno.ENOENT, "the rknpu driver is not bound to its device")
        self.check_permission()
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
        if self.dead or file.closed:
            raise OSError(errno.ENODEV, "no such device any more")
        if entry is None:
            raise OSError(errno.ENOTTY, "ioctl")
        kind, handler = entry
        structure = kind()
        size = min(ctypes.sizeof(kind), len(argument), request >> 16 & 0x3FFF)
        if kind is uapi.MemCreate:
            size = min(size, self.driver.mem_create_bytes)
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

    def _action(self, file: OpenFile, request: uapi.Action) -> None:
        if request.flags == uapi.ActionCode.ACT_RESET:
            with self.condition:
                for gem in file.handles.values():
                    if gem.marks is not None:
                        gem.marks.owner_resets()
        run_action(self, request)

    def _submit(self, file: OpenFile, request: uapi.Submit) -> None:
        run_submit(self, file, request)

    def _version(self, file: OpenFile, version: uapi.DrmVersion) -> None:
        """Numbers and lengths; the strings are copied on the client's side of the seam."""
        version.version_major, version.version_minor, version.version_patchlevel = self.driver.number
        version.name_len, version.date_len = len(DRM_NAME), len(self.driver.date)
        version.desc_len = len(DRM_DESCRIPTION)

    def shut_down(self) -> None:
        """The board goes down; whoever still holds a file of it gets ENODEV."""
        self.calm.set()
        self.dead = self.dead or "the board was shut down"
        self.scheduler.queues.abandon()
        self.scheduler.queues.stop()
        self.memory.power_down()
