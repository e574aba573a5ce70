"""Readings in a person's words and units; one way to say each thing, for screens and commands alike."""

from __future__ import annotations

import time

__all__ = [
    "ago",
    "byte_size",
    "clock_time",
    "duration",
    "megahertz",
    "of_total",
    "percent",
    "source_in_words",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
UNKNOWN = "?"


def _scaled(value: float, unit: int) -> str:
    scaled = value / 1024**unit
    return f"{scaled:.0f}" if unit == 0 or scaled >= 100 else f"{scaled:.1f}"


def _unit(value: float) -> int:
    unit = 0
    while unit < len(_UNITS) - 1 and value >= 1024 ** (unit + 1) * 0.9995:
        unit += 1
    return unit


def byte_size(value: int | None) -> str:
    """``312 MiB``; ``?`` for unknown."""
    if value is None:
        return UNKNOWN
    unit = _unit(value)
    return f"{_scaled(value, unit)} {_UNITS[unit]}"


def of_total(used: int | None, total: int | None) -> str:
    """``11.2 of 31.0 GiB``, both in the unit of the total."""
    if used is None or total is None:
        return f"{byte_size(used)} of {byte_size(total)}"
    unit = _unit(total)
    return f"{_scaled(used, unit)} of {_scaled(total, unit)} {_UNITS[unit]}"


def megahertz(hz: int | None) -> str:
    """MHz as a bare number."""
    return UNKNOWN if hz is None else f"{round(hz / 1e6)}"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h``, ``2 d``."""
    for limit, size, name in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds / 86400:.0f} d"


def ago(then_unix_s: float, now_unix_s: float) -> str:
    return f"{duration(max(0.0, now_unix_s - then_unix_s))} ago"


def clock_time(unix_s: float) -> str:
    """Local wall-clock time, ``14:02:11``."""
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def source_in_words(source: str, detail: str = "") -> str:
    """``board``; ``the simulated board, pace fast``; ``a recording, 12 of 300``; ``board, at host``."""
    words = {"sim": "the simulated board", "replay": "a recording"}.get(source, source)
    if source == "sim" and detail:
        return f"{words}, pace {detail}"
    return f"{words}, {detail}" if detail else words
