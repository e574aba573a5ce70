"""Everything a frame shows, in one immutable value; views are functions of it and of a size."""

from __future__ import annotations

from dataclasses import dataclass, field

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.screens.glyphs import UNICODE, Glyphs

__all__ = ["ViewState"]


@dataclass(frozen=True, slots=True)
class ViewState:
    """``loads`` holds per NPU core the last busy percentages, oldest first.

    ``history`` are the samples taken, oldest first; ``lost`` is why the board does not answer, "" while it does;
    ``own_cpu_pct`` is what this program uses; ``work`` names what runs in the background, "" for nothing.
    """

    sample: Sample | None = None
    loads: tuple[tuple[float | None, ...], ...] = ()
    interval_s: float = 1.0
    frozen: bool = False
    stale: bool = False
    lost: str = ""
    notice: str = ""
    own_cpu_pct: float | None = None
    history: tuple[Sample, ...] = ()
    work: str = ""
    look: str = "dark"
    glyphs: Glyphs = field(default=UNICODE)
