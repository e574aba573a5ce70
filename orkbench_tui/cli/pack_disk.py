"""``ork pack disk`` and ``recipe``: what packs take, and how to make a model file that suits the NPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.model_argument import model_path

__all__ = ["disk", "recipe"]


def disk(json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Packs on the disk, largest first, and those nothing will look for again. Deletes nothing."""
    from orkbench_tui import locations
    from orkbench_tui.runner.quantize.pack_disk import pack_disk, pack_disk_document, pack_disk_lines

    folder = locations.packs_dir()
    packs = pack_disk(folder)
    free = shutil.disk_usage(folder if folder.is_dir() else "/").free
    if json:
        output.emit_json(
            "pack.disk", {"folder": str(folder), **pack_disk_document(packs, free)}, source="host"
        )
        return
    output.emit("\n".join(pack_disk_lines(packs, free)))


def recipe(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file; only its header is read.")],
    target: Annotated[Path, typer.Argument(help="The file the quantizer shall write.")],
    base: Annotated[str, typer.Option("--base", help="Type of everything else.")] = "Q4_K_M",
    candidates: Annotated[
        bool, typer.Option("--candidates", help="Keep what nobody has measured yet as well.")
    ] = False,
) -> None:
    """The llama-quantize command that keeps in 8 bits what runs on the NPU. Runs nothing."""
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.quantize.recipe import quantize_command

    path = model_path(model)
    with GgufFile.open(path) as file:
        names = list(file.tensors)
    output.emit(quantize_command(names, str(path), str(target), base=base, candidates=candidates))
