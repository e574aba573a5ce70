"""NPU panel: per core a bar with its number, and a plot that scrolls to the left."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.sample import NpuCore, Sample
from orkbench_tui.ops.telemetry.wording import megahertz, percent
from orkbench_tui.screens.plots import bar, plot_rows
from orkbench_tui.screens.text_line import Line, Span, fit, join, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.next_step import next_step
from orkbench_tui.screens.views.section import panel, title

__all__ = ["npu_panel", "npu_summary", "why_no_load"]


def npu_summary(sample: Sample, state: ViewState) -> Line:
    """Clock, power and temperature of the NPU, as far as known."""
    clock, parts = sample.npu.clock, []
    if clock.hz is not None:
        of = f" of {megahertz(clock.max_hz)}" if clock.max_hz else ""
        parts.append(line((megahertz(clock.hz), "value"), (f"{of} MHz", "dim")))
    if clock.governor:
        parts.append(line((clock.governor, "dim")))
    celsius = sample.temperature("npu")
    if celsius is not None:
        parts.append(
            line((f"{celsius:.0f}", "value"), (f" {state.glyphs.degree}C".replace("  ", " "), "dim"))
        )
    if sample.npu.powered is not None:
        parts.append(line((f"power {'on' if sample.npu.powered else 'off'}", "dim")))
    return join(parts, Span(f" {state.glyphs.dot} ", "dim"))


def why_no_load(sample: Sample) -> str:
    """One sentence for a load that cannot be shown; "" when it can."""
    gap = sample.reason("npu.load")
    if gap is None:
        return ""
    if gap.reason == "denied":
        return f"load: no permission to read {gap.path} (root reads it)"
    if gap.reason == "absent":
        if sample.identity.driver == "rocket":
            return "load: the mainline rocket driver does not publish one"
        more = "is debugfs mounted?" if sample.identity.driver else "no NPU driver here"
        return f"load: {gap.path} does not exist; {more}"
    return f"load: {gap.path} is {gap.reason} {gap.errno}".rstrip()


def npu_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    if sample is None:
        return panel(
            title("NPU", (), width, glyphs),
            [line((" waiting for the first sample", "dim"))],
            width,
            height,
            glyphs,
        )
    body: list[Line] = []
    reason = why_no_load(sample)
    if reason:
        body.append(line((f" {glyphs.severity[3]} ", "warning"), (reason, "warning")))
    trouble, severity = next_step(sample, width - 4, glyphs.cut)
    if trouble and height >= 5:
        body.append(line((f" {glyphs.severity[severity]} {trouble}", severity.word)))
    cores = sample.npu.cores
    rows = max(1, (height - 1 - len(body)) // len(cores)) if cores else 0
    for core in cores:
        body += _core_lines(core, state, width, rows)
    return panel(title("NPU", npu_summary(sample, state), width, glyphs), body, width, height, glyphs)


def _core_lines(core: NpuCore, state: ViewState, width: int, rows: int) -> list[Line]:
    glyphs = state.glyphs
    # Neighbouring plots touch; two shades keep full cores apart.
    role = "npu_odd" if core.index % 2 else "npu"
    left = 34 if width < 100 else 44
    history = state.loads[core.index] if core.index < len(state.loads) else ()
    fraction = None if core.load_pct is None else core.load_pct / 100
    irq = "" if core.irq_per_s is None else f"{core.irq_per_s:.0f} irq/s"
    # The rate has a row of its own where there is one, and is worth a piece of the bar where there is none.
    beside = f"{irq:>11}" if rows == 1 and irq else ""
    filled, empty = bar(fraction, left - 16 - len(beside), glyphs)
    first = line(
        (f" core {core.index} ", "text"),
        (filled, role),
        (empty, "track"),
        (f" {percent(core.load_pct):>3} %", "value"),
        (beside, "dim"),
    )
    plot_width = max(0, width - left - 3)
    seen = [value for value in history[-plot_width:] if value is not None] if plot_width else []
    mean = f"mean {sum(seen) / len(seen):.0f} %" if seen else ""
    peak = f"peak {max(seen):.0f} %" if seen else ""
    second = line((f"        {mean:<11}{irq}", "dim"))
    third = line((f"        {peak}", "dim"))
    plot = plot_rows(history, plot_width, rows, glyphs)
    heads = [first, second, third] + [()] * rows
    return [
        (
            *fit(heads[row], left, glyphs.cut),
            Span(f" {glyphs.edge}", "rule"),
            Span(plot[row], role),
            Span(" "),
        )
        for row in range(rows)
    ]
