"""Where panels stand for a terminal size. Pure, so that "nothing is clipped" can be tested for every size."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["COMPACT", "FULL", "MIDDLE", "Box", "Shape", "arrange", "shape_of"]

FULL = (80, 24)
MIDDLE = (60, 18)
COMPACT = (60, 15)

_MIDDLE_ROWS = 7
_NARROWEST_CPU = 27


class Shape(Enum):
    FULL = "full"
    MIDDLE = "middle"
    COMPACT = "compact"
    TOO_SMALL = "too small"


@dataclass(frozen=True, slots=True)
class Box:
    """Columns and rows from the top left corner."""

    x: int
    y: int
    width: int
    height: int


def shape_of(width: int, height: int) -> Shape:
    if width >= FULL[0] and height >= FULL[1]:
        return Shape.FULL
    if width >= MIDDLE[0] and height >= MIDDLE[1]:
        return Shape.MIDDLE
    if width >= COMPACT[0] and height >= COMPACT[1]:
        return Shape.COMPACT
    return Shape.TOO_SMALL


def arrange(width: int, height: int, npu_cores: int) -> dict[str, Box]:
    """Boxes by panel name; together they cover the terminal exactly once."""
    shape = shape_of(width, height)
    if shape is Shape.TOO_SMALL:
        return {"small": Box(0, 0, width, height)}
    if shape is Shape.COMPACT:
        return {
            "header": Box(0, 0, width, 1),
            "compact": Box(0, 1, width, height - 2),
            "footer": Box(0, height - 1, width, 1),
        }
    cores = max(1, npu_cores)
    npu, middle, users = _tall(height, cores) if height >= FULL[1] else _short(height, cores)
    log = height - 2 - npu - middle - users
    left = _cpu_width(width)
    top = 1 + npu
    return {
        "header": Box(0, 0, width, 1),
        "npu": Box(0, 1, width, npu),
        "cpu": Box(0, top, left, middle),
        "board": Box(left, top, width - left, middle),
        "users": Box(0, top + middle, width, users),
        "log": Box(0, top + middle + users, width, log),
        "footer": Box(0, height - 1, width, 1),
    }


def _tall(height: int, cores: int) -> tuple[int, int, int]:
    """Rows of the NPU, of CPU and board, and of the users; the log takes the rest."""
    spare = height - FULL[1]
    npu = 7 + cores * (spare // 2 // cores)
    return npu, _MIDDLE_ROWS + min(6, spare // 4), 4 + min(3, spare // 8)


def _short(height: int, cores: int) -> tuple[int, int, int]:
    """The same below 24 rows: a row per core and two when there is room, the users one row, then two."""
    log_least = 2
    users = 3 if height > MIDDLE[1] else 2
    room = height - 2 - _MIDDLE_ROWS - log_least
    npu = next((1 + cores * rows for rows in (2, 1) if 1 + cores * rows <= room - users - 1), room - users)
    return npu, _MIDDLE_ROWS, users


def _cpu_width(width: int) -> int:
    """Half; on narrow terminals less, for the board's rows are the longer ones."""
    if width >= FULL[0]:
        return width // 2
    span = FULL[0] - MIDDLE[0]
    return _NARROWEST_CPU + (width - MIDDLE[0]) * (FULL[0] // 2 - _NARROWEST_CPU) // span
