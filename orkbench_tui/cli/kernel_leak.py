"""``ork kernel leak``: reproduce what a kernel leaves mapped, count it, and compare kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from orkbench_tui.ops.kernel.leak import LeakReport

__all__ = ["leak"]

_REPORT_BYTES = 1 << 20


def leak(
    domains: Annotated[
        str, typer.Option("--domains", help="Numbers of domains to run over, with commas.")
    ] = "1,2,3",
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Runs of each, until one fails.")] = 1,
    imports: Annotated[int, typer.Option("--imports", min=1, max=64, help="Imports in each domain.")] = 1,
    compare: Annotated[
        list[Path] | None, typer.Option("--compare", help="Put reports of several kernels side by side.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print a report for the driver's maintainers.")
    ] = False,
    consent: Annotated[bool, typer.Option("--consent", help="This board may lose addresses.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
) -> None:
    """Import outside domain 0, end, and count what the kernel leaves mapped; it stays so until a reboot."""
    from orkbench_tui.ops.kernel.leak import leak_lines, leak_table, upstream_report

    if compare:
        output.emit("\n".join(leak_table([_read(path) for path in compare])))
        return
    found = _measured(_counts(domains), runs, imports, target, consent=consent)
    if json:
        output.emit_json("kernel.leak", found.as_dict(), source=found.source)
    elif report:
        output.emit(upstream_report(found).rstrip("\n"))
    else:
        output.emit("\n".join(leak_lines(found)))


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= 16 for count in counts):
        raise UsageError(f"--domains {text}", why="numbers from 1 to 16, with commas between")
    return counts


def _measured(
    counts: Sequence[int], runs: int, imports: int, target: str | None, *, consent: bool
) -> LeakReport:
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.board_identity import read_identity
    from orkbench_tui.ops.kernel.leak import LeakReport, reproduce

    with guarded(target) as (opened, board):
        if opened.label == "board" and not consent:
            raise RefusedError(
                "this leaves addresses mapped until the board boots again",
                why="a kernel without import-domain leaks every import outside domain 0",
                do="run it with --consent on a board of yours",
            )
        identity = read_identity(opened.files)
        opened.hold_npu()
        found = []
        for count in counts:
            for _ in range(runs):
                found.append(
                    reproduce(
                        lambda: opened.open_npu(exclusive=False),
                        board.files.kernel_log,
                        count,
                        imports=imports,
                    )
                )
                if found[-1].failure:
                    break
        build = opened.files.read("/proc/version").line()
        return LeakReport(identity.kernel, build, identity.driver_version, board.source, tuple(found))


def _read(path: Path) -> LeakReport:
    import json as codec

    from orkbench_tui.errors import InvalidFileError
    from orkbench_tui.ops.kernel.leak import read_leak_report
    from orkbench_tui.user_files import read_text_bounded

    text = read_text_bounded(path, _REPORT_BYTES, "report")
    try:
        return read_leak_report(codec.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"{path} is no report", why=str(error)[:120]) from error
