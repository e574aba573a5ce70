"""One board through its restarts: a kernel and its files at a time, and the faults that outlive them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_files.tree import BoardTree
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import profile_of
from orkbench_tui.sim.boot.disk import BootDisk
from orkbench_tui.sim.boot.loader import Booted, boot, run_trial_unit
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Executor
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.faults import effects
from orkbench_tui.sim.faults.active import ActiveFaults, parse_fault
from orkbench_tui.sim.faults.board_faults import faults_of, why_not
from orkbench_tui.sim.faults.catalogue import CATALOGUE, Event, described
from orkbench_tui.sim.identity import NEWEST
from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["Machine"]

_LOGIN_NS = 3_000_000_000
"""After the last line of the boot log: assumed."""


class Machine:
    """``kernel``, ``tree`` and ``clock`` are new after every restart.

    ``disk`` is the folder of its boot disk, made as delivered where it is not there; without one the board always
    boots the kernel it is delivered with.
    """

    def __init__(
        self,
        pace: str,
        variant: BoardVariant,
        clients: ClientProcesses,
        execute: Executor = execute_native,
        disk: Path | None = None,
    ) -> None:
        self.variant = variant
        self.disk = BootDisk(disk) if disk is not None else None
        if self.disk is not None:
            profile = profile_of(variant.board)
            self.disk.deliver(variant.board, profile.files, profile.links)
            self.disk.repair_kernel()
        self.faults = ActiveFaults()
        self.boots = 0
        self._clients = clients
        self._execute = execute
        self.release = ""
        self._boot(pace)

    def _boot(self, pace: str, boot_wall_s: float | None = None) -> None:
        booted = self._start_from_disk()
        clock = BoardClock(pace, self._time_to_come_up_ns(), boot_wall_s)
        variant = replace(
            self.variant,
            patch_import_domain=self.variant.patch_import_domain or "import-domain" in booted.patches,
            patch_domain_anchor=self.variant.patch_domain_anchor or "domain-anchor" in booted.patches,
            patch_job_hw_time=self.variant.patch_job_hw_time or "job-hw-time" in booted.patches,
            sram=self.variant.sram or booted.sram,
        )
        kernel = RknpuKernel(clock, self._execute, variant, self.faults, booted.release)
        self.clock, self.kernel = clock, kernel
        self.release = booted.release or kernel.profile.release
        self.tree = BoardTree(kernel, self._clients, self.disk, booted.release)
        self.boots += 1
        if booted.fault:
            kernel.dead = f"the board did not come up: {booted.fault}"
        for name, value in self.faults.all().items():
            effects.begin(kernel, name, value)

    def _time_to_come_up_ns(self) -> int:
        """From the first line of the boot log until somebody can log in."""
        profile = profile_of(self.variant.board)
        lines = profile.boot_log(self.variant.sram, profile.driver or NEWEST)
        return lines[-1].time_us * 1000 + _LOGIN_NS

    def _start_from_disk(self) -> Booted:
        """The kernel that comes up in the end: the unit that watches a trial may boot anew once."""
        if self.disk is None:
            return Booted()
        booted = boot(self.disk)
        if not booted.fault:
            run_trial_unit(self.disk, booted.release)
            again = boot(self.disk)
            if again.release != booted.release:
                return again
        return booted

    def restart(self, event: Event) -> None:
        """Reboot, or cut the power and give it again. Every open file of before is of no more use."""
        old = self.kernel
        self.faults.end(event)
        old.shut_down()
        self._boot(self.clock.pace, self.clock.wall_s())
        if "boot-image-broken" in self.faults:
            self.kernel.dead = "the board did not come up: /boot/Image is cut short"

    def fault_list(self) -> list[dict[str, Any]]:
        """Every fault there is, as this board can have it."""
        active, profile = self.faults.all(), profile_of(self.variant.board)
        here = faults_of(profile)
        return [
            described(here.get(name, fault), active.get(name), why_not(fault, profile))
            for name, fault in CATALOGUE.items()
        ]

    def set_fault(self, text: str) -> bool:
        """Set ``NAME`` or ``NAME=VALUE``; whether that restarted the board.

        Raises:
            KeyError, ValueError: as ``parse_fault``, for the faults this board can have.
        """
        fault, value = parse_fault(text, faults_of(profile_of(self.variant.board)))
        if fault.name in self.faults:
            if self.faults.value(fault.name) == value:
                return False
            self.faults.clear(fault.name)
            effects.end(self.kernel, fault.name)
        self.faults.set(fault.name, value)
        self._disk_follows()
        if fault.restarts:
            self.restart(Event.REBOOT)
            return True
        effects.begin(self.kernel, fault.name, value)
        return False

    def clear_fault(self, name: str) -> bool:
        """Undo a fault; whether that restarted the board.

        Raises:
            KeyError: no such fault.
            PermissionError: only what its row names ends it.
        """
        fault = CATALOGUE[name]
        if name not in self.faults:
            return False
        if not fault.clearable:
            raise PermissionError(name)
        self.faults.clear(name)
        self._disk_follows()
        if fault.restarts:
            self.restart(Event.REBOOT)
            return True
        effects.end(self.kernel, name)
        return False

    def _disk_follows(self) -> None:
        """The disk as the faults have it."""
        if self.disk is None:
            return
        if "boot-image-broken" in self.faults:
            self.disk.damage_kernel()
        else:
            self.disk.repair_kernel()

    def close(self) -> None:
        self.kernel.shut_down()
