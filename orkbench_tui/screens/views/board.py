"""Board panel: memory, clocks that are nobody else's, temperatures, resets."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.headline import HOT_C
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import ago, clock_time, megahertz, of_total
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.plots import bar
from orkbench_tui.screens.text_line import Line, Span, foreign, join, line, width_of
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.gaps import caps_parts, gap_text, hidden_title, missing_title, more_rows
from orkbench_tui.screens.views.section import panel, title

__all__ = ["board_panel", "ddr_text", "resets_text", "temperature_parts"]


def resets_text(sample: Sample, glyphs: Glyphs) -> tuple[str, str]:
    """The count, with its mark where it is a lower bound, and the rest of the sentence."""
    resets = sample.resets
    if resets is None:
        return "?", f" kernel log {gap_text(sample, 'resets')}"
    value = f"{glyphs.at_least if resets.lower_bound else ''}{resets.value}"
    if resets.last_unix_s is None:
        return value, " since boot"
    last = f"{clock_time(resets.last_unix_s)}, {ago(resets.last_unix_s, sample.unix_s)}"
    return value, f", last {last}"


def ddr_text(sample: Sample) -> tuple[str, str]:
    ddr = sample.ddr
    if ddr is None or ddr.hz is None:
        return "?", f" {gap_text(sample, 'ddr.hz')}"
    of = f" of {megahertz(ddr.max_hz)}" if ddr.max_hz else ""
    load = f", load {ddr.load_pct} %" if ddr.load_pct is not None else ""
    return megahertz(ddr.hz), f"{of} MHz{load}"


def temperature_parts(sample: Sample, glyphs: Glyphs, room: int) -> Line:
    """Zones as far as ``room`` cells allow, the NPU's and the chip's first; hot ones with a mark."""
    if not sample.temperatures:
        return line(("?", "value"), (f" {gap_text(sample, 'temperatures')}", "dim"))
    order = {"npu": 0, "soc": 1}
    zones = sorted(sample.temperatures, key=lambda t: (order.get(t.zone, 2), -t.celsius))
    unit = f"{glyphs.degree}C".strip()
    spans: list[Span] = []
    for index, item in enumerate(zones):
        hot = item.celsius >= HOT_C
        name = foreign(item.zone).replace("core", "") or item.zone
        entry = [
            Span(f"{glyphs.severity[3] if hot else ''}{name} ", "warning" if hot else "dim"),
            Span(f"{item.celsius:.0f} ", "warning" if hot else "value"),
        ]
        left = len(zones) - index
        tail = len(unit) if left == 1 else len(f"{unit} +{left - 1}")
        if width_of([*spans, *entry]) + tail > room:
            return (*spans, Span(f"{unit} +{left}", "dim"))
        spans += entry
    return (*spans, Span(unit, "dim"))


def _gauge(label: str, used: int | None, total: int | None, width: int, glyphs: Glyphs) -> Line:
    fraction = None if used is None or not total else used / total
    filled, empty = bar(fraction, max(4, width - 26), glyphs)
    return line(
        (f" {label:<4} ", "dim"), (filled, "memory"), (empty, "track"), (f" {of_total(used, total)}", "text")
    )


def _jobs(sample: Sample, glyphs: Glyphs, room: int) -> Line:
    """Incidents in the kernel log, by the names of the JSON document, short where ``room`` is small."""
    if sample.resets is None:
        return line(("?", "value"), (f" kernel log {gap_text(sample, 'resets')}", "dim"))
    facts = sample.log.facts
    found = (
        ("hangs", "hang", facts.hangs, True),
        ("interrupted", "intr", facts.interrupted, False),
        ("switches", "switch", facts.switch_timeouts, True),
    )
    lines = [
        join(
            [_incident(names[short], value, bad, glyphs) for *names, value, bad in found],
            Span(gap),
        )
        for short, gap in ((0, "  "), (0, " "), (1, " "))
    ]
    return next((item for item in lines if width_of(item) <= room), lines[-1])


def _incident(name: str, value: int, bad: bool, glyphs: Glyphs) -> Line:
    role = "error" if bad and value else "value"
    mark = f"{glyphs.severity[4]}" if bad and value else ""
    return line((f"{name} ", "dim"), (f"{mark}{value}", role))


def board_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    if sample is None:
        return panel(title("Board", (), width, glyphs), [], width, height, glyphs)
    body: list[Line] = []
    memory = sample.memory
    if memory is None:
        body.append(line((" RAM  ", "dim"), ("?", "value"), (f" {gap_text(sample, 'memory')}", "dim")))
    else:
        body.append(_gauge("RAM", memory.used_bytes, memory.total_bytes, width, glyphs))
    if memory is not None and memory.cma_total_bytes is not None:
        free = memory.cma_free_bytes
        used = None if free is None else max(0, memory.cma_total_bytes - free)
        body.append(_gauge("CMA", used, memory.cma_total_bytes, width, glyphs))
    else:
        body.append(line((" CMA  ", "dim"), ("none", "text")))
    value, rest = ddr_text(sample)
    body.append(line((" DDR  ", "dim"), (value, "value"), (rest, "dim")))
    body.append((Span(" Temp ", "dim"), *temperature_parts(sample, glyphs, width - 7)))
    body.append((Span(" Jobs ", "dim"), *_jobs(sample, glyphs, width - 6)))
    value, rest = resets_text(sample, glyphs)
    # A reset that software asked for is no trouble; one that ended a hang is.
    quiet = sample.resets is not None and sample.resets.forced == 0
    mark = "" if quiet else f"{glyphs.severity[3]} "
    role = "value" if quiet else "warning"
    body.append(line((" Resets ", "dim"), (mark, "warning"), (value, role), (rest, "dim")))
    if len(body) + 1 >= height and sample.caps:
        # Without room for its own row a cap takes the DDR clock's.
        body[2] = (Span(" Caps ", "dim"), *caps_parts(sample))
    body += more_rows(sample, glyphs)
    right = missing_title(sample) or (hidden_title(sample) if len(body) >= height else ())
    return panel(title("Board", right, width, glyphs), body, width, height, glyphs)
