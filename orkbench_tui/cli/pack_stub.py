"""``ork pack stub``: a model file without the weights its pack has, and the check that they belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.model_argument import model_path
from orkbench_tui.errors import UsageError

__all__ = ["stub"]


def stub(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file; with --check, the stub.")],
    pack: Annotated[Path, typer.Argument(help="The pack made of that model.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The stub; MODEL.stub.gguf here.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check a stub: all that reads as zeros must be in the pack.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """A GGUF with everything but the weights of a pack, which become holes in the file."""
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.orkpack.stub import check_stub, write_stub

    if check and out is not None:
        raise UsageError("--check writes nothing", do="leave out --out")
    source = model_path(model)
    with OrkPack.open(pack) as opened:
        if check:
            empty = check_stub(source, opened)
            if json:
                output.emit_json("pack.stub", {"file": str(source), "from_pack": list(empty)}, source="host")
            else:
                output.emit(f"{source} belongs to {pack}: {len(empty)} tensors come from the pack")
            return
        path = out or Path(source.stem + ".stub.gguf")
        report = write_stub(source, opened, path)
    taken = path.stat().st_blocks * 512
    if json:
        data = {
            "file": str(path),
            "file_bytes": report.bytes,
            "disk_bytes": taken,
            "kept_bytes": report.kept,
            "holes": list(report.holes),
        }
        output.emit_json("pack.stub", data, source="host")
        return
    output.emit(
        f"{path}: {report.bytes / (1 << 20):.1f} MiB, {taken / (1 << 20):.1f} MiB on disk; "
        f"{len(report.holes)} weights are in the pack alone"
    )
