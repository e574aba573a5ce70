"""The state a board was in, as data, and what makes a figure not comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orkbench_tui.runner.bench.measure import Repetition

__all__ = [
    "HOT_CELSIUS",
    "BoardState",
    "FileMark",
    "changes_during",
    "file_mark",
    "file_marks",
    "spoiled_reasons",
    "standing_reasons",
]

HOT_CELSIUS = 85.0
"""From here on the board's own tables lower its clocks."""

_PINNED = ("performance", "userspace")
# Other governors lower a clock by themselves, as soon as there is less to do.

CLOCK_STEP_S = 0.5
"""Wall and steady clock may drift apart by this much in one repetition."""


@dataclass(frozen=True, slots=True)
class BoardState:
    """Readings at one moment; what could not be read is None or missing.

    ``failed`` and ``unknown`` are the preflight's rows, empty where it did not run. Clocks in Hz by name
    (``npu``, ``ddr``, ``cpu A76`` …), governors by the same names, temperatures in degrees by zone.
    """

    label: str
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    preflight: bool = False
    governors: Mapping[str, str] = field(default_factory=dict)
    clocks: Mapping[str, int] = field(default_factory=dict)
    temperatures: Mapping[str, float] = field(default_factory=dict)
    kernel: str = ""
    board: str = ""
    resets: int | None = None

    @property
    def fit(self) -> bool | None:
        """None where no preflight ran."""
        return not self.failed if self.preflight else None

    @property
    def hottest(self) -> float | None:
        return max(self.temperatures.values(), default=None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "fit": self.fit,
            "failed": list(self.failed),
            "unknown": list(self.unknown),
            "governors": dict(self.governors),
            "clocks_hz": dict(self.clocks),
            "temperatures_c": dict(self.temperatures),
            "kernel": self.kernel or None,
            "board": self.board or None,
            "resets": self.resets,
        }


@dataclass(frozen=True, slots=True)
class FileMark:
    """Enough of a file to see that it is another one: size, time of change and inode."""

    path: str
    size: int
    changed_ns: int
    inode: int


def standing_reasons(state: BoardState) -> list[str]:
    """Why figures taken in this state are not comparable with others."""
    reasons = [f"the preflight failed: {', '.join(state.failed)}"] if state.failed else []
    if state.label == "sim":
        reasons.append("simulated board: the clock is this machine's, not a board's")
    if state.hottest is not None and state.hottest >= HOT_CELSIUS:
        reasons.append(f"{state.hottest:.0f} degrees at the start, clocks are lowered from {HOT_CELSIUS:.0f}")
    return reasons


def changes_during(
    before: BoardState,
    after: BoardState,
    files_before: tuple[FileMark, ...],
    files_after: tuple[FileMark, ...],
    clock_steps: tuple[float, ...],
) -> list[str]:
    """What happened while it ran that makes its figures not comparable.

    Args:
        clock_steps: seconds the wall clock moved against the steady one, for each repetition.
    """
    reasons = []
    for name, hz in before.clocks.items():
        now = after.clocks.get(name)
        pinned = name == "npu" or before.governors.get(name) in _PINNED
        if now is not None and now < hz and pinned:
            reasons.append(f"throttled: {name} fell from {hz / 1e6:.0f} to {now / 1e6:.0f} MHz")
    for name, governor in before.governors.items():
        if after.governors.get(name, governor) != governor:
            reasons.append(f"governor of {name} changed from {governor} to {after.governors[name]}")
    if after.hottest is not None and after.hottest >= HOT_CELSIUS > (before.hottest or 0):
        reasons.append(f"reached {after.hottest:.0f} degrees")
    if before.resets is not None and after.resets is not None and after.resets > before.resets:
        reasons.append(f"{after.resets - before.resets} NPU resets meanwhile")
    marks = {mark.path: mark for mark in files_after}
    reasons += [f"{mark.path} was changed meanwhile" for mark in files_before if marks.get(mark.path) != mark]
    steps = [step for step in clock_steps if abs(step) > CLOCK_STEP_S]
    if steps:
        reasons.append(f"the clock was set by {max(steps, key=abs):+.1f} s meanwhile")
    return reasons


def file_mark(path: Path) -> FileMark:
    """Raises OSError."""
    found = path.stat()
    return FileMark(str(path), found.st_size, found.st_mtime_ns, found.st_ino)


def file_marks(paths: Sequence[Path]) -> tuple[FileMark, ...]:
    marks = []
    for path in paths:
        try:
            marks.append(file_mark(path))
        except OSError:
            # Gone: differs from what it was.
            marks.append(FileMark(str(path), -1, 0, 0))
    return tuple(marks)


def spoiled_reasons(
    states: Sequence[BoardState],
    before: tuple[FileMark, ...],
    after: tuple[FileMark, ...],
    repetitions: Sequence[Repetition],
) -> list[str]:
    nothing = BoardState("host")
    first, last = (states[0], states[-1]) if states else (nothing, nothing)
    steps = tuple(repetition.clock_step_s for repetition in repetitions)
    return changes_during(first, last, before, after, steps)
