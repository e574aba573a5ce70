"""``rknpu/load``: busy percent per core over the last closed second."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["FULL_PCT", "CoreLoad", "parse_npu_load"]

FULL_PCT = 95
"""A core with so much load was busy for the whole window."""

# A 32-bit microsecond count that went below zero prints as about 2**32 / 10000 percent.
_UNDERFLOW_PCT = 429_000

_HEAD = re.compile(r"\s*NPU load:\s*", re.ASCII)
_SINGLE = re.compile(r"([0-9]{1,12})\s*%\s*,?\s*", re.ASCII)
_CORE = re.compile(r"\s*Core\s*([0-9]{1,2})\s*:\s*([0-9]{1,12})\s*%\s*,?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class CoreLoad:
    """One core. ``pct`` is 0..100, or None where the driver's counter had underflowed.

    ``raw_pct`` is what the driver printed; above 100 it is clamped (drivers before 0.9.7 do not clamp).
    """

    index: int
    pct: int | None
    raw_pct: int

    @property
    def clamped(self) -> bool:
        return self.pct is not None and self.raw_pct > 100


def parse_npu_load(text: str) -> tuple[CoreLoad, ...] | None:
    """Cores ordered by index; None when the text is not a load line."""
    head = _HEAD.match(text)
    if head is None:
        return None
    rest = text[head.end() :]
    if single := _SINGLE.fullmatch(rest):
        return (_core(0, int(single[1])),)
    cores: dict[int, CoreLoad] = {}
    position = 0
    while found := _CORE.match(rest, position):
        index = int(found[1])
        cores.setdefault(index, _core(index, int(found[2])))
        position = found.end()
    if not cores or rest[position:].strip():
        return None
    return tuple(cores[index] for index in sorted(cores))


def _core(index: int, raw: int) -> CoreLoad:
    return CoreLoad(index, None if raw >= _UNDERFLOW_PCT else min(raw, 100), raw)
