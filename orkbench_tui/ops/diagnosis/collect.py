"""A live board as a capture: the same files a person would save, read through one door.

Nothing here powers the NPU up: debugfs ``freq`` and ``volt`` are not read.
"""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib

from orkbench_tui.ops.diagnosis.capture import Capture, CapturedFile, DeniedSource
from orkbench_tui.ops.diagnosis.rules_processes import FULL_PCT
from orkbench_tui.ops.files import Access, BoardFiles, Reading
from orkbench_tui.ops.telemetry.holders import Holder, find_holders, find_nodes
from orkbench_tui.ops.telemetry.npu_load import parse_npu_load

__all__ = ["collect"]

_DEBUG, _PROC = "/sys/kernel/debug/rknpu", "/proc/rknpu"

# File of the capture -> the places it may come from, the first that answers is taken.
_SOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("load.txt", (f"{_DEBUG}/load", f"{_PROC}/load")),
    ("version.txt", ("/sys/module/rknpu/version", f"{_DEBUG}/version", f"{_PROC}/version")),
    ("mm.txt", (f"{_DEBUG}/mm", f"{_PROC}/mm")),
    ("counters.txt", (f"{_DEBUG}/counters",)),
    ("power.txt", (f"{_DEBUG}/power", f"{_PROC}/power")),
    ("reset.txt", (f"{_DEBUG}/reset", f"{_PROC}/reset")),
    ("meminfo.txt", ("/proc/meminfo",)),
    ("uname.txt", ("/proc/sys/kernel/osrelease",)),
    ("interrupts.txt", ("/proc/interrupts",)),
    ("cmdline.txt", ("/proc/cmdline",)),
    ("modules.txt", ("/proc/modules",)),
    ("compatible.txt", ("/proc/device-tree/compatible",)),
    ("loadavg.txt", ("/proc/loadavg",)),
    ("mounts.txt", ("/proc/mounts",)),
)
# Absence of these says nothing: they depend on how a kernel was built.
_OPTIONAL = ("mm.txt", "counters.txt", "mounts.txt", "power.txt", "reset.txt", "modules.txt", "loadavg.txt")

_VALUE_FILES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "/sys/class/devfreq",
        r".*npu|dmc",
        ("governor", "cur_freq", "min_freq", "max_freq", "available_frequencies"),
    ),
    (
        "/sys/devices/system/cpu/cpufreq",
        r"policy\d+",
        ("scaling_governor", "scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq"),
    ),
    ("/sys/class/thermal", r"thermal_zone\d+", ("type", "temp", "trip_point_0_temp", "trip_point_1_temp")),
    ("/sys/class/thermal", r"cooling_device\d+", ("type", "cur_state", "max_state")),
    ("/sys/class/drm", r"(?:card|renderD)\d+", ("device/uevent",)),
    ("/sys/module/rknpu/parameters", r"\w+", ("",)),
    ("/proc/device-tree", r"npu@[0-9a-f]+", ("status", "compatible")),
)
_CONFIG_WANTED = re.compile(r"ROCKCHIP|RKNPU|NO_GKI|DEBUG_FS|CMA|ROCKET|DMABUF|IOMMU", re.IGNORECASE)
_LISTED = (
    "/dev/dri",
    "/dev/accel",
    "/dev/dma_heap",
    "/dev/dri/by-path",
    "/boot",
    "/boot/extlinux",
    "/sys/bus/platform/drivers/RKNPU",
)
_MAX_PROCESSES = 4096
_TWO_WINDOWS_S = 2.1


def collect(
    files: BoardFiles, *, sees_all_processes: bool = True, user: str = "", node_error: str = ""
) -> Capture:
    """Everything a diagnosis looks at. ``user`` is the output of ``id`` where this process runs on the board,
    ``node_error`` what opening the NPU's node ended with, "" when it opened or was not tried.

    Raises:
        OSError: the board went away.
    """
    found: dict[str, str] = {}
    unreadable: list[DeniedSource] = []
    for name, paths in _SOURCES:
        readings = files.read_many(list(paths))
        best = next((reading for reading in readings if reading.ok), None)
        if best is not None:
            found[name] = best.text()
        elif name not in _OPTIONAL:
            # A refusal says more than an absence.
            telling = next((r for r in readings if r.access is Access.DENIED), readings[0])
            unreadable.append(_denied(name, telling))
    found |= _log(files, unreadable)
    if config := _config(files):
        found["config.txt"] = config
    if values := _values(files):
        found["sysfs.txt"] = values
    nodes = find_nodes(files)
    holders = find_holders(files, nodes)
    found["fds.txt"] = _holders_text(nodes, holders)
    if not holders and _full(found.get("load.txt", "")):
        found["load.txt"] += _load_later(files)
    if not sees_all_processes:
        unreadable.append(DeniedSource("fds.txt", "/proc/*/fd of other users", "denied", "EACCES"))
    found["ps.txt"] = _processes(files, {holder.pid for holder in holders})
    for folder in _LISTED:
        if names := files.list(folder):
            lines = [_with_target(files, folder, name) for name in names]
            found["ls" + folder.replace("/", "-") + ".txt"] = f"{folder}:\n" + "\n".join(lines) + "\n"
    if image := _boot_image(files):
        found["image.json"] = image
    if node_error:
        found["stderr.txt"] = node_error + "\n"
    if user:
        found["id.txt"] = user + "\n"
    captured = tuple(CapturedFile(name, text) for name, text in sorted(found.items()))
    return Capture(files.label, captured, tuple(unreadable))


