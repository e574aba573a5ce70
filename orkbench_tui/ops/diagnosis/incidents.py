"""Hangs as incidents: the four to six lines of one time-out as one record, and what came before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orkbench_tui.ops.diagnosis.readings import bounded_int
from orkbench_tui.ops.kernel_log.classify import Classified

__all__ = ["Hang", "hangs", "starved", "storm_hangs"]

_SAME_US = 1_000_000
_BLAMED_WITHIN_US = 200_000_000
_STORM = 4
_SHORT_STORM = 3
_SHORT_US = 60_000_000
_CORE_OF_NODE = {"fdab": 0, "fdac": 1, "fdad": 2}


@dataclass(frozen=True, slots=True)
class Hang:
    """``after`` names the kind of trouble that came shortly before: switch_timeout, page_fault or ""."""

    at_us: int | None
    cores: frozenset[int] = frozenset()
    raw: str = ""
    tasks: int | None = None
    after: str = ""
    lines: tuple[Classified, ...] = ()


def hangs(log: Sequence[Classified]) -> tuple[Hang, ...]:
    """Time-outs in the order of the log; interrupted waits are none."""
    found: list[Hang] = []
    waits: list[Classified] = []
    open_hang = False
    trouble: tuple[str, int | None] | None = None
    for item in log:
        kind, now = item.kind, item.record.ts_us
        if kind in ("switch_timeout", "page_fault"):
            trouble = (kind, now)
        elif item.rule is not None and item.rule.id == "npu.iommu.bus":
            trouble = ("page_fault", now)
        if kind == "wait":
            waits.append(item)
            if starved(item):
                trouble = ("switch_timeout", now)
        elif kind == "interrupted":
            waits, open_hang = [], False
        elif kind == "hang" or (kind == "timeout" and not (open_hang and _near(found[-1].at_us, now))):
            after = trouble[0] if trouble and _near(trouble[1], now, _BLAMED_WITHIN_US) else ""
            hang = Hang(now, after=after, lines=(*waits[-2:], item))
            for wait in waits:
                hang = _with_figures(hang, wait)
            found.append(_with_figures(hang, item))
            waits, open_hang = [], True
        elif kind in ("timeout", "core") and open_hang:
            found[-1] = _with_figures(replace(found[-1], lines=(*found[-1].lines, item)), item)
        elif kind == "reset" and open_hang:
            found[-1] = replace(found[-1], lines=(*found[-1].lines, item))
            open_hang = False
    return tuple(found)


def starved(item: Classified) -> bool:
    """Whether a wait line is of a job that never reached the NPU because another domain was active."""
    if item.rule is None or item.rule.id != "npu.job.uncommitted":
        return False
    ids = re.search(
        r"job iommu domain id: (-?\d{1,6}), dev iommu domain id: (-?\d{1,6})", item.record.message
    )
    return ids is not None and ids[1] != ids[2]


def _near(then: int | None, now: int | None, limit: int = _SAME_US) -> bool:
    return then is None or now is None or 0 <= now - then <= limit


def _with_figures(hang: Hang, item: Classified) -> Hang:
    figures = item.figures
    cores = set(hang.cores)
    if item.kind == "core" and (core := bounded_int(figures.get("core"))) is not None:
        # What a core reports is surer than the mask of the job.
        cores = {core} if not any(line.kind == "core" for line in hang.lines[:-1]) else cores | {core}
    elif mask := bounded_int(figures.get("mask")):
        cores |= {core for core in range(8) if mask >> core & 1}
    elif node := re.match(r"rocket (fda[bcd])", item.record.message):
        cores.add(_CORE_OF_NODE[node[1]])
    tasks = bounded_int((figures.get("tasks") or "").rstrip(","))
    return replace(
        hang,
        cores=frozenset(cores),
        raw=(figures.get("raw") or "").rstrip(",") or hang.raw,
        tasks=hang.tasks if tasks is None else tasks,
    )


def storm_hangs(log: Sequence[Classified], resets: int) -> tuple[Hang, ...]:
    """The hangs of a storm: four with resets, or three within a minute; else none."""
    found = tuple(hang for hang in hangs(log) if hang.after != "switch_timeout")
    if min(resets, len(found)) < _SHORT_STORM:
        return ()
    times = [hang.at_us for hang in found if hang.at_us is not None]
    short = any(b - a <= _SHORT_US for a, b in zip(times, times[2:], strict=False))
    return found if len(found) >= _STORM or short else ()
