"""Boot the board anew, after looking whether it would come up."""

from __future__ import annotations

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.kernel.facts import following_boot
from orkbench_tui.ops.operations.preflight import no_holders

__all__ = ["REBOOT"]


def _comes_up(board: GuardedBoard, words: Words) -> Check:
    what = "what boots next is whole"
    if board.disk is None:
        return Check("warn", what, "the board's disk cannot be reached: unknown")
    following = following_boot(board)
    if following.faults:
        remedy = (
            "`ork kernel status` shows it, `ork kernel rollback` goes back; --anyway reboots all the same"
        )
        state = "warn" if words.get("anyway") else "fail"
        return Check(state, what, f"{following.faults[0]}; {remedy}")
    return Check("pass", what, following.release)


def plan(board: GuardedBoard, words: Words) -> Plan:
    running = board.text("/proc/sys/kernel/osrelease") or "unknown"
    return Plan(
        REBOOT,
        board.host,
        facts=(("running", running), ("boot", board.boot_id[:8])),
        checks=(_comes_up(board, words), no_holders(board)),
        steps=(Step("sync", "/", None, "written"), Step("reboot", "the board", None, "boots anew")),
        verified_by="the next start of ork: `ork board journal` says what came of it",
        words=words,
    )


REBOOT = Operation(
    name="reboot",
    title="boot the board anew",
    risk=Risk.INTERRUPTS,
    why="ends leaked mappings and stuck jobs, and starts another kernel",
    root="systemctl reboot",
    lasting="everything that runs on the board ends",
    plan=plan,
    options=(("anyway", "yes to reboot although what boots next looks broken"),),
)
