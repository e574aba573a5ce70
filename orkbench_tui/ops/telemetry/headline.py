"""The one word for a board's state, with its reason. Diagnosis goes further; this is what a glance needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.ops.kernel_log.counting import LogFacts
from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.stillness import STUCK_S
from orkbench_tui.ops.telemetry.wording import ago, duration
from orkbench_tui.plain_text import one_line

__all__ = ["HOT_C", "STORM_WORDS", "Headline", "caps_in_words", "headline", "lasting_trouble"]

HOT_C = 85.0
"""The NPU's own protection lowers its clock from here (stock RK3588 device tree)."""

STORM_WORDS = "running jobs fail each time"
_RECENT_S = 600.0

_STORM_WINDOW_S = 15.0
_STORM_RESETS = 5
"""Programs reset between precisions or at their start; this many within the window stop other people's jobs."""

_LASTING: tuple[tuple[Callable[[LogFacts], int], str, str], ...] = (
    (
        lambda facts: facts.unmap_warnings,
        "a mapping was not taken back: address space is lost until a reboot",
        "mappings were not taken back: address space is lost until a reboot",
    ),
    (
        lambda facts: facts.leaked_objects,
        "a buffer could not be freed: it is lost until a reboot",
        "buffers could not be freed: they are lost until a reboot",
    ),
    (lambda facts: facts.switch_timeouts, "a domain switch timed out", "domain switches timed out"),
    (
        lambda facts: facts.hung_tasks,
        "the kernel reports a task that hangs",
        "reports of a task that hangs in the kernel",
    ),
)


@dataclass(frozen=True, slots=True)
class Headline:
    """``word`` is OK, WARN, ERROR or NO NPU; ``reason`` is empty only for OK."""

    word: str
    severity: Severity
    reason: str = ""


def headline(sample: Sample) -> Headline:
    stuck = [core for core in sample.npu.cores if core.stuck_s >= STUCK_S]
    if stuck:
        names = ", ".join(str(core.index) for core in stuck)
        longest = duration(max(core.stuck_s for core in stuck))
        return Headline(
            "ERROR", Severity.ERROR, f"wedged: core {names} busy for {longest} and nothing completes"
        )
    facts = sample.log.facts
    if sample.uptime_s is not None and facts.last_hang_us is not None:
        age_s = sample.uptime_s - facts.last_hang_us / 1e6
        if age_s < _RECENT_S:
            return Headline("ERROR", Severity.ERROR, f"an NPU job timed out {duration(max(0.0, age_s))} ago")
    if not sample.npu.cores and not sample.identity.driver:
        return Headline("NO NPU", Severity.WARNING, "no NPU driver here")
    load = sample.reason("npu.load")
    if load is not None and sample.identity.driver == "rknpu":
        return Headline("WARN", Severity.WARNING, f"NPU load is {load.reason}: {load.path}")
    hot = max(sample.temperatures, key=lambda item: item.celsius, default=None)
    if hot is not None and hot.celsius >= HOT_C:
        return Headline("WARN", Severity.WARNING, f"{hot.zone} is at {hot.celsius:.0f} °C")
    if sample.caps:
        return Headline("WARN", Severity.WARNING, f"speed is capped: {caps_in_words(sample)}")
    lasting = lasting_trouble(facts)
    if lasting:
        return Headline("WARN", Severity.WARNING, lasting)
    stormy = _recent_resets(sample)
    if stormy >= _STORM_RESETS:
        return Headline(
            "WARN",
            Severity.WARNING,
            f"{stormy} NPU resets within {_STORM_WINDOW_S:.0f} s; {STORM_WORDS}",
        )
    # A single reset that software asked for is how a program puts the NPU into a known state, not trouble.
    resets = sample.resets
    if (
        resets
        and resets.forced
        and resets.last_unix_s is not None
        and sample.unix_s - resets.last_unix_s < _RECENT_S
    ):
        return Headline("WARN", Severity.WARNING, f"NPU reset {ago(resets.last_unix_s, sample.unix_s)}")
    if sample.warnings:
        return Headline("WARN", Severity.WARNING, sample.warnings[0])
    return Headline("OK", Severity.INFO)


def _recent_resets(sample: Sample) -> int:
    """Resets of the log rows that lie within the storm window, by each row's own rate; 0 while the time is unknown."""
    if sample.uptime_s is None:
        return 0
    begins_us = (sample.uptime_s - _STORM_WINDOW_S) * 1e6
    found = 0.0
    for row in sample.log.rows:
        if (
            row.rule_id != "npu.reset"
            or row.first_us is None
            or row.last_us is None
            or row.last_us < begins_us
        ):
            continue
        whole = row.last_us - row.first_us
        inside = row.last_us - max(begins_us, row.first_us)
        found += 1 + (row.count - 1) * (inside / whole if whole else 1.0)
    return int(found)


def lasting_trouble(facts: LogFacts) -> str:
    """What stays wrong until the next boot, however long ago it was said."""
    for count, one, more in _LASTING:
        if count(facts):
            return one if count(facts) == 1 else f"{count(facts)} {more}"
    return ""


def caps_in_words(sample: Sample) -> str:
    """``thermal-cpufreq-0 at 2 of 6``; "" when nothing is capped."""
    return ", ".join(
        f"{one_line(device.kind, 24)} at {device.state}"
        + (f" of {device.max_state}" if device.max_state is not None else "")
        for device in sample.caps
    )
