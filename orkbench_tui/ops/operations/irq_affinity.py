"""The NPU's completion interrupts onto little cores, away from the threads that submit."""

from __future__ import annotations

import re

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.kernel_log.rules import NPU_NODE
from orkbench_tui.ops.operations.preflight import require_rknpu
from orkbench_tui.ops.operations.restore import steps_back

__all__ = ["IRQ_AFFINITY", "MODES"]

MODES = ("little", "restore")
_LINE = re.compile(rf"\s*(\d{{1,6}}):.*\b{NPU_NODE}\b")


def _numbers(board: GuardedBoard) -> list[int]:
    """The NPU's interrupt numbers; they differ from boot to boot."""
    lines = (board.text("/proc/interrupts") or "").splitlines()
    return [int(found[1]) for line in lines if (found := _LINE.match(line))]


def _little(board: GuardedBoard) -> list[int]:
    """CPUs of the lowest capacity; empty where the kernel does not tell capacities apart."""
    capacity = dict(board.paths().capacity)
    lowest = min(capacity.values(), default=0)
    return [cpu for cpu, value in sorted(capacity.items()) if value == lowest < max(capacity.values())]


def plan(board: GuardedBoard, words: Words) -> Plan:
    mode = words.get("mode", "little")
    if mode not in MODES:
        raise UsageError(f"mode {mode!r}", why=f"allowed: {', '.join(MODES)}")
    require_rknpu(board)
    numbers, little = _numbers(board), _little(board)
    nodes = [f"/proc/irq/{number}/smp_affinity_list" for number in numbers]
    facts = tuple(
        (f"interrupt {number}", f"CPUs {board.text(node) or 'unknown'}")
        for number, node in zip(numbers, nodes, strict=True)
    )
    if mode == "restore":
        steps, known = steps_back(board, "irq-affinity")
        return Plan(IRQ_AFFINITY, board.host, facts, (known,), steps, words=words)
    checks = (
        Check.of(bool(numbers), "the NPU has interrupts", f"{len(numbers)} lines in /proc/interrupts"),
        Check.of(bool(little), "the board has little cores", f"CPUs {', '.join(map(str, little)) or 'none'}"),
        Check.of(not _balanced(board), "no irqbalance", "it would move them again", otherwise="warn"),
    )
    moves = []
    for index, node in enumerate(nodes):
        now = board.text(node)
        # CPU 0 takes most other interrupts; the NPU's go beside it, one to a core.
        wanted = str(little[(index + 1) % len(little)]) if little else ""
        if now is not None and wanted and now != wanted:
            moves.append(Step("irq", node, now, wanted, f"NPU core {index}"))
    return Plan(IRQ_AFFINITY, board.host, facts, checks, tuple(moves), words=words)


def _balanced(board: GuardedBoard) -> bool:
    pids = [name for name in board.files.list("/proc") if name.isascii() and name.isdigit()]
    names = board.files.read_many([f"/proc/{pid}/comm" for pid in pids]) if pids else []
    return any(reading.ok and reading.text().strip() == "irqbalance" for reading in names)


IRQ_AFFINITY = Operation(
    name="irq-affinity",
    title="move NPU interrupts to little cores",
    risk=Risk.REVERSIBLE,
    why="by default all completions interrupt CPU 0; on little cores of their own they disturb nobody",
    root="the writes to /proc/irq",
    lasting="",
    plan=plan,
    options=(("mode", "little, or restore to what stood before in this boot"),),
)
