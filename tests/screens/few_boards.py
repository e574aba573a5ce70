"""Boards in every condition, the same in every run."""

from __future__ import annotations

from orkbench_tui.ops.remote.link import Condition, LinkState
from tests.screens.feed import samples

__all__ = ["STATES", "FewBoards"]

_SAMPLE = samples(3)[-1]
STATES = (
    LinkState("rock-5b", Condition.LIVE, _SAMPLE, "", 1000.0, 1),
    LinkState("root@10.0.0.7", Condition.UNREACHABLE, _SAMPLE, "Connection timed out", 880.0, 4),
    LinkState("lab-3", Condition.CONNECTING),
    LinkState(
        "a-board-with-a-very-long-name.example", Condition.UNREACHABLE, None, "x\x1b[31m" * 40, None, 9
    ),
)


class FewBoards:
    def states(self) -> tuple[LinkState, ...]:
        return STATES
