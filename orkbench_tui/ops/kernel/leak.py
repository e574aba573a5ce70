"""Addresses a kernel leaves mapped after a run over several domains: reproduced, counted, compared by kernel.

The vendor driver forgets in which domain an import was mapped, so what a run imports outside domain 0 stays
mapped when it ends. Each run is counted by itself: the log is marked before it and read behind the mark, because
the ring of the whole log wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import InvalidFileError, OrkError
from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.ops.kernel_log.tracker import LogTracker
from orkbench_tui.plural import counted

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

__all__ = [
    "LeakReport",
    "LeakRun",
    "count_since",
    "leak_lines",
    "leak_table",
    "mark_of",
    "read_leak_report",
    "reproduce",
    "upstream_report",
]

Log = Callable[[int], list[bytes]]
"""Records behind a sequence number; none where the log may not be read."""

_ROWS, _COLUMNS = 64, 256


@dataclass(frozen=True, slots=True)
class LeakRun:
    """``warnings`` is how many mappings the kernel complained of, None where its log cannot be read.

    ``exact`` is False where records were lost in between: then it is the least there were. ``failure`` is the error
    that ended the run, "" where it came to its end.
    """

    domains: int
    imports: int
    warnings: int | None
    exact: bool
    failure: str = ""


@dataclass(frozen=True, slots=True)
class LeakReport:
    kernel: str
    build: str
    driver: str
    source: str
    runs: tuple[LeakRun, ...]

    def leaked(self, domains: int) -> tuple[int | None, ...]:
        """Warnings of each run over that many domains, in order."""
        return tuple(run.warnings for run in self.runs if run.domains == domains)

    @property
    def before_failure(self) -> int:
        """Runs that came to their end before the first that did not."""
        return next((at for at, run in enumerate(self.runs) if run.failure), len(self.runs))

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "build": self.build or None,
            "driver": self.driver or None,
            "source": self.source,
            "before_failure": self.before_failure,
            "runs": [
                {
                    "domains": run.domains,
                    "imports": run.imports,
                    "warnings": run.warnings,
                    "exact": run.exact,
                    "failure": run.failure or None,
                }
                for run in self.runs
            ],
        }


def mark_of(records: Iterable[bytes]) -> int | None:
    """The newest sequence number; None of no records, which is a log that cannot be read."""
    return max((r.sequence for r in parse_kmsg(records) if r.sequence is not None), default=None)


def count_since(records: Iterable[bytes], mark: int) -> tuple[int, bool]:
    """Unmap warnings behind ``mark``, and whether no record between is missing."""
    blobs = list(records)
    numbers = [r.sequence for r in parse_kmsg(blobs) if r.sequence is not None and r.sequence > mark]
    tracker = LogTracker()
    tracker.after_sequence = mark
    tracker.feed(blobs)
    return tracker.facts().unmap_warnings, numbers == list(range(mark + 1, mark + 1 + len(numbers)))


def reproduce(
    open_npu: Callable[[], AbstractContextManager[Npu]], log: Log, domains: int, *, imports: int = 1
) -> LeakRun:
    """One run: ``imports`` weights in each of the domains 0 to ``domains`` - 1, each multiplied by, and the end.

    A failure is part of the result, because the runs before it are what is counted.
    """
    mark = mark_of(log(-1))
    failure = ""
    try:
        with open_npu() as npu:
            _work(npu, domains, imports)
    except OrkError as error:
        failure = error.line()
    if mark is None:
        return LeakRun(domains, domains * imports, None, False, failure)
    warnings, exact = count_since(log(mark), mark)
    return LeakRun(domains, domains * imports, warnings, exact, failure)


def _work(npu: Npu, domains: int, imports: int) -> None:
    import numpy as np

    from orkbench_tui.driver.matmul.formats import INT8

    matrix = np.ones((_ROWS, _COLUMNS), np.int8)
    for domain in range(domains):
        for index in range(imports):
            weight = npu.load(INT8, f"leak.{domain}.{index}", matrix, domain=domain, imported=True)
            npu.matmul([weight], 1).run()


def leak_lines(report: LeakReport) -> list[str]:
    lines = [f"kernel {report.kernel}, driver {report.driver or 'unknown'} ({report.source})"]
    for run in report.runs:
        count = "the kernel log cannot be read" if run.warnings is None else f"{run.warnings} left mapped"
        least = "" if run.exact or run.warnings is None else " at least, records were lost"
        ended = f"; failed: {run.failure}" if run.failure else ""
        lines.append(
            f"  {counted(run.domains, 'domain')}, {counted(run.imports, 'import')}: {count}{least}{ended}"
        )
    lines.append(f"  {report.before_failure} of {len(report.runs)} runs before a failure")
    return lines


def leak_table(reports: Sequence[LeakReport]) -> list[str]:
    """A row for each kernel, a column for each number of domains, and what that says of the kernels."""
    columns = sorted({run.domains for report in reports for run in report.runs})
    width = max(len(report.kernel) for report in reports)
    lines = [f"{'kernel':<{width}}  " + "  ".join(f"{count:>2} dom" for count in columns)]
    rows = []
    for report in reports:
        cells = [_cell(report.leaked(count)) for count in columns]
        rows.append(cells)
        lines.append(f"{report.kernel:<{width}}  " + "  ".join(f"{cell:>6}" for cell in cells))
    if len(rows) < 2:
        return lines
    if any("-" in cells for cells in rows):
        return [*lines, "not every kernel was asked the same: nothing follows"]
    if all(cells == rows[0] for cells in rows):
        return [*lines, "the same in every kernel: what differs between them is not the cause"]
    return [*lines, "it differs by kernel"]


def _cell(warnings: Sequence[int | None]) -> str:
    known = [count for count in warnings if count is not None]
    if not known:
        return "-"
    least, most = min(known), max(known)
    return str(least) if least == most else f"{least}-{most}"


def upstream_report(report: LeakReport) -> str:
    """Text for the driver's maintainers: what was run, on what, and what the kernel said."""
    rows = "\n".join(
        f"| {run.domains} | {run.imports} | {'unknown' if run.warnings is None else run.warnings} "
        f"| {run.failure or 'ended'} |"
        for run in report.runs
    )
    return f"""\
# Imports outside domain 0 stay mapped after their process ends

Kernel {report.kernel} ({report.build or "build not known"}), rknpu driver {report.driver or "not known"}.

To reproduce: import a dma-buf with RKNPU_MEM_CREATE while domain 1 is live, free it with RKNPU_MEM_DESTROY, close the
device. The object carries domain 0, so the unmap runs in another domain than the mapping, warns in
`__iommu_dma_unmap`, and the addresses stay taken until the next boot. `ork kernel leak --domains 1,2,3` does it.

| domains | imports | warnings | run |
|---|---|---|---|
{rows}

Expected: no warning, as with domain 0 alone. Counted from each run's own part of the kernel log.
"""


def read_leak_report(document: Any) -> LeakReport:
    """The report of a document ``as_dict`` made, also within this program's JSON envelope.

    Raises:
        InvalidFileError: it is none.
    """
    try:
        data = document.get("data", document)
        runs = tuple(
            LeakRun(
                int(run["domains"]),
                int(run["imports"]),
                None if run["warnings"] is None else int(run["warnings"]),
                bool(run["exact"]),
                str(run["failure"] or ""),
            )
            for run in data["runs"]
        )
        return LeakReport(
            str(data["kernel"]),
            str(data["build"] or ""),
            str(data["driver"] or ""),
            str(data["source"]),
            runs,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidFileError("not a report of `ork kernel leak --json`", why=str(error)[:120]) from error
