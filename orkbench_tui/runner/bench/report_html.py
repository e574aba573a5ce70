"""The whole report as one HTML file that loads nothing: same figures as the terminal, with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from orkbench_tui.driver.timing.reproduction import Comparison
from orkbench_tui.plain_text import printable
from orkbench_tui.plural import counted
from orkbench_tui.runner.bench.against import SideBySide
from orkbench_tui.runner.bench.record import Row
from orkbench_tui.runner.bench.render import figure
from orkbench_tui.runner.bench.svg import bar_chart, line_chart
from orkbench_tui.runner.bench.utilization import Phase

__all__ = ["html_report"]

_STYLE = (
    "body{font:15px/1.45 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1a202c;background:#fff}"
    "table{border-collapse:collapse;margin:.6em 0}th,td{border:1px solid #cbd5e0;padding:.2em .6em;text-align:left}"
    "td.n{text-align:right}.l{color:#4a5568}.bad{color:#9b2c2c}"
    "@media(prefers-color-scheme:dark){body{color:#e2e8f0;background:#1a202c}.l{color:#a0aec0}svg{background:#f7fafc}}"
)

Cell = str | float | None


def html_report(
    rows: Sequence[Row],
    against: Sequence[SideBySide],
    comparisons: Sequence[Comparison],
    phases: Sequence[Phase],
    history: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    title: str,
    taken: str,
) -> str:
    """A page of every section that has something in it."""
    body = [f"<h1>{_text(title)}</h1>", f"<p class=l>{_text(taken)}</p>", _results(rows)]
    body.append(_configuration(rows))
    if against:
        body.append(_against(against))
    if phases:
        body.append(_utilization(phases))
    if history:
        chart = line_chart("tokens per second over commits", history)
        body.append(f"<h2>Over commits</h2><p class=l>Oldest left; figures of this machine.</p>{chart}")
    if comparisons:
        body.append(_model(comparisons))
    head = f"<meta charset=utf-8><title>{_text(title)}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _text(value: str) -> str:
    return escape(printable(value))


def _table(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(_line(row) for row in rows)}</table>"


def _line(cells: Sequence[Cell]) -> str:
    made = []
    for cell in cells:
        if isinstance(cell, str):
            made.append(f"<td>{_text(cell)}</td>")
        else:
            made.append(f"<td class=n>{'unknown' if cell is None else f'{cell:.4g}'}</td>")
    return f"<tr>{''.join(made)}</tr>"


def _results(rows: Sequence[Row]) -> str:
    table = _table(
        ("model", "quant", "threads", "test", "t/s", "figure", "NPU ms", "submits"),
        [
            (
                row.model.name,
                row.model.quant,
                float(row.threads),
                row.case.test,
                figure(row),
                row.label + (", cold" if not row.warm else "") + (", partial" if row.partial else ""),
                None if row.npu_ns is None else f"{row.npu_ns / 1e6:.2f} {row.npu_label}",
                row.submits,
            )
            for row in rows
        ],
    )
    labels = [f"{row.model.name[:20]} {row.case.test} ({row.label})" for row in rows]
    return f"<h2>Results</h2>{table}{bar_chart('tokens per second', labels, [row.mean for row in rows])}"


def _configuration(rows: Sequence[Row]) -> str:
    parts = ["<h2>Configuration</h2>"]
    for reason in dict.fromkeys(reason for row in rows for reason in row.reasons):
        parts.append(f"<p class=bad>not comparable: {_text(reason)}</p>")
    for row in {row.model.file + row.model.quant: row for row in rows}.values():
        facts, state = row.model, row.state
        pairs: list[tuple[str, str]] = [
            ("model", f"{facts.name}, sha256 {facts.sha256[:16] or 'unknown'}"),
            ("pack", f"sha256 {facts.pack_sha256[:16]}" if facts.pack_sha256 else "none"),
            (
                "build",
                f"{row.version}, commit {row.commit or 'unknown'}, kernels {row.kernels[:12] or 'unknown'}",
            ),
            ("loaded", _loaded(row)),
        ]
        if state is not None:
            pairs += [
                ("board", f"{state.board or 'unknown'}, kernel {state.kernel or 'unknown'} ({state.label})"),
                (
                    "preflight",
                    {True: "fit", False: f"failed: {', '.join(state.failed)}", None: "not run"}[state.fit],
                ),
                ("governors", ", ".join(f"{k} {v}" for k, v in state.governors.items()) or "unknown"),
                ("clocks", ", ".join(f"{k} {v / 1e6:.0f} MHz" for k, v in state.clocks.items()) or "unknown"),
                ("hottest", "unknown" if state.hottest is None else f"{state.hottest:.0f} degrees"),
            ]
        parts.append(_table(("what", "found"), pairs))
    return "".join(parts)


def _loaded(row: Row) -> str:
    facts = row.model
    load = "unknown" if facts.load_s is None else f"{facts.load_s:.2f} s ({row.label})"
    if facts.weights is None or facts.resident_bytes is None:
        return f"in {load}; residency unknown"
    gib = facts.resident_bytes / 2**30
    return f"in {load}; {facts.weights} of {facts.expected} weights, {gib:.2f} GiB in {counted(facts.domains or 0, 'domain')}"


def _against(rows: Sequence[SideBySide]) -> str:
    def known(value: float | None) -> Cell:
        return "-" if value is None else value

    names = (
        "model",
        "test",
        "own t/s",
        "own is",
        "predicted t/s",
        "at most",
        "published t/s",
        "published by",
    )
    cells = [
        (
            row.model,
            row.test,
            known(row.own),
            row.own_label or "-",
            known(row.predicted),
            known(row.ceiling),
            known(row.published),
            row.source,
        )
        for row in rows
    ]
    return f"<h2>Own, predicted and published</h2>{_table(names, cells)}"


def _utilization(phases: Sequence[Phase]) -> str:
    rows: list[Sequence[Cell]] = []
    charts = []
    for phase in phases:
        top = sorted(phase.cpu.items(), key=lambda item: -item[1])[:4]
        rows.append(
            (
                phase.name,
                phase.tokens_per_s,
                " / ".join("unknown" if share is None else f"{share:.0f}" for share in phase.npu)
                or "unknown",
                ", ".join(f"cpu{core} {share:.0f}" for core, share in top) or "unknown",
                f"NPU {phase.npu_label}, CPU {phase.cpu_label}",
            )
        )
        charts.append(line_chart(f"NPU load, {phase.name}", phase.lines))
    names = ("phase", "t/s", "NPU cores %", "CPU %, busiest first", "figures")
    return f"<h2>Utilisation</h2>{_table(names, rows)}{''.join(charts)}"


def _model(comparisons: Sequence[Comparison]) -> str:
    rows = [
        (
            row.figure.key,
            f"{row.figure.value:g} {row.figure.unit}",
            row.predicted,
            "" if row.deviation is None else f"{row.deviation:+.1%}",
            "; ".join(filter(None, ("constant read off it" if row.calibrated else "", row.why))),
        )
        for row in comparisons
        if row.predicted is not None
    ]
    names = ("figure", "published", "predicted", "off by", "why")
    return f"<h2>Timing model against published figures</h2>{_table(names, rows)}"
