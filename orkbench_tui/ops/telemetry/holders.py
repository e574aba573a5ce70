"""Which processes hold the NPU's device node open: found by open descriptors, never by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from orkbench_tui.ops.files import BoardFiles

__all__ = ["Holder", "HungHolders", "find_holders", "find_nodes"]

_MAX_PROCESSES = 4096
_DRM_NAME = re.compile(r"(?:card|renderD)[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Holder:
    """``node`` is the device path; ``command`` may be cut by the kernel to 15 characters.

    ``descriptors`` is how often the process has it open, ``rss_bytes`` its resident memory, None where not readable.
    ``state`` is the kernel's letter (R, S, D, Z, …), "" where not readable; ``hung_s`` is how long it has been seen in
    uninterruptible sleep while the NPU completed nothing: no signal ends it, so whoever waits must stop and tell.
    """

    pid: int
    command: str
    node: str
    descriptors: int = 1
    rss_bytes: int | None = None
    state: str = ""
    hung_s: float = 0.0


class HungHolders:
    """Since when each holder has been in state D at every look, with no completion from one look to the next."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self._completions: int | None = None

    def timed(self, holders: tuple[Holder, ...], completions: int | None, now_s: float) -> tuple[Holder, ...]:
        """``holders`` with ``hung_s``. ``completions`` of all cores since boot; unknown ones prove no progress."""
        moved = completions is not None and completions != self._completions
        self._completions = completions
        kept = {} if moved else self._since
        self._since = {holder.pid: kept.get(holder.pid, now_s) for holder in holders if holder.state == "D"}
        return tuple(
            replace(holder, hung_s=now_s - self._since[holder.pid]) if holder.pid in self._since else holder
            for holder in holders
        )


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
    held: list[tuple[int, str, int]] = []
    pids = sorted(int(name) for name in files.list("/proc") if name.isascii() and name.isdigit())
    for pid in pids[:_MAX_PROCESSES]:
        links = [files.readlink(f"/proc/{pid}/fd/{name}") for name in files.list(f"/proc/{pid}/fd")]
        found = [link for link in links if link in nodes]
        if found and found[0] is not None:
            held.append((pid, found[0], len(found)))
    if not held:
        return ()
    paths = [f"/proc/{pid}/{leaf}" for pid, _, _ in held for leaf in ("comm", "status")]
    readings = files.read_many(paths)
    return tuple(
        Holder(
            pid,
            comm.line() if comm.ok else "",
            node,
            many,
            _resident(status.text()) if status.ok else None,
            _state(status.text()) if status.ok else "",
        )
        for (pid, node, many), comm, status in zip(held, readings[::2], readings[1::2], strict=True)
    )


def _state(status: str) -> str:
    """The letter of ``State:`` in /proc/PID/status."""
    found = re.search(r"^State:\s{1,20}([A-Za-z])\b", status, re.ASCII | re.MULTILINE)
    return found[1] if found else ""


def _resident(status: str) -> int | None:
    """``VmRSS`` of /proc/PID/status, in bytes."""
    found = re.search(r"^VmRSS:\s{1,20}([0-9]{1,12}) kB$", status, re.ASCII | re.MULTILINE)
    return int(found[1]) * 1024 if found else None
