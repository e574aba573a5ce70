"""What the preflight looks at: one capture, a few files more, and the load and interrupts twice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orkbench_tui.ops.diagnosis.collect import collect
from orkbench_tui.ops.diagnosis.evidence import Evidence, gather
from orkbench_tui.ops.files import BoardFiles, Reading
from orkbench_tui.ops.kernel_log.rules import NPU_NODE
from orkbench_tui.ops.telemetry.interrupts import parse_npu_interrupts
from orkbench_tui.ops.telemetry.npu_load import parse_npu_load

__all__ = ["DoctorReadings", "read_board"]

# The load is a window of one second: two readings this far apart are two windows.
TWO_WINDOWS_S = 2.1

_LOADS = ("/sys/kernel/debug/rknpu/load", "/proc/rknpu/load")
_PLAIN = (
    "/proc/uptime",
    "/proc/swaps",
    "/proc/sys/kernel/version",
    "/sys/class/devfreq/fb000000.gpu/load",
    "/sys/kernel/debug/rknpu/mm",
    "/proc/rknpu/mm",
)


@dataclass(frozen=True, slots=True)
class DoctorReadings:
    """``files`` by path as read; ``loads`` percent per core in each window; ``jobs`` interrupts between them."""

    evidence: Evidence
    files: dict[str, Reading] = field(default_factory=dict)
    loads: tuple[tuple[int | None, ...], ...] = ()
    jobs: int | None = None
    affinity: dict[str, str] = field(default_factory=dict)
    own_cpus: tuple[int, ...] | None = None
    own_pid: int | None = None

    def text(self, path: str) -> str | None:
        reading = self.files.get(path)
        return reading.text().strip() if reading is not None and reading.ok else None

    def matching(self, pattern: str) -> list[tuple[str, str]]:
        return [
            (path, r.text().strip())
            for path, r in sorted(self.files.items())
            if r.ok and re.search(pattern, path)
        ]

    @property
    def uptime_s(self) -> float | None:
        text = self.text("/proc/uptime")
        word = text.split()[0] if text and text.split() else ""
        return float(word) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", word) else None


def read_board(
    files: BoardFiles,
    *,
    pause: Callable[[float], None] = time.sleep,
    own_cpus: tuple[int, ...] | None = None,
    own_pid: int | None = None,
    sees_all_processes: bool = True,
) -> DoctorReadings:
    """Takes about two seconds: the NPU is looked at in two windows.

    Raises:
        OSError: the board went away.
    """
    evidence = gather(collect(files, sees_all_processes=sees_all_processes))
    first_load, first_jobs = _windows(files)
    numbers = _npu_irqs(files)
    paths = [*_PLAIN, *[f"/proc/irq/{number}/effective_affinity_list" for number in numbers.values()]]
    paths += [f"/sys/block/{name}/queue/read_ahead_kb" for name in files.list("/sys/block")[:32]]
    paths += [f"/sys/devices/system/cpu/{cpu}/cpuidle/state1/disable" for cpu in _cpus(files)]
    for name in files.list("/sys/class/hwmon")[:32]:
        paths += [f"/sys/class/hwmon/{name}/{leaf}" for leaf in ("name", "in0_input", "in1_input")]
    found = {reading.path: reading for reading in files.read_many(paths)}
    pause(TWO_WINDOWS_S)
    second_load, second_jobs = _windows(files)
    jobs = None
    if first_jobs is not None and second_jobs is not None and second_jobs >= first_jobs:
        jobs = second_jobs - first_jobs
    affinity = {}
    for node, number in numbers.items():
        reading = found[f"/proc/irq/{number}/effective_affinity_list"]
        if reading.ok:
            affinity[node] = reading.text().strip()
    return DoctorReadings(
        evidence,
        found,
        tuple(load for load in (first_load, second_load) if load is not None),
        jobs,
        affinity,
        own_cpus,
        own_pid,
    )


def _windows(files: BoardFiles) -> tuple[tuple[int | None, ...] | None, int | None]:
    *loads, interrupts = files.read_many([*_LOADS, "/proc/interrupts"])
    parsed = next((found for r in loads if r.ok and (found := parse_npu_load(r.text()))), None)
    lines = parse_npu_interrupts(interrupts.text()) if interrupts.ok else ()
    load = tuple(core.pct for core in parsed) if parsed else None
    return load, sum(line.count for line in lines) if lines else None


def _npu_irqs(files: BoardFiles) -> dict[str, str]:
    """Interrupt number by core name; the number on the left of /proc/interrupts."""
    reading = files.read("/proc/interrupts")
    found: dict[str, str] = {}
    for line in reading.text().splitlines() if reading.ok else []:
        match = re.match(r"\s*(\d{1,6}):", line)
        if match and re.search(rf"\b{NPU_NODE}\b", line):
            found[f"core {len(found)}"] = match[1]
    return found


def _cpus(files: BoardFiles) -> list[str]:
    return [name for name in files.list("/sys/devices/system/cpu") if re.fullmatch(r"cpu\d{1,3}", name)]
