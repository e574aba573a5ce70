"""Checks that several operations make before they begin."""

from __future__ import annotations

from orkbench_tui.driver.soc import SOCS
from orkbench_tui.errors import NoDeviceError
from orkbench_tui.ops.board_identity import read_identity
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Step

__all__ = [
    "cool",
    "health_step",
    "holders_line",
    "idle",
    "log_readable",
    "mebibytes",
    "no_holders",
    "require_rknpu",
    "resets_enabled",
    "tested_by",
    "untestable_chip",
]

RESET_NODES = ("/sys/kernel/debug/rknpu/reset", "/proc/rknpu/reset")
_WARM_C, _HOT_C = 60.0, 75.0


def require_rknpu(board: GuardedBoard) -> None:
    """NoDeviceError where another driver has the NPU: there is nothing of ours to act on."""
    if read_identity(board.files).driver == "rocket":
        raise NoDeviceError(
            f"no rknpu NPU on {board.host}",
            why="the mainline rocket driver owns its NPU",
            do="boot a vendor kernel; `ork board diagnose` says more",
        )


def untestable_chip(board: GuardedBoard) -> str:
    """The board's chip where nobody has published register programs for it, so that no test job runs; else ""."""
    soc = SOCS.get(read_identity(board.files).soc)
    return soc.name if soc is not None and not soc.programs_known else ""


def health_step(board: GuardedBoard) -> Step:
    """The last step of what should leave a healthy board."""
    chip = untestable_chip(board)
    return Step("healthy", "the NPU", None, f"{chip} at rest" if chip else "healthy")


def tested_by(board: GuardedBoard) -> str:
    """What ``health_step`` looks at, in words."""
    chip = untestable_chip(board)
    return f"a load of 0, as no test job is known for the {chip}" if chip else "exact matmuls on every core"


def holders_line(board: GuardedBoard) -> str:
    return ", ".join(f"{holder.command} (pid {holder.pid})" for holder in board.holders())


def no_holders(board: GuardedBoard) -> Check:
    holders = holders_line(board)
    return Check.of(
        not holders, "no program holds the NPU", holders and f"held by {holders}; `ork board drain` first"
    )


def idle(board: GuardedBoard) -> Check:
    loads = board.loads()
    if loads is None:
        return Check("warn", "NPU idle", "the load cannot be read (debugfs needs root)")
    return Check.of(
        max(loads) <= 5, "NPU idle", f"load {', '.join(f'{load} %' for load in loads)}", otherwise="warn"
    )


def log_readable(board: GuardedBoard) -> Check:
    return Check.of(
        board.log_readable(), "the kernel log can be read", "its lines tell whether the reset happened"
    )


def resets_enabled(board: GuardedBoard) -> Check:
    for path in RESET_NODES:
        reading = board.files.read(path)
        if reading.ok:
            value = reading.text().strip()
            return Check.of(value == "on", "resets are enabled", f"{path} reads {value!r}")
    return Check(
        "warn", "resets are enabled", "unknown, debugfs needs root; a bypassed reset shows in the log"
    )


def cool(board: GuardedBoard) -> Check:
    """Full clocks on a hot board only make it throttle."""
    zones = board.paths().zones
    readings = board.files.read_many([f"{zone.path}/temp" for zone in zones]) if zones else []
    found = [
        (int(reading.text()) / 1000, zone.name)
        for zone, reading in zip(zones, readings, strict=True)
        if reading.ok and reading.text().strip().isdigit()
    ]
    if not found:
        return Check("warn", "the board is cool", "no temperature can be read")
    hottest, name = max(found)
    state = "fail" if hottest >= _HOT_C else "warn" if hottest >= _WARM_C else "pass"
    return Check(state, "the board is cool", f"{name} {hottest:.1f} C, allowed below {_HOT_C:.0f} C")


def mebibytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value / (1 << 20):.0f} MiB"
