"""How one sees in memory that a result is there, by format.

A job submitted without waiting reports nothing. So a pattern is written where the result will be, and
the result is there when the pattern is gone. Programs run strictly in order and rows end with their
last column, so for formats that cannot produce the pattern the last column of the last block suffices.
Where the pattern may be a legal result every element is looked at, and one that stays is accepted once
the core is known to be idle; another attempt uses another pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.memory import Slice

__all__ = ["COMPLETION", "Landing", "Region", "ResultWatch", "Watch"]


class Region(StrEnum):
    LAST_COLUMN = "last column of each row"
    SURFACE = "every element"


class Landing(StrEnum):
    """What of a result has come."""

    NONE = "none"
    PART = "part"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Watch:
    """``patterns`` are bits of one result element, one per attempt in turn; ``legal``: may be a result.

    ``drain``: the core must be idle before the result counts, whatever the pattern shows.
    """

    patterns: tuple[int, ...]
    region: Region
    legal: bool
    drain: bool = False


COMPLETION: Mapping[str, Watch] = MappingProxyType(
    {
        # Sums of K up to 8192 stay far below the pattern.
        "int8": Watch((0x7FFFFFFF,), Region.LAST_COLUMN, legal=False),
        # A NaN no sum of finite numbers has; overflow gives infinities, whose sum is another NaN.
        "fp16": Watch((0x7FFFFFFF,), Region.LAST_COLUMN, legal=True, drain=True),
        "fp16->fp16": Watch((0x7FFF, 0xFFFF), Region.SURFACE, legal=True, drain=True),
        "int4": Watch((0x7FFF, 0x8000), Region.SURFACE, legal=True),
        "int16": Watch((0x7FFFFFFF, 0x80000000), Region.SURFACE, legal=True),
        "int8->int8": Watch((0x7F, 0x80), Region.SURFACE, legal=True),
        "int8->int16": Watch((0x7FFF, 0x8000), Region.SURFACE, legal=True),
    }
)
"""By format name."""

_BITS: Mapping[int, type[np.generic]] = MappingProxyType({1: np.uint8, 2: np.uint16, 4: np.uint32})


class ResultWatch:
    """The pattern in one task's result, which the device writes to ``result``."""

    def __init__(self, plan: MatmulPlan, result: Slice) -> None:
        format: MatmulFormat = plan.format
        self.watch = COMPLETION[format.name]
        size = format.precision.output_bytes
        block = plan.blocks[-1]
        self._block = Slice(result.buffer, result.offset + block.start, plan.rows * block.width * size)
        elements = self._block.view.view(_BITS[size])
        if self.watch.region is Region.LAST_COLUMN:
            self._elements = elements.reshape(plan.rows, block.width)[:, -1]
            last = size * (block.width - 1)
            self.touched = Slice(result.buffer, self._block.offset + last, self._block.size - last)
        else:
            self._elements = elements
            self.touched = self._block
        self._pattern = self.watch.patterns[0]

    def seed(self, attempt: int = 0) -> None:
        """Write the pattern of an attempt; the caller cleans ``touched`` where memory is cached."""
        self._pattern = self.watch.patterns[attempt % len(self.watch.patterns)]
        self._elements[...] = self._pattern

    def landed(self) -> Landing:
        """What has come; the caller invalidates ``touched`` before where memory is cached."""
        if self._elements[-1] == self._pattern and len(self._elements) == 1:
            return Landing.NONE
        here = np.count_nonzero(self._elements != self._pattern)
        if here == 0:
            return Landing.NONE
        return Landing.ALL if here == len(self._elements) else Landing.PART
