"""Rows as llama-bench prints them: a Markdown table, CSV, a JSON array or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from orkbench_tui.plural import counted
from orkbench_tui.runner.bench.record import Row, row_document

__all__ = ["FORMATS", "figure", "markdown", "rendered"]


def figure(row: Row) -> str:
    """``178.31 ± 0.42``, or ``unknown``."""
    if row.mean is None:
        return "unknown"
    return f"{row.mean:.2f}" if row.sd is None else f"{row.mean:.2f} ± {row.sd:.2f}"


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("model", lambda row: row.model.name),
    ("size", lambda row: f"{row.model.file_bytes / (1 << 20):.2f} MiB"),
    ("params", lambda row: f"{row.model.parameters / 1e6:.2f} M"),
    ("quant", lambda row: row.model.quant),
    ("path", lambda row: row.model.path),
    ("threads", lambda row: str(row.threads)),
    ("n_batch", lambda row: str(row.case.batch)),
    ("n_ubatch", lambda row: str(row.case.micro_batch)),
    ("test", lambda row: row.case.test),
    ("t/s", figure),
    ("label", lambda row: row.label + ("" if row.warm else ", cold") + (", partial" if row.partial else "")),
)
_RIGHT = {"size", "params", "threads", "n_batch", "n_ubatch", "test", "t/s"}


def _bars(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(rows: Sequence[Row]) -> list[str]:
    """The table, and below it once each: where it ran, what was loaded, why it may not be compared."""
    if not rows:
        return []
    arms = any(row.arm for row in rows)
    columns = (("arm", lambda row: row.arm or "-"), *_COLUMNS) if arms else _COLUMNS
    cells = [[_bars(make(row)) for _, make in columns] for row in rows]
    names = [name for name, _ in columns]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]

    def line(parts: Sequence[str]) -> str:
        padded = [
            part.rjust(width) if name in _RIGHT else part.ljust(width)
            for part, width, name in zip(parts, widths, names, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if name in _RIGHT else "-" * width
        for width, name in zip(widths, names, strict=True)
    ]
    return [line(names), line(rule), *(line(parts) for parts in cells), *_footnotes(rows)]


def _footnotes(rows: Sequence[Row]) -> list[str]:
    notes = [""]
    first = rows[0]
    notes.append(f"build: {first.version} {first.commit or 'commit unknown'}")
    for row in rows:
        facts = row.model
        if facts.load_s is not None:
            text = f"{facts.name}: loaded in {facts.load_s:.2f} s, not in any figure above"
            if facts.weights is not None and facts.resident_bytes is not None:
                text += (
                    f"; {facts.weights} of {facts.expected} weights, {facts.resident_bytes / 2**30:.2f} GiB "
                    f"resident in {counted(facts.domains or 0, 'domain')}"
                )
            notes.append(text)
        notes += [f"not comparable: {reason}" for reason in row.reasons]
    return list(dict.fromkeys(notes))


def _flat(row: Row) -> dict[str, Any]:
    document = row_document(row)
    model, state = document.pop("model"), document.pop("state") or {}
    samples, reasons = document.pop("samples_ts"), document.pop("reasons")
    return {
        **document,
        **{f"model_{key}": value for key, value in model.items()},
        "samples_ts": " ".join(f"{value:.6g}" for value in samples),
        "reasons": "; ".join(reasons),
        "fit": state.get("fit"),
        "hottest_c": max((state.get("temperatures_c") or {"": None}).values(), key=lambda t: t or 0),
        "governors": "; ".join(f"{k}={v}" for k, v in (state.get("governors") or {}).items()),
        "clocks_hz": "; ".join(f"{k}={v}" for k, v in (state.get("clocks_hz") or {}).items()),
    }


def _csv(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().splitlines()


def _json(rows: Sequence[Row]) -> list[str]:
    return json.dumps([row_document(row) for row in rows], indent=2, allow_nan=False).splitlines()


def _json_lines(rows: Sequence[Row]) -> list[str]:
    return [json.dumps(row_document(row), allow_nan=False) for row in rows]


FORMATS: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "md": markdown,
    "csv": _csv,
    "json": _json,
    "jsonl": _json_lines,
}


def rendered(rows: Sequence[Row], form: str) -> list[str]:
    """Lines of ``rows`` in one of ``FORMATS``."""
    return FORMATS[form](rows)
