"""``/proc/stat``: how busy every core was between two readings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["CpuTicks", "StatReading", "busy_percent", "core_types", "parse_proc_stat"]

_CPU = re.compile(r"cpu([0-9]{1,4})((?:\s+[0-9]{1,20}){4,})\s*", re.ASCII)

# Part numbers of /proc/cpuinfo (implementer 0x41) of cores found beside this NPU.
_PARTS = {0xD03: "A53", 0xD05: "A55", 0xD08: "A72", 0xD0B: "A76"}


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Ticks since boot. Waiting for a disk is idle time; guest time is inside user time."""

    busy: int
    idle: int


@dataclass(frozen=True, slots=True)
class StatReading:
    cpus: dict[int, CpuTicks] = field(default_factory=dict)
    boot_unix_s: int | None = None
    running: int | None = None
    blocked: int | None = None


def parse_proc_stat(text: str) -> StatReading:
    """Lines that are damaged are left out; an empty text gives a reading without cores."""
    cpus: dict[int, CpuTicks] = {}
    numbers: dict[str, int] = {}
    for line in text.splitlines():
        if found := _CPU.fullmatch(line):
            ticks = [int(word) for word in found[2].split()][:8]
            idle = ticks[3] + (ticks[4] if len(ticks) > 4 else 0)
            cpus[int(found[1])] = CpuTicks(busy=sum(ticks) - idle, idle=idle)
            continue
        name, _, value = line.partition(" ")
        if (
            name in ("btime", "procs_running", "procs_blocked")
            and value.isascii()
            and value.strip().isdigit()
        ):
            numbers[name] = int(value)
    return StatReading(cpus, numbers.get("btime"), numbers.get("procs_running"), numbers.get("procs_blocked"))


def busy_percent(before: StatReading, after: StatReading) -> dict[int, float]:
    """Busy 0..100 per core that ran in both readings; a core whose counters went back is left out."""
    result: dict[int, float] = {}
    for index, now in after.cpus.items():
        then = before.cpus.get(index)
        if then is None:
            continue
        busy, idle = now.busy - then.busy, now.idle - then.idle
        if busy < 0 or busy + idle <= 0:
            continue
        # Idle may step back by a tick when waiting for a disk is accounted late.
        result[index] = min(100.0, 100.0 * busy / (busy + max(idle, 0))) if busy else 0.0
    return result


def core_types(cpuinfo: str) -> dict[int, str]:
    """Core names (``A55``, ``A76``) by CPU number from ``/proc/cpuinfo``; unknown parts are left out."""
    types: dict[int, str] = {}
    current = -1
    for line in cpuinfo.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor" and value.isascii() and value.isdigit():
            current = int(value)
        elif key == "CPU part":
            try:
                part = _PARTS.get(int(value, 16))
            except ValueError:
                continue
            if part and current >= 0:
                types[current] = part
    return types
