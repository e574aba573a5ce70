"""Wait until the programs that hold the NPU have ended; ask them to, with consent."""

from __future__ import annotations

from orkbench_tui.errors import ExitCode
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.verbs import process_start
from orkbench_tui.ops.operations.preflight import idle, require_rknpu

__all__ = ["DRAIN", "drain_steps", "patience_s"]


def patience_s(board: GuardedBoard) -> float:
    """A blocking submit sleeps up to three time-outs, and only then can its program end."""
    return 3 * board.timeout_ms / 1000 + 2


def drain_steps(board: GuardedBoard) -> tuple[Step, ...]:
    holders = board.holders()
    if not holders:
        return ()
    asked = tuple(
        Step("terminate", str(holder.pid), None, process_start(board, str(holder.pid)), holder.command)
        for holder in holders
    )
    return (*asked, Step("released", "the NPU", None, f"{patience_s(board):.0f}"))


def plan(board: GuardedBoard, words: Words) -> Plan:
    require_rknpu(board)
    holders = board.holders()
    steps = drain_steps(board)
    if words.get("wait") == "only":
        steps = tuple(step for step in steps if step.verb == "released")
    return Plan(
        DRAIN,
        board.host,
        facts=tuple((f"pid {holder.pid}", f"{holder.command} holds {holder.node}") for holder in holders),
        checks=(idle(board), Check("pass", "nothing is killed", "SIGTERM only; a job in flight ends first")),
        steps=steps,
        verified_by="no open descriptor of the NPU's nodes is left",
        words=words,
    )


DRAIN = Operation(
    name="drain",
    title="end the programs that hold the NPU",
    risk=Risk.INTERRUPTS,
    why="a reset or a reload under a running job loses its result, and can hang the board",
    root="programs of other users",
    lasting="the programs that ended; start them again yourself",
    plan=plan,
    failure=ExitCode.BUSY,
    options=(("wait", "only: wait without asking any program to end"),),
)
