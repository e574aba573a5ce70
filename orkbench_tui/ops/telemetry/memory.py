"""``/proc/meminfo``."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Memory", "parse_meminfo"]

_LINE = re.compile(r"([A-Za-z_()0-9]{1,40}):\s+([0-9]{1,18})(\s+kB)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Memory:
    """Sizes in bytes; None where the kernel has no such line (no CMA area, no swap)."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    free_bytes: int | None = None
    cached_bytes: int | None = None
    cma_total_bytes: int | None = None
    cma_free_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None

    @property
    def used_bytes(self) -> int | None:
        """What programs could not get back: total less available."""
        if self.total_bytes is None or self.available_bytes is None:
            return None
        return max(0, self.total_bytes - self.available_bytes)


_FIELDS = {
    "MemTotal": "total_bytes",
    "MemAvailable": "available_bytes",
    "MemFree": "free_bytes",
    "Cached": "cached_bytes",
    "CmaTotal": "cma_total_bytes",
    "CmaFree": "cma_free_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}


def parse_meminfo(text: str) -> Memory:
    values: dict[str, int] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and (name := _FIELDS.get(found[1])):
            values[name] = int(found[2]) * (1024 if found[3] else 1)
    return Memory(**values)
