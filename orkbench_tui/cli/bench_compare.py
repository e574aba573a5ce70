"""What ``ork run bench compare`` does: two arms in turns, or two files of results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_type_hints

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.bench_run import ledger_writer, watched
from orkbench_tui.cli.bench_session import Plan, Results, run_cases
from orkbench_tui.cli.stop_switch import StopSwitch
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.runner.bench.arms import (
    Arm,
    TestVerdict,
    parse_arm,
    turns,
    unreached,
    verdict_lines,
    verdicts,
)
from orkbench_tui.runner.bench.cases import cases_of
from orkbench_tui.runner.bench.change_record import change_records
from orkbench_tui.runner.bench.ledger import read_rows
from orkbench_tui.runner.bench.record import Row, row_document
from orkbench_tui.settings import Settings

__all__ = ["compared"]


def compared(
    settings: Settings,
    first: str,
    second: str,
    prompt: Sequence[str] | None,
    generate: Sequence[str] | None,
    *,
    pairs: int,
    unfit: bool,
    ledger: Path | None,
    json: bool,
) -> int | None:
    """Print one verdict for each test, and keep the rows in ``ledger`` with their arms. Ctrl-C judges the pairs that are whole and ends with 130.

    Raises:
        UsageError: an arm that is none, or files without a test in common.
    """
    if _is_results(first) and _is_results(second):
        left, right = (_rows(name) for name in (first, second))
        found = verdicts(left, right, interleaved=False, spoiled=_other_conditions(left, right))
        if not found:
            raise UsageError("the two files have no test in common")
        _show(Arm(first, ()), Arm(second, ()), found, [*left, *right], json, source="host")
        return None
    arms = (parse_arm(first), parse_arm(second))
    chosen = [_with(settings, arm) for arm in arms]
    cases = cases_of(prompt, generate, None, None, None, None, default=settings.threads)
    keep = ledger_writer(ledger)
    rows: tuple[list[Row], list[Row]] = ([], [])
    spoiled: list[str] = []
    interrupted = False
    source = "host"
    with StopSwitch() as stop, ExitStack() as stack:
        watches = [watched(stack, one, unfit=unfit) for one in chosen[:1]]
        watch = watches[0] or (watched(stack, chosen[1], unfit=unfit) if chosen[1].quant != "f32" else None)
        source = "host" if watch is None else watch.files.label
        for pair, arm in turns(pairs):
            own = tuple(dataclasses.replace(case, threads=chosen[arm].threads) for case in cases)
            results = Results()
            plan = Plan(own, 1, arm=arms[arm].name, quiet=True)
            own_watch = None if chosen[arm].quant == "f32" else watch
            run_cases(chosen[arm], plan, own_watch, stop, keep, results)
            spoiled += [reason for reason in results.spoiled if reason not in spoiled]
            if results.interrupted:
                interrupted = True
                break
            rows[arm].extend(results.rows)
            told = ", ".join(f"{row.case.test} {row.speeds[0]:.2f} t/s ({row.label})" for row in results.rows)
            diagnostics.note(f"pair {pair + 1} of {pairs}, {arms[arm].name}: {told}")
    spoiled += [reason for reason in _swapped(rows) if reason not in spoiled]
    idle = unreached(arms, rows)
    found = verdicts(rows[0], rows[1], interleaved=True, spoiled=spoiled, idle=idle)
    _show(arms[0], arms[1], found, [*rows[0], *rows[1]], json, source=source, idle=idle)
    return ExitCode.INTERRUPTED.value if interrupted else None


def _with(settings: Settings, arm: Arm) -> Settings:
    kinds = get_type_hints(Settings)
    flags: dict[str, Any] = {}
    for name, text in arm.settings:
        if name not in kinds:
            raise UsageError(f"no setting {name!r} in arm {arm.name!r}", do=f"known: {', '.join(kinds)}")
        try:
            flags[name] = kinds[name](text)
        except ValueError:
            raise UsageError(f"{name}={text} is no number", why=f"in arm {arm.name!r}") from None
    return settings.with_flags(**flags)


def _is_results(name: str) -> bool:
    """A file that begins like JSON; models and packs begin otherwise."""
    try:
        path = Path(name)
        return path.is_file() and path.open("rb").read(64).lstrip()[:1] in (b"[", b"{")
    except (OSError, ValueError):
        return False


def _rows(name: str) -> list[Row]:
    found = read_rows(Path(name))
    for text in found.skipped:
        diagnostics.warn(f"{name}: {text}")
    return list(found.rows)


def _other_conditions(left: Sequence[Row], right: Sequence[Row]) -> list[str]:
    """Why two files of results must not be held against each other, whatever their ratio."""
    rows = (*left, *right)
    reasons = []
    labels = sorted({row.label for row in rows})
    if len(labels) > 1:
        reasons.append(f"figures of different kinds: {', '.join(labels)}")
    builds = {(row.version, row.commit, row.kernels[:12]) for row in rows}
    if len(builds) > 1:
        reasons.append(f"measured with {len(builds)} different builds")
    if len({row.model.sha256 for row in rows}) > 1:
        reasons.append("different model files")
    if any(row.partial for row in rows):
        reasons.append("rows that were interrupted")
    return reasons


def _swapped(rows: tuple[list[Row], list[Row]]) -> list[str]:
    """An arm whose model or pack was another one in a later turn."""
    reasons = []
    for arm in rows:
        if len({(row.model.sha256, row.model.pack_sha256) for row in arm}) > 1:
            reasons.append(f"the model of {arm[0].arm} was changed between its turns")
    return reasons


def _show(
    first: Arm,
    second: Arm,
    found: Sequence[TestVerdict],
    rows: Sequence[Row],
    json: bool,
    *,
    source: str,
    idle: Mapping[str, str] | None = None,
) -> None:
    if json:
        data = {
            "first": first.name,
            "second": second.name,
            "verdicts": [dataclasses.asdict(row) for row in found],
            "changes": [change.document() for change in change_records(found, idle or {})],
            "rows": [row_document(row) for row in rows],
        }
        output.emit_json("run.bench.compare", data, source=source)
        return
    lines = verdict_lines(first, second, found, label="/".join(sorted({row.label for row in rows})))
    output.emit("\n".join(lines) if lines else "no pair was finished: insufficient")
