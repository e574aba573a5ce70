"""What is read about a board before its kernels are changed."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.disk import Disk
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.kernel.environment import Environment, read_environment
from orkbench_tui.ops.kernel.layout import Layout, find_layout
from orkbench_tui.ops.kernel.next_boot import NextBoot, next_boot

__all__ = ["KernelFacts", "following_boot", "kernel_facts", "required_disk"]


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """``compatible`` is the running device tree's root, most exact name first."""

    disk: Disk
    layout: Layout
    environment: Environment | None
    running: str
    build: str
    command_line: str
    compatible: tuple[str, ...]
    driver: str


def required_disk(board: GuardedBoard) -> Disk:
    """Raises RefusedError where the board's disk is not within reach."""
    if board.disk is None:
        raise RefusedError(
            "the board's disk cannot be reached",
            why="kernels are installed on the board itself",
            do="run ork there",
        )
    return board.disk


def kernel_facts(board: GuardedBoard) -> KernelFacts:
    """Raises RefusedError without a disk."""
    disk = required_disk(board)
    running = board.text("/proc/sys/kernel/osrelease") or ""
    command_line = board.text("/proc/cmdline") or ""
    layout = find_layout(disk, command_line, running)
    reading = board.files.read("/proc/device-tree/compatible")
    names = reading.data.decode("ascii", "replace").split("\0") if reading.ok else []
    return KernelFacts(
        disk,
        layout,
        read_environment(disk, layout),
        running,
        board.text("/proc/version") or "",
        command_line,
        tuple(name for name in names if name),
        board.text("/sys/module/rknpu/version") or "",
    )


def following_boot(board: GuardedBoard) -> NextBoot:
    """What the boot loader would start now. Raises RefusedError without a disk."""
    running = board.text("/proc/sys/kernel/osrelease") or ""
    return next_boot(required_disk(board), board.text("/proc/cmdline") or "", running)
