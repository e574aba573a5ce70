"""Past rows as lines to draw: one for each test of each model, by commit in the order they were first seen."""

from __future__ import annotations

from collections.abc import Sequence

from orkbench_tui.runner.bench.record import Row
from orkbench_tui.runner.bench.statistics import spread

__all__ = ["commits_of", "history_lines", "series_of"]


def commits_of(rows: Sequence[Row]) -> list[str]:
    """Commits, or versions where there is none, oldest first."""
    ordered = sorted(rows, key=lambda row: row.taken_unix_s)
    return list(dict.fromkeys(row.commit or row.version for row in ordered))


def series_of(rows: Sequence[Row]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Name and (number of the commit, mean tokens per second), without partial and predicted rows."""
    numbers = {commit: index for index, commit in enumerate(commits_of(rows))}
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.mean is None or row.partial or row.label == "predicted":
            continue
        name = f"{row.model.name} {row.model.quant} {row.case.test} {row.label}"
        found.setdefault(name, {}).setdefault(numbers[row.commit or row.version], []).append(row.mean)
    return [
        (name, [(float(number), spread(means).mean) for number, means in sorted(points.items())])
        for name, points in sorted(found.items())
    ]


def history_lines(rows: Sequence[Row]) -> list[str]:
    """The same as a table."""
    lines = ["{:<14} {:<46} {:>9} {:>5}".format("commit", "test", "mean t/s", "runs")]
    for commit in commits_of(rows):
        here = [row for row in rows if (row.commit or row.version) == commit and row.mean is not None]
        for name in sorted({f"{r.model.name} {r.model.quant} {r.case.test} {r.label}" for r in here}):
            means = [
                r.mean for r in here if name == f"{r.model.name} {r.model.quant} {r.case.test} {r.label}"
            ]
            mean = spread([value for value in means if value is not None]).mean
            lines.append(f"{commit:<14} {name[:46]:<46} {mean:>9.2f} {len(means):>5}")
    return lines
