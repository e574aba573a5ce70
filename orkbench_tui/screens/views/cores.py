"""Every core over time: one line each, NPU cores and CPU cores, with clock and rates; and who holds the NPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import byte_size, megahertz, percent
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.plots import plot_rows
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.cpu import cpu_panel
from orkbench_tui.screens.views.npu import npu_summary, why_no_load
from orkbench_tui.screens.views.section import title

__all__ = ["cores_lines", "cores_spoken", "holder_rows"]

_HEAD = 31


def cores_lines(state: ViewState, chosen: int, width: int, height: int) -> list[Line]:
    """The page's body. ``chosen`` is a row of the processes."""
    glyphs, sample = state.glyphs, state.sample
    if sample is None:
        return [title("Cores", (), width, glyphs), line((" waiting for the first sample", "dim"))]
    least_users = 4
    npu, cpu = len(sample.npu.cores), len(sample.cores)
    spare = height - 3 - least_users - npu - cpu
    tall = 1 + (spare // (npu + cpu) if npu + cpu and spare > 0 else 0)
    lines = [title("NPU cores", npu_summary(sample, state), width, glyphs)]
    if reason := why_no_load(sample):
        lines.append(line((f" {glyphs.severity[3]} ", "warning"), (reason, "warning")))
    for core in sample.npu.cores:
        rate = "" if core.irq_per_s is None else f"{core.irq_per_s:.0f} jobs/s"
        head = line(
            (f" core {core.index:<2}", "text"),
            (f"{percent(core.load_pct):>4} %", "value"),
            (f"  {rate}", "dim"),
        )
        role = "npu_odd" if core.index % 2 else "npu"
        lines += _plotted(head, _series(state, _npu_load(core.index)), role, state, width, min(tall, 6))
    right = line((f"{sample.blocked_tasks} blocked", "warning")) if sample.blocked_tasks else ()
    if spare < 0:
        room = max(3, height - len(lines) - 1 - least_users)
        lines += cpu_panel(state, width, room)
    else:
        lines.append(title("CPU cores", right, width, glyphs))
        for group in sample.cpu:
            for cpu_core in group.cores:
                clock = "" if cpu_core.clock_hz is None else f"{megahertz(cpu_core.clock_hz)} MHz"
                head = line(
                    (f" {cpu_core.index:>2} {group.name:<7}"[:12], "text"),
                    (f"{percent(cpu_core.busy_pct):>3} %", "value"),
                    (f"  {clock}", "dim"),
                )
                lines += _plotted(
                    head, _series(state, _cpu_load(cpu_core.index)), "cpu", state, width, min(tall, 3)
                )
        if not sample.cpu:
            gap = sample.reason("cpu")
            lines.append(line((f" {gap.path} is {gap.reason}" if gap else " not known", "dim")))
    rows = holder_rows(sample, width)
    lines.append(
        title("Processes that hold the NPU", line((f"{len(rows)} seen by this user", "dim")), width, glyphs)
    )
    room = max(1, height - len(lines))
    if not rows:
        more = "; other users' descriptors need root" if sample.source == "board" else ""
        lines.append(line((" none visible", "text"), (more, "dim")))
    if rows and room > 1:
        lines.append(line((_COLUMNS, "dim")))
        room -= 1
    start = first_shown(chosen, len(rows), room)
    for index, row in enumerate(rows[start : start + room], start):
        mark = Span(glyphs.cursor if index == chosen and len(rows) > room else " ", "cursor")
        lines.append((mark, *row))
    return lines


_COLUMNS = "    pid  command          fds      memory   NPU buffers  jobs/s  node"


def holder_rows(sample: Sample, width: int) -> list[Line]:
    """A row for each process with the NPU open, or that says it uses it."""
    published = {item.pid: item for item in sample.occupancy.processes}
    rows = []
    held: dict[int, Holder] = {holder.pid: holder for holder in sample.holders}
    for pid in sorted({*published, *held}):
        item, holder = published.get(pid), held.get(pid)
        command = foreign(item.command if item else holder.command if holder else "") or "?"
        buffers = byte_size(sum(d.used_bytes for d in item.domains)) if item else "not visible"
        rate = sample.occupancy.submits_per_s.get(pid)
        fds = str(holder.descriptors) if holder else "?"
        memory = byte_size(holder.rss_bytes if holder else None)
        name = fit((Span(command, "value"),), 16)
        rows.append(
            (
                Span(f"{pid:>6}  ", "text"),
                *name,
                Span(
                    f" {fds:>3}  {memory:>10}  {buffers:>12}  {'' if rate is None else f'{rate:.0f}':>6}",
                    "text",
                ),
                Span(f"  {_node(holder, width)}", "dim"),
            )
        )
    return rows


def _node(holder: Holder | None, width: int) -> str:
    """Its path; where that has no room its name, which is what differs."""
    if holder is None:
        return "?"
    node = foreign(holder.node)
    return node if cell_len(_COLUMNS) - len("node") + cell_len(node) < width else node.rpartition("/")[2]


def _plotted(
    head: Line, values: Sequence[float | None], role: str, state: ViewState, width: int, rows: int
) -> list[Line]:
    glyphs = state.glyphs
    room = max(0, width - _HEAD - 3)
    plots = plot_rows(values[-room:] if room else (), room, rows, glyphs)
    seen = [value for value in values[-room:] if value is not None] if room else []
    second = (
        line((f"        mean {sum(seen) / len(seen):.0f} %  peak {max(seen):.0f} %", "dim")) if seen else ()
    )
    heads = [head, second, *[()] * rows]
    return [
        (
            *fit(heads[row], _HEAD, glyphs.cut),
            Span(f" {glyphs.edge}", "rule"),
            Span(plots[row], role),
            Span(" "),
        )
        for row in range(rows)
    ]


def _series(state: ViewState, value: Callable[[Sample], float | None]) -> list[float | None]:
    return [value(sample) for sample in state.history[-300:]]


def _npu_load(core: int) -> Callable[[Sample], float | None]:
    return lambda sample: next((c.load_pct for c in sample.npu.cores if c.index == core), None)


def _cpu_load(core: int) -> Callable[[Sample], float | None]:
    return lambda sample: next((c.busy_pct for c in sample.cores if c.index == core), None)


def cores_spoken(state: ViewState) -> list[str]:
    sample = state.sample
    if sample is None:
        return ["Cores: waiting for the first sample."]
    said = [f"NPU load: {why_no_load(sample)}."] if why_no_load(sample) else []
    for core in sample.npu.cores:
        rate = "" if core.irq_per_s is None else f", {core.irq_per_s:.0f} jobs a second"
        said.append(f"NPU core {core.index}: {percent(core.load_pct)} percent{rate}.")
    for group in sample.cpu:
        for cpu in group.cores:
            clock = "" if cpu.clock_hz is None else f", {megahertz(cpu.clock_hz)} MHz"
            said.append(f"CPU core {cpu.index}, {group.name}: {percent(cpu.busy_pct)} percent{clock}.")
    held = [" ".join("".join(span.text for span in row).split()) for row in holder_rows(sample, 100)]
    return [*said, f"Processes that hold the NPU: {len(held)}. Columns:{_COLUMNS}", *held]
