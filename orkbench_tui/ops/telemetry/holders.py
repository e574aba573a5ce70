"""Which processes hold the NPU's device node open: found by open descriptors, never by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orkbench_tui.ops.files import BoardFiles

__all__ = ["Holder", "find_holders", "find_nodes"]

_MAX_PROCESSES = 4096
_DRM_NAME = re.compile(r"(?:card|renderD)[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Holder:
    """``node`` is the device path; ``command`` may be cut by the kernel to 15 characters."""

    pid: int
    command: str
    node: str


def find_nodes(files: BoardFiles) -> tuple[str, ...]:
    """Device nodes of the NPU: DRM nodes whose driver is rknpu, the misc node, the mainline accel node."""
    names = [name for name in files.list("/sys/class/drm") if _DRM_NAME.fullmatch(name)]
    events = files.read_many([f"/sys/class/drm/{name}/device/uevent" for name in names]) if names else []
    nodes = [
        f"/dev/dri/{name}"
        for name, event in zip(names, events, strict=True)
        if event.ok and "DRIVER=RKNPU" in event.text().upper().splitlines()
    ]
    if "rknpu" in files.list("/dev"):
        nodes.append("/dev/rknpu")
    nodes += [f"/dev/accel/{name}" for name in files.list("/dev/accel") if name.startswith("accel")]
    return tuple(nodes)


def find_holders(files: BoardFiles, nodes: tuple[str, ...]) -> tuple[Holder, ...]:
    """Processes whose descriptors this user may see. Without nodes there is nothing to find."""
    if not nodes:
        return ()
    held: list[tuple[int, str]] = []
    pids = sorted(int(name) for name in files.list("/proc") if name.isascii() and name.isdigit())
    for pid in pids[:_MAX_PROCESSES]:
        for name in files.list(f"/proc/{pid}/fd"):
            link = files.readlink(f"/proc/{pid}/fd/{name}")
            if link in nodes:
                held.append((pid, link))
                break
    commands = files.read_many([f"/proc/{pid}/comm" for pid, _ in held]) if held else []
    return tuple(
        Holder(pid, reading.line() if reading.ok else "", node)
        for (pid, node), reading in zip(held, commands, strict=True)
    )
