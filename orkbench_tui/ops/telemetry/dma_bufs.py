"""``dma_buf/bufinfo``: buffers shared between devices, as a total over all programs."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DmaBufs", "parse_bufinfo"]

_TOTAL = re.compile(r"Total ([0-9]{1,12}) objects?, ([0-9]{1,18}) bytes", re.ASCII)


@dataclass(frozen=True, slots=True)
class DmaBufs:
    objects: int
    bytes: int


def parse_bufinfo(text: str) -> DmaBufs | None:
    """The last line's totals; None without one."""
    found = _TOTAL.search(text, max(0, text.rfind("Total ")))
    return DmaBufs(int(found[1]), int(found[2])) if found else None
