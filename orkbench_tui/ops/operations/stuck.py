"""Programs that hang in the kernel: which wait it is, and whether it ends by itself. Read-only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.verbs import process_start
from orkbench_tui.ops.operations.drain import patience_s

__all__ = ["Stuck", "hanging_for", "stuck_document", "stuck_lines", "stuck_programs"]

_PERIOD_S = 0.25

# What a wait is called in the kernel, what it means, what to do. First match wins.
_WAITS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("rknpu_submit", "rknpu_job_wait"),
        "waits for a job of the NPU; ends by itself after at most three time-outs",
        "wait ({patience:.0f} s); `ork board drain` shows the countdown",
    ),
    (
        ("rknpu_iommu_domain", "usleep_range_state"),
        "waits for another address space; 6 s, on exit up to 18 s for each buffer",
        "wait; end the other holder with SIGTERM",
    ),
    (("drm_gem_prime",), "imports a buffer", "wait; memory may be short, see `ork board drop-caches`"),
    (("folio_wait", "filemap_fault", "io_schedule"), "waits for the disk, not for the NPU", "wait"),
    (("mutex_lock",), "waits for a lock another thread holds", "see what that thread waits for"),
)
_UNKNOWN = ("waits for something this tool does not know", "wait; reboot when it never ends")


@dataclass(frozen=True, slots=True)
class Stuck:
    """A program in uninterruptible sleep. ``wait`` is the kernel function, "" where it may not be read."""

    pid: int
    command: str
    holds_npu: bool
    wait: str
    meaning: str
    do: str

    @property
    def lasting(self) -> bool:
        """Whether it waits for a lock, which has no end of its own, as against a job, a switch or a disk."""
        return "mutex_lock" in self.wait


def stuck_programs(board: GuardedBoard) -> tuple[Stuck, ...]:
    """Programs in state D that hold the NPU or wait in its driver."""
    holders = {holder.pid for holder in board.holders()}
    pids = sorted(int(name) for name in board.files.list("/proc") if name.isascii() and name.isdigit())
    stats = board.files.read_many([f"/proc/{pid}/stat" for pid in pids]) if pids else []
    found = []
    for pid, stat in zip(pids, stats, strict=True):
        head, _, rest = stat.text().rpartition(")")
        if not stat.ok or not rest.lstrip().startswith("D"):
            continue
        wait = board.text(f"/proc/{pid}/wchan") or ""
        if pid in holders or "rknpu" in wait:
            found.append(_explained(board, pid, head.partition("(")[2], pid in holders, wait.strip("0")))
    return tuple(found)


def hanging_for(
    board: GuardedBoard,
    seconds: float,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Stuck, ...]:
    """Programs that were in that sleep at every look for ``seconds``; ends early when none is left.

    Every wait of the driver passes through this state, so one look proves no hang. A number that went to another
    program meanwhile is another program.
    """
    began = now()
    found = stuck_programs(board)
    first = {item.pid: process_start(board, str(item.pid)) for item in found}
    while found and now() - began < seconds:
        sleep(min(_PERIOD_S, seconds))
        again = {item.pid: item for item in stuck_programs(board)}
        found = tuple(
            again[item.pid]
            for item in found
            if item.pid in again and process_start(board, str(item.pid)) == first[item.pid]
        )
    return found


def _explained(board: GuardedBoard, pid: int, command: str, holds: bool, wait: str) -> Stuck:
    meaning, do = next(
        ((meaning, do) for names, meaning, do in _WAITS if any(name in wait for name in names)), _UNKNOWN
    )
    return Stuck(pid, command, holds, wait, meaning, do.format(patience=patience_s(board)))


def stuck_lines(found: tuple[Stuck, ...]) -> list[str]:
    if not found:
        return ["no program hangs in the NPU's driver"]
    lines = []
    for item in found:
        where = item.wait or "unknown, /proc/PID/wchan needs root"
        lines.append(f"{item.command} (pid {item.pid}), in {where}: {item.meaning}; {item.do}")
    return [
        *lines,
        "a program in this state cannot be killed; kill -9 with a job in flight leaves the NPU dirty",
    ]


def stuck_document(found: tuple[Stuck, ...]) -> list[dict[str, Any]]:
    return [asdict(item) for item in found]
