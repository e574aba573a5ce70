"""Clocks to their highest and back: NPU, DDR and CPU, from this board's own tables."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.operations.preflight import cool
from orkbench_tui.ops.operations.restore import steps_back

__all__ = ["GOVERNORS", "MODES"]

MODES = ("performance", "restore")


@dataclass(frozen=True, slots=True)
class _Clock:
    name: str
    node: str
    available: str
    speed: str


def _clocks(board: GuardedBoard) -> list[_Clock]:
    paths = board.paths()
    devices = [("NPU", paths.npu_devfreq), ("DDR", paths.ddr_devfreq)]
    clocks = [
        _Clock(name, f"{folder}/governor", f"{folder}/available_governors", f"{folder}/cur_freq")
        for name, folder in devices
        if folder
    ]
    for policy in paths.policies:
        cpus = ",".join(map(str, policy.cpus))
        node = f"{policy.path}/scaling_governor"
        available = f"{policy.path}/scaling_available_governors"
        clocks.append(_Clock(f"CPU {cpus}", node, available, f"{policy.path}/scaling_cur_freq"))
    return clocks


def plan(board: GuardedBoard, words: Words) -> Plan:
    mode = words.get("mode", "performance")
    if mode not in MODES:
        raise UsageError(f"mode {mode!r}", why=f"allowed: {', '.join(MODES)}")
    clocks = _clocks(board)
    facts = tuple(
        (clock.name, f"{board.text(clock.node) or 'unknown'} at {board.text(clock.speed) or 'unknown'}")
        for clock in clocks
    )
    if mode == "restore":
        steps, known = steps_back(board, "governors")
        return Plan(GOVERNORS, board.host, facts, (known,), steps, words=words)
    checks = [Check.of(bool(clocks), "clocks can be governed", f"{len(clocks)} found"), cool(board)]
    steps_up: list[Step] = []
    for clock in clocks:
        now = board.text(clock.node)
        offered = (board.text(clock.available) or "").split()
        if now is None or "performance" not in offered:
            offers = " ".join(offered) or "nothing"
            checks.append(Check("warn", f"{clock.name} has a performance governor", f"it offers {offers}"))
        elif now != "performance":
            steps_up.append(Step("write", clock.node, now, "performance", clock.name))
    return Plan(GOVERNORS, board.host, facts, tuple(checks), tuple(steps_up), words=words)


GOVERNORS = Operation(
    name="governors",
    title="set clock governors",
    risk=Risk.REVERSIBLE,
    why="a clock that follows the load starts each answer slowly and makes figures incomparable",
    root="the writes to the governor nodes",
    lasting="",
    plan=plan,
    options=(("mode", "performance, or restore to what stood before in this boot"),),
)
