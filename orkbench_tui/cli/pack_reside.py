"""``ork pack reside``: a pack's weights into NPU memory, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, output
from orkbench_tui.plural import counted
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.runner.linear import NpuLike
    from orkbench_tui.runner.residence import Residence

__all__ = ["reside", "residence_lines"]


def reside(
    pack: Annotated[Path, typer.Argument(help="A weight pack.")],
    target: Annotated[str | None, typer.Option(help="auto, board or sim.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Load every weight of a pack into its IOMMU domain without running anything; tell what it took."""
    from orkbench_tui.cli.progress import ProgressDisplay
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.quantize.pack_cache import require_intact_file
    from orkbench_tui.runner.residence import reside as load
    from orkbench_tui.target import open_target

    display = ProgressDisplay(unit="weights")
    with OrkPack.open(pack) as opened, open_target(Settings.load(target=target)) as where:
        if where.notice:
            diagnostics.note(where.notice)
        require_intact_file(opened, locations.packs_dir())
        npu = where.open_npu()
        try:
            _, report = load(opened, cast("NpuLike", npu), opened.packed_names, opened.domain_of, display)
        finally:
            display.close()
        source, size = where.label, opened.file_bytes
    if json:
        output.emit_json(
            "pack.reside", {"file": str(pack), "file_bytes": size, **report.as_dict()}, source=source
        )
        return
    output.emit("\n".join(residence_lines(report, source)))


def residence_lines(report: Residence, source: str) -> list[str]:
    """Rates are this machine's clock, on a simulated board too."""
    gib = report.bytes / (1 << 30)
    rate = gib / report.seconds if report.seconds else 0.0
    lines = [
        f"loaded {report.weights} / packed {report.expected}, {report.bytes / (1 << 20):.1f} MiB on {source} in "
        f"{report.seconds:.2f} s, {rate:.2f} GiB/s (host), {counted(report.submits, 'submit')}"
    ]
    lines += [
        f"domain {domain.id:>2}: {domain.weights} weights, {domain.bytes / (1 << 20):.1f} MiB"
        for domain in report.domains
    ]
    return lines
