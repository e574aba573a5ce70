"""Every board by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from orkbench_tui.sim.boards import orange_pi_5_plus, rk3566, rk3576, rock_5b, rocket
from orkbench_tui.sim.boards.profile import BoardProfile

__all__ = ["BOARDS", "DEFAULT_BOARD", "profile_of"]

DEFAULT_BOARD = "rock-5b"

_MAKERS: dict[str, Callable[[], BoardProfile]] = {
    DEFAULT_BOARD: rock_5b.profile,
    "orange-pi-5-plus": orange_pi_5_plus.profile,
    "rk3576": rk3576.profile,
    "rk3566": rk3566.profile,
    "rocket": rocket.profile,
}

BOARDS = tuple(_MAKERS)


@cache
def profile_of(name: str) -> BoardProfile:
    """Raises KeyError for a board nobody has described."""
    return _MAKERS[name]()
