"""Open descriptors and process lists as several tools print them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orkbench_tui.ops.telemetry.holders import Holder

__all__ = ["Process", "display_nodes", "npu_holders", "parse_holders", "parse_processes", "stuck_lines"]

_NODE = r"(?P<node>/dev/(?:dri/(?:card|renderD)\d{1,3}|rknpu\d?|accel/accel\d{1,3}|dma_heap/\S+))"
_FORMS = (
    # 1420 npud -> /dev/dri/renderD129
    re.compile(rf"^\s*(?P<pid>\d{{1,9}})\s+(?P<command>.*?)\s*->\s*{_NODE}"),
    # /proc/1420/fd/7 -> /dev/dri/renderD129 (also with the columns of ls in front)
    re.compile(rf"/proc/(?P<pid>\d{{1,9}})/fd/\S+\s*(?:->|:)\s*{_NODE}"),
    # fuser -v: /dev/dri/renderD129:  root 1420 F.... npud
    re.compile(rf"^{_NODE}:\s+\S+\s+(?P<pid>\d{{1,9}})\s+[A-Za-z.]+\s+(?P<command>\S.*)$"),
    # lsof: npud 1420 root 7u CHR 226,129 0t0 500 /dev/dri/renderD129
    re.compile(rf"^(?P<command>\S+)\s+(?P<pid>\d{{1,9}})\s.*\s{_NODE}\s*$"),
)


def parse_holders(text: str) -> tuple[Holder, ...]:
    """Each process and node once, in the order of the text."""
    found: dict[tuple[int, str], Holder] = {}
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for form in _FORMS:
            if match := form.search(line[:4096]):
                groups = match.groupdict()
                holder = Holder(int(groups["pid"]), (groups.get("command") or "").strip(), groups["node"])
                found.setdefault((holder.pid, holder.node), holder)
                break
    return tuple(found.values())


# Programs that draw: the node they hold is the display's. Used only where nothing says whose node is whose.
_DISPLAY = re.compile(
    r"(?i)^(?:Xorg|Xwayland|weston|gnome-shell|kwin\w*|sway|mutter\S*|labwc|wayfire|lightdm|sddm|gdm\S*|plasmashell)"
)


def display_nodes(holders: Iterable[Holder]) -> set[str]:
    """Nodes a display server holds."""
    return {item.node for item in holders if _DISPLAY.match(item.command)}


def npu_holders(holders: Iterable[Holder], npu_nodes: frozenset[str]) -> tuple[Holder, ...]:
    """Holders of the NPU's nodes, one entry a process. Unknown nodes: all but those a display server holds."""
    items = tuple(holders)
    nodes = npu_nodes or frozenset({item.node for item in items} - display_nodes(items))
    unique: dict[int, Holder] = {}
    for item in items:
        if item.node in nodes and not item.node.startswith("/dev/dma_heap"):
            unique.setdefault(item.pid, item)
    return tuple(unique.values())


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    state: str
    wait: str
    command: str

    @property
    def stuck(self) -> bool:
        return self.state.startswith("D")


_BARE = re.compile(
    r"^\s*(?P<pid>\d{1,9})\s+(?P<state>[RSDZTtXxKWPI][<NLsl+]*)\s+(?P<wait>\S+)\s+(?P<command>\S.*)$"
)


def parse_processes(text: str) -> tuple[Process, ...]:
    """``ps`` with a header in any column order, or lines of pid, state, wait and command."""
    columns: dict[str, int] = {}
    found: list[Process] = []
    for line in text.splitlines():
        words = line.split()
        upper = [word.upper() for word in words]
        if "PID" in upper and ("STAT" in upper or "S" in upper):
            columns = {name: index for index, name in enumerate(upper)}
            continue
        if columns:
            process = _from_columns(line, columns)
        elif match := _BARE.match(line[:4096]):
            process = Process(int(match["pid"]), match["state"], match["wait"], match["command"].strip())
        else:
            process = None
        if process is not None:
            found.append(process)
    return tuple(found)


def _from_columns(line: str, columns: dict[str, int]) -> Process | None:
    last = max(columns.values())
    cells = line.split(None, last)
    if len(cells) <= min(2, last):
        return None

    def cell(*names: str) -> str:
        index = next((columns[name] for name in names if name in columns), None)
        return cells[index].strip() if index is not None and index < len(cells) else ""

    pid = cell("PID")
    if not (pid.isascii() and pid.isdigit() and len(pid) < 10):
        return None
    return Process(
        int(pid), cell("STAT", "S"), cell("WCHAN", "WCHAN:32"), cell("COMMAND", "CMD", "COMM", "ARGS")
    )


def stuck_lines(processes: Iterable[Process]) -> list[str]:
    """The first processes in state D, as a line each."""
    return [f"{p.pid} {p.state} {p.wait} {p.command}" for p in processes if p.stuck][:4]
