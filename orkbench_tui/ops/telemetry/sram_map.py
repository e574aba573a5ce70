"""``rknpu/mm``: which chunks of on-chip memory the NPU's driver has handed out."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["SramMap", "parse_mm"]

_CHUNK = 4096
_ROW = re.compile(r"\[\d{3,6}\] \[([*.]+)\]")
_SUM = re.compile(r"SRAM total size: (\d{1,12}), used: (\d{1,12}), free: (\d{1,12})")


@dataclass(frozen=True, slots=True)
class SramMap:
    """``longest_free_bytes`` is the largest run; ``consistent`` whether the marks add up to the printed sums."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    longest_free_bytes: int
    consistent: bool


def parse_mm(text: str) -> SramMap | None:
    """The driver's bitmap; None when it has none (empty output, damaged text)."""
    found = _SUM.search(text)
    marks = "".join(_ROW.findall(text))
    if found is None or not marks:
        return None
    total, used, free = (int(number) for number in found.groups())
    longest = max(map(len, re.findall(r"\.+", marks)), default=0) * _CHUNK
    consistent = marks.count("*") * _CHUNK == used and len(marks) * _CHUNK == total and used + free == total
    return SramMap(total, used, free, longest, consistent)
