"""Conditions worth waking somebody for: one table, thresholds from the settings, hysteresis.

An alert begins when its condition has held for ``hold_s`` and ends when the value has come back past a second,
easier threshold, so a value that wavers at the edge gives one alert and not fifty. What is not known neither begins
nor ends one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import byte_size, duration
from orkbench_tui.plain_text import one_line

__all__ = ["ALERTS", "AlertRule", "Event", "Thresholds", "Watcher"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From the settings ``alert_*``. Celsius, percent of RAM in use, percent of CMA in use, seconds, seconds."""

    temperature_c: float = 85.0
    memory_pct: float = 95.0
    cma_pct: float = 100.0
    stuck_s: float = 5.0
    hung_s: float = 30.0


@dataclass(frozen=True, slots=True)
class AlertRule:
    """``value`` measures; the alert is on from ``begins`` up, off again at or below ``ends``.

    ``counts``: the value is a count that only grows; any growth is an alert, which ends when it has not grown for a minute.
    """

    id: str
    severity: Severity
    value: Callable[[Sample], float | None]
    say: Callable[[Sample, float], str]
    next_step: str
    begins: Callable[[Thresholds], float] = lambda _: 1.0
    ends: Callable[[Thresholds], float] = lambda _: 0.0
    hold_s: float = 0.0
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An alert that began, or with ``over`` ended. ``value`` is what was measured."""

    alert: str
    severity: Severity
    text: str
    next_step: str
    value: float
    unix_s: float
    over: bool = False


_QUIET_S = 60.0


def _hottest(sample: Sample) -> float | None:
    return max((item.celsius for item in sample.temperatures), default=None)


def _hottest_zone(sample: Sample, value: float) -> str:
    zone = next(item.zone for item in sample.temperatures if item.celsius == value)
    return f"{zone} is at {value:.0f} °C"


def _stuck(sample: Sample) -> float | None:
    return max((core.stuck_s for core in sample.npu.cores), default=None)


def _hung(sample: Sample) -> float:
    return max((holder.hung_s for holder in sample.holders), default=0.0)


def _hung_program(sample: Sample, value: float) -> str:
    holder = next(holder for holder in sample.holders if holder.hung_s == value)
    return f"{one_line(holder.command, 24)} ({holder.pid}) hangs in the kernel for {duration(value)}; no signal ends it"


def _memory(sample: Sample) -> float | None:
    memory = sample.memory
    if memory is None or not memory.total_bytes or memory.used_bytes is None:
        return None
    return 100.0 * memory.used_bytes / memory.total_bytes


def _memory_left(sample: Sample, value: float) -> str:
    left = sample.memory.available_bytes if sample.memory else None
    return f"RAM is {value:.0f} % in use, {byte_size(left)} left"


def _cma(sample: Sample) -> float | None:
    memory = sample.memory
    if memory is None or not memory.cma_total_bytes or memory.cma_free_bytes is None:
        return None
    return 100.0 * (1 - memory.cma_free_bytes / memory.cma_total_bytes)


def _gone(sample: Sample) -> float | None:
    return float(not sample.identity.driver)


def _no_load(sample: Sample) -> float | None:
    gap = sample.reason("npu.load")
    return float(bool(gap and gap.reason in ("failed", "invalid")))


def _log_count(name: str) -> Callable[[Sample], float | None]:
    def value(sample: Sample) -> float | None:
        return None if sample.resets is None else float(getattr(sample.log.facts, name))

    return value


def _forced(sample: Sample) -> float | None:
    return None if sample.resets is None else float(sample.resets.forced)


_E, _W, _C = Severity.ERROR, Severity.WARNING, Severity.CRITICAL

ALERTS: tuple[AlertRule, ...] = (
    AlertRule("npu.wedged", _C, _stuck, lambda _, v: f"an NPU core is busy for {duration(v)} and completes nothing",
              "`ork board recover`", lambda t: t.stuck_s, lambda _: 0.0),
    AlertRule("npu.hung", _E, _hung, _hung_program, "`ork board stuck`", lambda t: t.hung_s, lambda _: 0.0),
    AlertRule("npu.gone", _C, _gone, lambda *_: "the NPU driver is gone", "`ork board diagnose`", hold_s=2.0),
    AlertRule("npu.load.invalid", _W, _no_load, lambda *_: "the NPU's load can no longer be read", "`ork board diagnose`",
              hold_s=5.0),
    AlertRule("temperature", _E, _hottest, _hottest_zone, "stop work or cool the board",
              lambda t: t.temperature_c, lambda t: t.temperature_c - 5.0, hold_s=2.0),
    AlertRule("speed.capped", _W, lambda s: float(len(s.caps)) if s.cooling else None,
              lambda s, _: f"{s.caps[0].kind} takes speed away", "figures taken now are void; improve cooling", hold_s=2.0),
    AlertRule("memory.low", _E, _memory, _memory_left, "stop a program, or `ork board drop-caches`",
              lambda t: t.memory_pct, lambda t: t.memory_pct - 5.0, hold_s=5.0),
    AlertRule("cma.low", _W, _cma, lambda _, v: f"contiguous memory is {v:.0f} % in use", "`ork board drop-caches`",
              lambda t: t.cma_pct, lambda t: t.cma_pct - 5.0, hold_s=5.0),
    AlertRule("npu.job.timeout", _E, _log_count("hangs"), lambda _, v: f"an NPU job timed out ({v:.0f} since boot)",
              "`ork board log`", counts=True),
    AlertRule("npu.reset", _W, _forced, lambda _, v: f"the NPU was reset after a time-out ({v:.0f} since boot)",
              "`ork board log`", counts=True),
    AlertRule("npu.switch.timeout", _E, _log_count("switch_timeouts"),
              lambda _, v: f"a domain switch timed out ({v:.0f} since boot)", "`ork board stuck`", counts=True),
    AlertRule("npu.page_fault", _E, _log_count("page_faults"), lambda _, v: f"the NPU touched unmapped memory ({v:.0f} since boot)",
              "`ork board log`", counts=True),
    AlertRule("npu.leak", _E, _log_count("leaked_objects"), lambda _, v: f"the driver could not free buffers ({v:.0f} since boot)",
              "reboot when their sum is large", counts=True),
    AlertRule("kernel.oom", _C, _log_count("oom_kills"), lambda _, v: f"a program was ended because RAM ran out ({v:.0f} since boot)",
              "use a smaller model or context", counts=True),
    AlertRule("kernel.hung_task", _E, _log_count("hung_tasks"), lambda _, v: f"a program hangs in the kernel ({v:.0f} since boot)",
              "`ork board stuck`", counts=True),
)  # fmt: skip


@dataclass(slots=True)
class _State:
    on: bool = False
    over_since_s: float | None = None
    count: float | None = None
    grew_s: float = 0.0


class Watcher:
    """Takes samples of one board in order and tells which alerts begin and end."""

    def __init__(self, thresholds: Thresholds, rules: tuple[AlertRule, ...] = ALERTS) -> None:
        self._thresholds, self._rules = thresholds, rules
        self._states = {rule.id: _State() for rule in rules}
        self._boot_id = ""

    @property
    def active(self) -> tuple[str, ...]:
        return tuple(rule.id for rule in self._rules if self._states[rule.id].on)

    def take(self, sample: Sample) -> list[Event]:
        boot_id = sample.identity.boot_id
        if boot_id and self._boot_id and boot_id != self._boot_id:
            # Counts begin again, and what was counted before says nothing about this boot.
            for rule in self._rules:
                if rule.counts:
                    self._states[rule.id] = _State(count=0.0)
        self._boot_id = boot_id or self._boot_id
        events = []
        for rule in self._rules:
            value = rule.value(sample)
            if value is None:
                continue
            step = self._counted if rule.counts else self._measured
            change = step(rule, self._states[rule.id], value, sample.mono_s)
            if change is not None:
                events.append(_event(rule, sample, value, over=not change))
        return events

    def _measured(self, rule: AlertRule, state: _State, value: float, now_s: float) -> bool | None:
        """True when it begins, False when it ends, else None."""
        if state.on:
            if value <= rule.ends(self._thresholds):
                state.on, state.over_since_s = False, None
                return False
            return None
        if value < rule.begins(self._thresholds):
            state.over_since_s = None
            return None
        if state.over_since_s is None:
            state.over_since_s = now_s
        if now_s - state.over_since_s < rule.hold_s:
            return None
        state.on = True
        return True

    def _counted(self, rule: AlertRule, state: _State, value: float, now_s: float) -> bool | None:
        before, state.count = state.count, value
        # What the log held when watching began is history.
        if before is not None and value > before:
            state.grew_s = now_s
            began, state.on = not state.on, True
            return True if began else None
        if state.on and now_s - state.grew_s >= _QUIET_S:
            state.on = False
            return False
        return None


def _event(rule: AlertRule, sample: Sample, value: float, *, over: bool) -> Event:
    text = f"{rule.id} is over" if over else rule.say(sample, value)
    return Event(rule.id, rule.severity, text, rule.next_step, value, sample.unix_s, over)
