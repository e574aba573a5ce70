"""A sample as plain text: the page of ``ork board status`` and the lines of ``ork board watch``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from orkbench_tui.ops.kernel_log.rules import without_prefix
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.sample import Clock, Sample, Unavailable
from orkbench_tui.ops.telemetry.wording import (
    ago,
    byte_size,
    clock_time,
    megahertz,
    of_total,
    percent,
    source_in_words,
)
from orkbench_tui.plain_text import one_line
from orkbench_tui.plural import counted

__all__ = ["STATUS_COLUMNS", "STATUS_LINES", "status_lines", "watch_head", "watch_line", "watch_source"]

STATUS_LINES = 24
STATUS_COLUMNS = 80

_MAX_USERS = 4
_MAX_UNFINISHED = 2
_MAX_LOG = 3


def status_lines(sample: Sample, columns: int = STATUS_COLUMNS, unfinished: Sequence[str] = ()) -> list[str]:
    """At most 24 lines of at most ``columns`` characters. ``unfinished`` are operations that were interrupted."""
    head = headline(sample)
    identity = sample.identity
    driver = f"{identity.driver} {identity.driver_version}".strip() or "no NPU driver"
    lines = [
        _field("board", f"{identity.hostname or '?'}: {identity.model or identity.soc or 'unknown model'}"),
        _field(
            "source",
            f"{source_in_words(sample.source, sample.source_detail)}, kernel {identity.kernel or '?'}, {driver}",
        ),
        _field("state", f"{head.word}: {head.reason}" if head.reason else head.word),
        *(_field("unfinished", one_line(text, 1000)) for text in unfinished[:_MAX_UNFINISHED]),
        _field("NPU load", _npu_load(sample)),
        _field("NPU clock", _clock(sample, sample.npu.clock, "npu.clock.hz")),
    ]
    for group in sample.cpu:
        loads = " ".join(percent(core.busy_pct) for core in group.cores)
        clocks = "/".join(megahertz(clock.hz) for clock in group.clocks if clock.hz is not None)
        lines.append(_field(f"CPU {group.name}"[:11], f"{loads} %" + (f" at {clocks} MHz" if clocks else "")))
    if not sample.cpu:
        lines.append(_field("CPU", _why(sample.reason("cpu"))))
    memory = sample.memory
    if memory is None:
        lines.append(_field("memory", _why(sample.reason("memory"))))
    else:
        text = f"{of_total(memory.used_bytes, memory.total_bytes)} used"
        if memory.swap_total_bytes and memory.swap_free_bytes is not None:
            text += f"; swap {byte_size(memory.swap_total_bytes - memory.swap_free_bytes)}"
        if memory.cma_total_bytes is not None and memory.cma_free_bytes is not None:
            used = memory.cma_total_bytes - memory.cma_free_bytes
            text += f"; CMA {of_total(used, memory.cma_total_bytes)} used"
        lines.append(_field("memory", text))
    lines.append(_field("DDR clock", _clock(sample, sample.ddr or Clock(), "ddr.hz")))
    if sample.dma_bufs is not None and sample.dma_bufs.objects:
        text = f"{sample.dma_bufs.objects} buffers, {byte_size(sample.dma_bufs.bytes)}"
        lines.append(_field("shared", text))
    if sample.sram is not None:
        text = f"{of_total(sample.sram.used_bytes, sample.sram.total_bytes)} used"
        lines.append(_field("NPU SRAM", text))
    wrapped = textwrap.wrap(_temperatures(sample), max(columns - 13, 10))[:2]
    lines += [_field("" if index else "temperature", text) for index, text in enumerate(wrapped)]
    lines.append(_field("NPU resets", _resets(sample)))
    lines += _users(sample)
    lines += _log(sample)
    return [_cut(text, columns) for text in lines[:STATUS_LINES]]


def _field(name: str, value: str) -> str:
    return f"{name:<12} {value}"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "…"


def _why(gap: Unavailable | None) -> str:
    if gap is None:
        return "?"
    return f"? ({gap.reason}: {gap.path}{' ' + gap.errno if gap.errno else ''})"


def _npu_load(sample: Sample) -> str:
    gap = sample.reason("npu.load")
    if gap is not None:
        return _why(gap)
    return ", ".join(
        f"core {core.index} {percent(core.load_pct)} %"
        + ("" if core.hw_busy_pct is None else f" (jobs {core.hw_busy_pct:.1f} %)")
        for core in sample.npu.cores
    )


def _clock(sample: Sample, clock: Clock, field: str) -> str:
    if clock.hz is None:
        return _why(sample.reason(field))
    text = f"{megahertz(clock.hz)}"
    if clock.max_hz:
        text += f" of {megahertz(clock.max_hz)}"
    text += " MHz"
    if clock.governor:
        text += f", {clock.governor}"
    return text + (f", load {clock.load_pct} %" if clock.load_pct is not None and field == "ddr.hz" else "")


def _temperatures(sample: Sample) -> str:
    if not sample.temperatures:
        return _why(sample.reason("temperatures"))
    zones = sorted(sample.temperatures, key=lambda t: (t.zone != "npu", t.zone != "soc"))
    return ", ".join(f"{one_line(t.zone, 20)} {t.celsius:.0f}" for t in zones) + " °C"


def _resets(sample: Sample) -> str:
    resets = sample.resets
    if resets is None:
        return _why(sample.reason("resets"))
    text = f"{'at least ' if resets.lower_bound else ''}{resets.value} in the kernel log"
    if resets.last_unix_s is not None:
        text += f", last {clock_time(resets.last_unix_s)} ({ago(resets.last_unix_s, sample.unix_s)})"
    if resets.value and not resets.forced:
        text += ", by software"
    hangs = sample.log.facts.hangs
    return text + (f"; {hangs} jobs timed out" if hangs else "")


def _users(sample: Sample) -> list[str]:
    texts = []
    for item in sample.occupancy.processes:
        rate = sample.occupancy.submits_per_s.get(item.pid)
        jobs = counted(item.counters.submits, "submit") + (f", {rate:.0f}/s" if rate else "")
        for domain in item.domains:
            window = (
                f"domain {domain.id}: {byte_size(domain.used_bytes)} of {byte_size(domain.capacity_bytes)}"
            )
            texts.append(f"{item.pid} {one_line(item.command, 24)}, {window}, {jobs}")
        if not item.domains:
            texts.append(f"{item.pid} {one_line(item.command, 24)}, {jobs}")
    known = {item.pid for item in sample.occupancy.processes}
    for holder in sample.holders:
        if holder.pid not in known:
            texts.append(f"{holder.pid} {one_line(holder.command, 24)}, {holder.node}, occupancy not visible")
    if len(texts) > _MAX_USERS:
        texts = [*texts[: _MAX_USERS - 1], f"and {len(texts) - _MAX_USERS + 1} more (--json lists all)"]
    return [
        _field("NPU users" if index == 0 else "", text)
        for index, text in enumerate(texts or ["none visible"])
    ]


def _log(sample: Sample) -> list[str]:
    rows = [row for row in sample.log.rows if row.severity > 0][-_MAX_LOG:]
    return [
        _field(
            "kernel log" if index == 0 else "",
            f"{row.severity.word}: {one_line(without_prefix(row.message))}",
        )
        for index, row in enumerate(rows)
    ]


_WATCH_FORM = "{time:<8}  {npu:<11}  {cpu:<11} {memory:<9} {clock:<8} {heat:<7} {resets:<6} {users}"


def watch_head(sample: Sample) -> str:
    """Column names for ``watch_line``."""
    names = "/".join(group.name for group in sample.cpu) or "CPU"
    return _WATCH_FORM.format(
        time="time",
        npu="NPU %",
        cpu=f"{names} %"[:11],
        memory="RAM used",
        clock="NPU MHz",
        heat="NPU °C",
        resets="resets",
        users="submits/s",
    )


def watch_source(sample: Sample) -> str:
    """A line for sources that are not the board here; "" for that."""
    if sample.source == "board" and not sample.source_detail:
        return ""
    return f"source: {source_in_words(sample.source, sample.source_detail)}"


def watch_line(sample: Sample) -> str:
    """One sample on one line of at most 80 characters; ``?`` for what is not known."""
    groups = []
    for group in sample.cpu:
        known = [core.busy_pct for core in group.cores if core.busy_pct is not None]
        groups.append(f"{sum(known) / len(known):.0f}" if known else "?")
    heat = sample.temperature("npu", "soc")
    resets = sample.resets
    rates = sample.occupancy.submits_per_s
    return _WATCH_FORM.format(
        time=clock_time(sample.unix_s),
        npu=" ".join(f"{percent(core.load_pct):>3}" for core in sample.npu.cores) or "?",
        cpu="/".join(groups) or "?",
        memory=byte_size(sample.memory.used_bytes) if sample.memory else "?",
        clock=megahertz(sample.npu.clock.hz),
        heat="?" if heat is None else f"{heat:.0f}",
        resets="?" if resets is None else f"{'>=' if resets.lower_bound else ''}{resets.value}",
        users=f"{sum(rates.values()):.0f}" if rates else "-",
    )[:STATUS_COLUMNS].rstrip()