def _full(load: str) -> bool:
    """Whether a core was busy for the whole window."""
    cores = parse_npu_load(load.splitlines()[0]) if load else None
    return any(core.pct is not None and core.pct >= FULL_PCT for core in cores or ())


def _load_later(files: BoardFiles) -> str:
    """The load of a window that has nothing in common with the one read before; "" when it cannot be read.

    A program that has just ended leaves its last window full: only a load that stays means something.
    """
    time.sleep(_TWO_WINDOWS_S)
    readings = files.read_many(list(_SOURCES[0][1]))
    return next((reading.text() for reading in readings if reading.ok), "")


def _denied(name: str, reading: Reading) -> DeniedSource:
    return DeniedSource(name, reading.path, reading.access.value, reading.errno_name)


def _log(files: BoardFiles, unreadable: list[DeniedSource]) -> dict[str, str]:
    records = files.kernel_log()
    if records:
        return {"dmesg.txt": b"".join(records).decode("utf-8", "replace")}
    reading = files.read("/dev/kmsg")
    if not reading.ok:
        unreadable.append(_denied("dmesg.txt", reading))
    return {}


def _boot_image(files: BoardFiles) -> str:
    """Head of the kernel the board boots next; its size only where the head itself is cut short."""
    reading = files.read("/boot/Image")
    if not reading.ok:
        return ""
    size = len(reading.data) if len(reading.data) < 64 else None
    return json.dumps({"path": "/boot/Image", "size": size, "head_hex": reading.data[:64].hex()}) + "\n"


def _config(files: BoardFiles) -> str:
    reading = files.read("/proc/config.gz")
    if not reading.ok:
        return ""
    try:
        text = gzip.decompress(reading.data).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return ""
    return "".join(f"{line}\n" for line in text.splitlines() if _CONFIG_WANTED.search(line))


def _values(files: BoardFiles) -> str:
    paths: list[str] = []
    for folder, pattern, names in _VALUE_FILES:
        for entry in files.list(folder):
            if re.fullmatch(pattern, entry):
                paths += [f"{folder}/{entry}/{name}".rstrip("/") for name in names]
    readings = files.read_many(paths) if paths else []
    return "".join(
        f"{reading.path}: {' '.join(reading.text().replace(chr(0), ' ').split())}\n"
        for reading in readings
        if reading.ok
    )


def _holders_text(nodes: tuple[str, ...], holders: tuple[Holder, ...]) -> str:
    head = f"# NPU nodes only: {' '.join(nodes) or 'none found'}\n"
    return head + "".join(f"{h.pid} {h.command or '?'} -> {h.node}\n" for h in holders)


def _with_target(files: BoardFiles, folder: str, name: str) -> str:
    target = files.readlink(f"{folder}/{name}")
    return f"{name} -> {target}" if target else name


def _processes(files: BoardFiles, held: set[int]) -> str:
    """Processes in state D, and those that hold the NPU whatever their state."""
    pids = sorted(int(name) for name in files.list("/proc") if name.isascii() and name.isdigit())[
        :_MAX_PROCESSES
    ]
    states = files.read_many([f"/proc/{pid}/stat" for pid in pids]) if pids else []
    rows = []
    for pid, reading in zip(pids, states, strict=True):
        stat = re.match(r"\d+ \((.*)\) ([A-Za-z])", reading.text(), re.DOTALL) if reading.ok else None
        if stat and (stat[2] == "D" or pid in held):
            wait = files.read(f"/proc/{pid}/wchan")
            rows.append(f"{pid:>7} {stat[2]:<4} {wait.text().strip() or '-':<24} {' '.join(stat[1].split())}")
    return "    PID STAT WCHAN                    COMMAND\n" + "".join(f"{row}\n" for row in rows)
