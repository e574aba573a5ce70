"""Where one board keeps its readings: found once, not assumed.

Zones are matched by type, policies by the CPUs they serve, the NPU's devfreq node by its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.kernel_log.rules import NPU_NODE
from orkbench_tui.ops.telemetry.cpu import core_types
from orkbench_tui.ops.telemetry.frequency import parse_cpu_list, parse_hz, parse_khz
from orkbench_tui.ops.telemetry.holders import find_nodes
from orkbench_tui.ops.telemetry.thermal import Trip, parse_millicelsius, parse_state, zone_name

__all__ = ["BoardPaths", "CoolingPath", "Policy", "Zone", "find_paths"]

DEVFREQ = "/sys/class/devfreq"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
THERMAL = "/sys/class/thermal"

_POLICY = re.compile(r"policy([0-9]{1,4})")
_ZONE = re.compile(r"thermal_zone([0-9]{1,4})")
_COOLING = re.compile(r"cooling_device([0-9]{1,4})")
_TRIP = re.compile(r"trip_point_([0-9]{1,3})_temp")


@dataclass(frozen=True, slots=True)
class Policy:
    path: str
    cpus: tuple[int, ...]
    max_hz: int | None


@dataclass(frozen=True, slots=True)
class Zone:
    path: str
    name: str
    trips: tuple[Trip, ...] = ()


@dataclass(frozen=True, slots=True)
class CoolingPath:
    path: str
    number: int
    kind: str
    max_state: int | None


@dataclass(frozen=True, slots=True)
class BoardPaths:
    """Folders as found; "" where the board has none. ``core_names`` and ``capacity`` by CPU number."""

    policies: tuple[Policy, ...] = ()
    zones: tuple[Zone, ...] = ()
    cooling: tuple[CoolingPath, ...] = ()
    npu_devfreq: str = ""
    ddr_devfreq: str = ""
    nodes: tuple[str, ...] = ()
    core_names: tuple[tuple[int, str], ...] = ()
    capacity: tuple[tuple[int, int], ...] = ()


def find_paths(files: BoardFiles) -> BoardPaths:
    devfreq = files.list(DEVFREQ)
    npu = next((name for name in devfreq if re.fullmatch(NPU_NODE, name)), "")
    cpuinfo = files.read("/proc/cpuinfo")
    return BoardPaths(
        policies=_policies(files),
        zones=_zones(files),
        cooling=_cooling(files),
        npu_devfreq=f"{DEVFREQ}/{npu}" if npu else "",
        ddr_devfreq=f"{DEVFREQ}/dmc" if "dmc" in devfreq else "",
        nodes=find_nodes(files),
        core_names=tuple(sorted(core_types(cpuinfo.text()).items())),
        capacity=_capacities(files),
    )


def _numbered(names: list[str], pattern: re.Pattern[str]) -> list[str]:
    found = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
    return [name for _, name in sorted(found)]


def _policies(files: BoardFiles) -> tuple[Policy, ...]:
    paths = [f"{CPUFREQ}/{name}" for name in _numbered(files.list(CPUFREQ), _POLICY)]
    if not paths:
        return ()
    related = files.read_many([f"{path}/related_cpus" for path in paths])
    highest = files.read_many([f"{path}/cpuinfo_max_freq" for path in paths])
    limits = files.read_many([f"{path}/scaling_max_freq" for path in paths])
    return tuple(
        Policy(path, parse_cpu_list(cpus.text()), parse_khz(top.text()) or parse_khz(limit.text()))
        for path, cpus, top, limit in zip(paths, related, highest, limits, strict=True)
    )


def _zones(files: BoardFiles) -> tuple[Zone, ...]:
    paths = [f"{THERMAL}/{name}" for name in _numbered(files.list(THERMAL), _ZONE)]
    kinds = files.read_many([f"{path}/type" for path in paths]) if paths else []
    return tuple(
        Zone(path, zone_name(kind.line()), _trips(files, path))
        for path, kind in zip(paths, kinds, strict=True)
        if kind.ok
    )


def _trips(files: BoardFiles, zone: str) -> tuple[Trip, ...]:
    """Trip points in rising order; one that is switched off has no temperature a chip can have."""
    names = _numbered(files.list(zone), _TRIP)
    if not names:
        return ()
    limits = files.read_many([f"{zone}/{name}" for name in names])
    kinds = files.read_many([f"{zone}/{name.removesuffix('_temp')}_type" for name in names])
    found = [
        Trip(kind.line(), celsius)
        for limit, kind in zip(limits, kinds, strict=True)
        if kind.ok and (celsius := parse_millicelsius(limit.text())) is not None
    ]
    return tuple(sorted(found, key=lambda trip: trip.celsius))


def _cooling(files: BoardFiles) -> tuple[CoolingPath, ...]:
    names = _numbered(files.list(THERMAL), _COOLING)
    if not names:
        return ()
    kinds = files.read_many([f"{THERMAL}/{name}/type" for name in names])
    highest = files.read_many([f"{THERMAL}/{name}/max_state" for name in names])
    return tuple(
        CoolingPath(
            f"{THERMAL}/{name}",
            int(name.removeprefix("cooling_device")),
            kind.line(),
            parse_state(top.text()),
        )
        for name, kind, top in zip(names, kinds, highest, strict=True)
        if kind.ok
    )


def _capacities(files: BoardFiles) -> tuple[tuple[int, int], ...]:
    root = "/sys/devices/system/cpu"
    names = _numbered(files.list(root), re.compile(r"cpu([0-9]{1,4})"))
    readings = files.read_many([f"{root}/{name}/cpu_capacity" for name in names]) if names else []
    found = [
        (int(name[3:]), value)
        for name, reading in zip(names, readings, strict=True)
        if (value := parse_hz(reading.text())) is not None
    ]
    return tuple(sorted(found))
