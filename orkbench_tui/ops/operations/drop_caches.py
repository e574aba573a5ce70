"""Give the page cache back to the free memory."""

from __future__ import annotations

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.operations.preflight import idle, mebibytes
from orkbench_tui.ops.telemetry.memory import parse_meminfo

__all__ = ["DROP_CACHES", "memory_line"]

NODE = "/proc/sys/vm/drop_caches"
LEVELS = {
    "1": "page cache",
    "2": "directory entries and inodes",
    "3": "page cache, directory entries and inodes",
}


def memory_line(board: GuardedBoard) -> str:
    memory = parse_meminfo(board.text("/proc/meminfo") or "")
    return (
        f"{mebibytes(memory.free_bytes)} free, {mebibytes(memory.available_bytes)} available, "
        f"{mebibytes(memory.cached_bytes)} cached"
    )


def plan(board: GuardedBoard, words: Words) -> Plan:
    level = words.get("level", "1")
    if level not in LEVELS:
        raise UsageError(f"level {level!r}", why=f"allowed: {', '.join(LEVELS)}")
    present = board.files.read(NODE)
    return Plan(
        DROP_CACHES,
        board.host,
        facts=(("memory now", memory_line(board)), ("dropped", LEVELS[level])),
        checks=(Check.of(present.ok, "the kernel can drop caches", NODE), idle(board)),
        steps=(
            Step("sync", "disks", None, "written", "only clean pages can be dropped"),
            Step("drop", NODE, None, level),
        ),
        verified_by="free and cached memory, before and after",
        words=words,
    )


DROP_CACHES = Operation(
    name="drop-caches",
    title="drop the page cache",
    risk=Risk.REVERSIBLE,
    why="imports and large buffers fail while memory is full of file pages; it helps nothing else, and the next "
    "model load reads from the disk again",
    root="the write to /proc/sys/vm/drop_caches",
    lasting="what was dropped; the kernel fills the cache again by itself",
    plan=plan,
    options=(("level", "1 page cache, 2 directory entries and inodes, 3 both"),),
)
