"""Arm the hardware watchdog, so that a board that hangs boots anew by itself."""

from __future__ import annotations

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Words
from orkbench_tui.ops.guard.disk_steps import folder_steps, removal_steps, text_steps
from orkbench_tui.ops.kernel.facts import required_disk

__all__ = ["WATCHDOG"]

_NODE = "/sys/class/watchdog/watchdog0"
_FILE = "/etc/systemd/system.conf.d/ork-watchdog.conf"
_LEAST_S, _MOST_S = 10, 60


def plan(board: GuardedBoard, words: Words) -> Plan:
    mode = words.get("mode", "arm")
    if mode not in ("arm", "disarm"):
        raise UsageError(f"mode {mode!r}", why="allowed: arm, disarm")
    seconds = words.get("seconds", "30")
    if not seconds.isdigit() or not _LEAST_S <= int(seconds) <= _MOST_S:
        raise UsageError(f"{seconds} seconds", why=f"allowed: {_LEAST_S} to {_MOST_S}")
    identity = board.text(f"{_NODE}/identity")
    last = board.text(f"{_NODE}/bootstatus")
    told = {"0": "an ordinary boot", None: "unknown"}.get(last, f"the watchdog (bootstatus {last})")
    disk = required_disk(board)
    text = f"[Manager]\nRuntimeWatchdogSec={seconds}\n"
    arming = (
        *folder_steps(disk, _FILE.rpartition("/")[0]),
        *text_steps(disk, _FILE, text, "systemd feeds it"),
    )
    return Plan(
        WATCHDOG,
        board.host,
        facts=(("watchdog", identity or "none"), ("last boot by", told)),
        checks=(Check.of(identity is not None, "the board has a watchdog", _NODE),),
        steps=arming if mode == "arm" else removal_steps(disk, _FILE, "systemd lets it go"),
        verified_by="reading the file again; it counts from the next boot, or after `systemctl daemon-reexec`",
        words=words,
    )


WATCHDOG = Operation(
    name="watchdog",
    title="arm the hardware watchdog",
    risk=Risk.REVERSIBLE,
    why="a board that hangs while nobody is near boots anew instead of needing its power cut",
    root=f"writing {_FILE}",
    lasting="",
    plan=plan,
    options=(("mode", "arm or disarm"), ("seconds", f"how long it waits, {_LEAST_S} to {_MOST_S}")),
)
