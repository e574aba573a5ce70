"""The driver's soft reset of all cores."""

from __future__ import annotations

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.journal import history
from orkbench_tui.ops.operations.preflight import (
    health_step,
    idle,
    log_readable,
    no_holders,
    require_rknpu,
    resets_enabled,
    tested_by,
    untestable_chip,
)

__all__ = ["MAX_FAILED", "RESET", "failed_resets", "reset_steps"]

MAX_FAILED = 2
"""Resets without a healthy board after them, in one boot; more have never helped."""


def failed_resets(board: GuardedBoard) -> int:
    """Resets of this boot since the last that left a healthy board; one that was interrupted says nothing."""
    failed = 0
    for run in history(board.state):
        if (
            run.source == board.source
            and run.boot_id == board.boot_id
            and "reset" in {s.verb for s in run.steps}
        ):
            if run.outcome == "done":
                failed = 0
            elif run.failed:
                failed += 1
    return failed


def reset_steps(board: GuardedBoard) -> tuple[Step, ...]:
    """The reset itself, without the step that looks whether it helped."""
    reset = Step("reset", "the NPU", None, "reset")
    if untestable_chip(board):
        # There is no small job to have overdue ones dropped with.
        return (reset,)
    return (reset, Step("drop-overdue", "the NPU", None, "free", "a reset does not clear queues"))


def plan(board: GuardedBoard, words: Words) -> Plan:
    require_rknpu(board)
    failed = failed_resets(board)
    return Plan(
        RESET,
        board.host,
        checks=(
            log_readable(board),
            resets_enabled(board),
            no_holders(board),
            idle(board),
            Check.of(
                failed < MAX_FAILED,
                "resets have not failed repeatedly",
                f"{failed} failed in this boot, {MAX_FAILED} are the most; reboot instead",
            ),
        ),
        steps=(*reset_steps(board), health_step(board)),
        verified_by=f"a new soft-reset line by its sequence number, then {tested_by(board)}",
        words=words,
    )


RESET = Operation(
    name="reset",
    title="reset the NPU",
    risk=Risk.INTERRUPTS,
    why="a core that no longer completes jobs starts again from a known state",
    root="nothing; reading the debugfs reset node, where it is to be checked",
    lasting="jobs of other programs that were running; there must be none",
    plan=plan,
    holds_npu=True,
)
