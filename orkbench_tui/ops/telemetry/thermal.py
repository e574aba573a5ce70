"""Thermal zones, told apart by their ``type`` and never by their number."""

from __future__ import annotations

import re

__all__ = ["parse_millicelsius", "zone_name"]

_NUMBER = re.compile(r"\s*(-?[0-9]{1,7})\s*", re.ASCII)
_RANGE_MC = (-55_000, 200_000)


def parse_millicelsius(text: str) -> float | None:
    """Degrees Celsius; None for damaged text and for values no sensor of these chips can mean."""
    found = _NUMBER.fullmatch(text)
    if found is None or not _RANGE_MC[0] <= int(found[1]) <= _RANGE_MC[1]:
        return None
    return int(found[1]) / 1000


def zone_name(kind: str) -> str:
    """``npu-thermal`` and ``npu_thermal`` as ``npu``; other types as they are."""
    name = kind.strip()
    for ending in ("-thermal", "_thermal"):
        if name.endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
