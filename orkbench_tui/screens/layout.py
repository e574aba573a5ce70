"""Where panels stand for a terminal size. Pure, so that "nothing is clipped" can be tested for every size."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["COMPACT", "FULL", "Box", "Shape", "arrange", "shape_of"]

FULL = (80, 24)
COMPACT = (60, 15)


class Shape(Enum):
    FULL = "full"
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
    spare = height - FULL[1]
    cores = max(1, npu_cores)
    npu = 7 + cores * (spare // 2 // cores)
    middle = 7 + min(4, spare // 4)
    users = 4 + min(3, spare // 8)
    log = height - 2 - npu - middle - users
    left = width // 2
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
