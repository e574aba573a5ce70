"""How busy NPU and CPU cores are while a model runs.

The NPU's own figure is the busy share of its last closed second. A reading within the first second of a
phase therefore speaks of what was before it, and is left out; a phase that gives no whole window has no
figure. CPU shares are differences of tick counts over the whole phase, which no window blurs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orkbench_tui.runner.overlap.predict import reference_tables

__all__ = ["WINDOW_S", "Phase", "Reading", "Recorder", "phase_of", "utilization_lines"]

WINDOW_S = 1.0
"""Length of the NPU driver's own window."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look. ``npu``: percent per core, None where it could not be read; ``cpu``: busy and idle ticks."""

    at_s: float
    npu: tuple[int | None, ...]
    cpu: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Phase:
    """``npu``: mean percent per core, None without a whole window in the phase; ``cpu`` likewise by number.

    ``series`` holds (seconds since the phase began, NPU percent per core) of the readings that count.
    """

    name: str
    seconds: float
    tokens_per_s: float
    npu: tuple[float | None, ...]
    cpu: Mapping[int, float]
    readings: int
    series: tuple[tuple[float, tuple[int | None, ...]], ...] = ()
    npu_label: str = ""
    cpu_label: str = ""

    @property
    def lines(self) -> list[tuple[str, list[tuple[float, float]]]]:
        """The series core by core, readings that are unknown left out."""
        return [
            (
                f"core {core}",
                [(at, float(share)) for at, npu in self.series if (share := _at(npu, core)) is not None],
            )
            for core in range(len(self.npu))
        ]

    @property
    def hot_core(self) -> int | None:
        """A CPU core twice as busy as the mean of the cores that work, if there is one: it holds the others up."""
        working = {core: share for core, share in self.cpu.items() if share >= 5}
        if len(working) < 2:
            return None
        core = max(working, key=lambda c: working[c])
        return core if working[core] > 2 * sum(working.values()) / len(working) else None


@dataclass(slots=True)
class Recorder:
    """Reads at a steady period on a thread of its own, between ``start`` and ``stop``.

    ``failures`` counts readings that raised; a board that goes away must not end the run.
    """

    read: Callable[[], Reading]
    period_s: float = 0.150
    readings: list[Reading] = field(default_factory=list)
    failures: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Recorder:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="utilization", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._take()

    def _take(self) -> None:
        try:
            self.readings.append(self.read())
        except Exception:  # noqa: BLE001 - whatever ails the board is told by the run itself
            self.failures += 1

    def _run(self) -> None:
        self._take()
        while not self._stop.wait(self.period_s):
            self._take()


def phase_of(
    name: str,
    readings: Sequence[Reading],
    began_s: float,
    ended_s: float,
    tokens_per_s: float,
    *,
    npu_label: str,
    cpu_label: str,
) -> Phase:
    """What the readings between two moments come to."""
    inside = [reading for reading in readings if began_s <= reading.at_s <= ended_s]
    windows = [reading for reading in inside if reading.at_s >= began_s + WINDOW_S]
    cores = max((len(reading.npu) for reading in inside), default=0)
    shares: list[float | None] = []
    for core in range(cores):
        known = [r.npu[core] for r in windows if core < len(r.npu) and r.npu[core] is not None]
        shares.append(sum(value for value in known if value is not None) / len(known) if known else None)
    return Phase(
        name=name,
        seconds=ended_s - began_s,
        tokens_per_s=tokens_per_s,
        npu=tuple(shares),
        cpu=_cpu_shares(inside),
        readings=len(inside),
        series=tuple((reading.at_s - began_s, reading.npu) for reading in windows),
        npu_label=npu_label,
        cpu_label=cpu_label,
    )


def _cpu_shares(readings: Sequence[Reading]) -> dict[int, float]:
    if len(readings) < 2:
        return {}
    first, last = readings[0].cpu, readings[-1].cpu
    shares = {}
    for core, (busy, idle) in last.items():
        if core not in first:
            continue
        spent, rested = busy - first[core][0], max(idle - first[core][1], 0)
        if spent >= 0 and spent + rested > 0:
            shares[core] = 100 * spent / (spent + rested)
    return shares


def utilization_lines(phases: Sequence[Phase]) -> list[str]:
    """The table of the second roadmap document: ours, its own two rows, and a 7B as predicted with and without overlap."""
    head = "{:<30} {:>9}  {:<22} {:<28} {}"
    lines = [head.format("", "t/s", "NPU cores %", "CPU %, busiest first", "figures")]
    for phase in phases:
        npu = " / ".join(_percent(share) for share in phase.npu) or "unknown"
        top = sorted(phase.cpu.items(), key=lambda item: -item[1])[:4]
        cpu = "  ".join(f"cpu{core} {share:.0f}" for core, share in top) or "unknown"
        labels = f"NPU {phase.npu_label}, t/s and CPU {phase.cpu_label}"
        lines.append(head.format(phase.name, f"{phase.tokens_per_s:.1f}", npu, cpu, labels))
        if phase.hot_core is not None:
            lines.append(f"  cpu{phase.hot_core} is more than twice as busy as the others: it holds them up")
        if all(share is None for share in phase.npu):
            lines.append("  no NPU figure: the phase is shorter than two of the driver's windows of 1 s")
    published = (
        ("ork, 7B pp512", "45.3", "38 / 40 / 41", "cpu7 56  cpu5 20  cpu6 20  cpu4 14"),
        ("closed runtime, 7B", "68.8", "66 / 64 / 64", "cpu4 36  cpu5 27  cpu6 27  cpu7 21"),
    )
    lines += [head.format(*row, "published") for row in published]
    for table, costs in zip(reference_tables(), ("published stack", "this driver"), strict=True):
        for shares in (table.serial, table.overlapped):
            npu = " / ".join(f"{100 * core:.0f}" for core in shares.cores)
            name, cpu = f"7B {shares.name}, {costs}", f"all {100 * shares.cpu:.0f}"
            lines.append(head.format(name, f"{shares.tokens_per_s:.1f}", npu, cpu, "predicted"))
    return lines


def _at(shares: tuple[int | None, ...], core: int) -> int | None:
    return shares[core] if core < len(shares) else None


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.0f}"
