"""Own benchmark results over time, and the published figures beside what the timing model predicts.

Every figure says where it is from: measured and host are this ledger's, published others', predicted the model's.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orkbench_tui.driver.timing.reproduction import Comparison
from orkbench_tui.runner.bench.history import series_of
from orkbench_tui.runner.bench.kept_comparisons import KeptComparison
from orkbench_tui.runner.bench.record import Row
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.plots import bar, plot_rows
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.arms import arms_spoken, compared_lines
from orkbench_tui.screens.views.section import title

__all__ = ["BenchShown", "bench_lines", "bench_spoken", "next_view", "row_count"]

_DETAILS = 6


@dataclass(frozen=True, slots=True)
class BenchShown:
    """``own`` newest first; ``published`` shows those instead of own results, ``compared`` the kept comparisons of
    two arms. ``note`` says what is wrong."""

    own: tuple[Row, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    arms: tuple[KeptComparison, ...] = ()
    published: bool = False
    compared: bool = False
    chosen: int = 0
    note: str = ""


def next_view(shown: BenchShown) -> BenchShown:
    """Own results, published figures, comparisons where there are any, and own results again."""
    compared = shown.published and bool(shown.arms)
    return replace(shown, published=not shown.published and not shown.compared, compared=compared, chosen=0)


def row_count(shown: BenchShown) -> int:
    if shown.compared:
        return sum(len(kept.verdicts) for kept in shown.arms)
    return len(shown.comparisons if shown.published else shown.own)


def bench_lines(shown: BenchShown, state: ViewState, width: int, height: int) -> list[Line]:
    if shown.compared:
        return compared_lines(shown.arms, shown.chosen, state, width, height)
    name = "Published figures and predictions" if shown.published else "Own results"
    other = ("comparisons" if shown.arms else "own results") if shown.published else "published figures"
    right = line((f"{row_count(shown)} rows", "dim"), (f" {state.glyphs.dot} o: {other}", "dim"))
    lines = [title(f"Bench {state.glyphs.dot} {name}", right, width, state.glyphs)]
    if shown.note:
        lines += [line((f" {part}", "notice")) for part in textwrap.wrap(foreign(shown.note), width - 2)]
    if not row_count(shown):
        said = (
            " reading"
            if shown.published
            else " no results yet; `ork run bench` times prompts and answers and keeps them"
        )
        return [*lines, line((said, "text"))]
    chosen = min(shown.chosen, row_count(shown) - 1)
    details = (
        _compared(shown.comparisons[chosen], state, width)
        if shown.published
        else _own(shown.own[chosen], shown.own, state, width)
    )
    room = max(1, height - len(lines) - 2 - len(details))
    lines.append(line((_COMPARED_HEAD if shown.published else _OWN_HEAD, "dim")))
    start = first_shown(chosen, row_count(shown), room)
    for index in range(start, min(start + room, row_count(shown))):
        row = _comparison(shown.comparisons[index]) if shown.published else _result(shown.own[index])
        if index == chosen:
            row = fit(
                (Span(state.glyphs.cursor + plain(row)[1:], "cursor"),), width, state.glyphs.cut, "cursor"
            )
        lines.append(row)
    lines += [()] * (height - len(lines) - 1 - len(details))
    return [*lines, title("Chosen", (), width, state.glyphs), *details]


_OWN_HEAD = " when              test           tok/s      +-  from       model"
_COMPARED_HEAD = " figure   what                        published   predicted     off  unit"


def _result(row: Row) -> Line:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.taken_unix_s))
    mean = "-" if row.mean is None else f"{row.mean:.2f}"
    spread = "-" if row.sd is None else f"{row.sd:.2f}"
    return line(
        (f" {when}  ", "dim"),
        (f"{row.case.test:<12}", "value"),
        (f"{mean:>8}{spread:>8}  ", "text"),
        (f"{row.label:<9}", "text" if row.comparable else "dim"),
        (f"  {foreign(row.model.name)} {row.model.quant}", "text"),
    )


def _own(row: Row, rows: Sequence[Row], state: ViewState, width: int) -> list[Line]:
    """The chosen row's series as a plot, and why it must not be compared, if so."""
    name = f"{row.model.name} {row.model.quant} {row.case.test} {row.label}"
    points = dict(series_of(rows)).get(name, [])
    values = [value for _, value in points]
    top = max(values, default=0.0)
    plots = plot_rows(values, min(len(values), width - 30), 2, state.glyphs, top or 1.0)
    lines = [line((f" {foreign(name)}, by commit, up to {top:.2f} tok/s", "text"))]
    lines += [line(("   ", "dim"), (plot, "npu")) for plot in plots]
    lines.append(
        line((f" build {row.commit or row.version}, {row.threads} threads, path {row.model.path}", "dim"))
    )
    told = (
        f" not comparable: {'; '.join(row.reasons)}"
        if row.reasons
        else " comparable with rows of the same conditions"
    )
    lines += [
        line((f" {part}", "warning" if row.reasons else "dim")) for part in textwrap.wrap(told, width - 2)
    ]
    return (lines + [()] * _DETAILS)[:_DETAILS]


def _comparison(item: Comparison) -> Line:
    figure = item.figure
    predicted = "-" if item.predicted is None else f"{item.predicted:.2f}"
    off = "-" if item.deviation is None else _signed(item.deviation)
    role = "dim" if item.deviation is None else "text" if item.within else "warning"
    return line(
        (f" {figure.id:<8} ", "value"),
        (f"{figure.label[:27]:<27}", "text"),
        (f"{figure.value:>10.2f}{predicted:>12}{off:>8}", role),
        (f"  {figure.unit}", "dim"),
    )


def _signed(share: float) -> str:
    """Percent; what rounds to nothing has no sign of a loss."""
    return f"{round(share, 2) + 0.0:+.0%}"


def _compared(item: Comparison, state: ViewState, width: int) -> list[Line]:
    figure = item.figure
    top = max(abs(figure.value), abs(item.predicted or 0.0)) or 1.0
    lines = [line((f" {foreign(figure.configuration)}", "text"))]
    lines.append(_bar("published", figure.value, figure.unit, top, "iova", state.glyphs, width))
    if item.predicted is not None:
        lines.append(_bar("predicted", item.predicted, figure.unit, top, "npu", state.glyphs, width))
    told = item.why or ("within the model's tolerance" if item.within else "")
    if item.calibrated:
        told = f"calibrated on this very figure: agreement proves nothing. {told}".strip()
    told = f"{told}; source: {figure.source}" if told else f"source: {figure.source}"
    lines += [line((f" {part}", "dim")) for part in textwrap.wrap(told, width - 2)]
    return (lines + [()] * _DETAILS)[:_DETAILS]


def _bar(name: str, value: float, unit: str, top: float, role: str, glyphs: Glyphs, width: int) -> Line:
    filled, empty = bar(abs(value) / top, max(4, width - 36), glyphs)
    return line((f" {name:<10}", "dim"), (filled, role), (empty, "track"), (f" {value:.2f} {unit}", "value"))


def bench_spoken(shown: BenchShown) -> list[str]:
    said = [shown.note] if shown.note else []
    said += [" ".join(plain(_result(row)).split()) for row in shown.own[:20]]
    said += arms_spoken(shown.arms)
    if not shown.own:
        said.append("No own results yet; `ork run bench` takes some.")
    for item in shown.comparisons:
        if item.predicted is not None:
            figure = item.figure
            said.append(
                f"{figure.id} {figure.label}: published {figure.value:g} {figure.unit}, "
                f"predicted {item.predicted:.4g}, off by {_signed(item.deviation or 0.0)}"
            )
    return said
