"""The readings of one batch, and the record of what is missing from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from orkbench_tui.ops.files import Access, Reading
from orkbench_tui.ops.telemetry.sample import Unavailable

__all__ = ["Gaps"]

T = TypeVar("T")

# What to report when several places were tried: a refusal says more than an absence.
_TELLING = {Access.DENIED: 0, Access.FAILED: 1, Access.ABSENT: 2, Access.PRESENT: 3}


class Gaps:
    """Looks readings up by path and notes every field that ends up without a value."""

    def __init__(self, readings: Mapping[str, Reading]) -> None:
        self._readings = readings
        self._unavailable: list[Unavailable] = []
        self._warnings: list[str] = []

    def reading(self, path: str) -> Reading:
        return self._readings.get(path, Reading(path, Access.ABSENT, errno_name="ENOENT"))

    def first(self, paths: Sequence[str]) -> Reading:
        """The first readable of several places, else the most telling failure."""
        readings = [self.reading(path) for path in paths]
        return next((r for r in readings if r.ok), min(readings, key=lambda r: _TELLING[r.access]))

    def value(self, field: str, path: str, parse: Callable[[str], T | None]) -> T | None:
        """The parsed content of ``path``, or None with the reason noted."""
        reading = self.reading(path)
        if not reading.ok:
            self.missing(field, reading)
            return None
        value = parse(reading.text())
        if value is None:
            self.invalid(field, path)
        return value

    def missing(self, field: str, reading: Reading) -> None:
        self._unavailable.append(Unavailable(field, reading.access.value, reading.path, reading.errno_name))

    def absent(self, field: str, path: str) -> None:
        self._unavailable.append(Unavailable(field, "absent", path, "ENOENT"))

    def invalid(self, field: str, path: str) -> None:
        self._unavailable.append(Unavailable(field, "invalid", path))

    def pending(self, field: str, path: str) -> None:
        self._unavailable.append(Unavailable(field, "pending", path))

    def warn(self, text: str) -> None:
        self._warnings.append(text)

    def unavailable(self) -> tuple[Unavailable, ...]:
        return tuple(self._unavailable)

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)
