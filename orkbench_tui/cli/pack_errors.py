"""``ork pack qerr``: what each scheme costs one matmul of a model."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, output
from orkbench_tui.errors import UsageError

__all__ = ["qerr"]

_COLUMNS = "{:<15} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9}"


def qerr(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file.")],
    tensor: Annotated[str, typer.Option(help="Weight to measure.")] = "blk.0.ffn_down.weight",
    force: Annotated[
        bool, typer.Option("--force", help="Measure on a source under 5 bits; the result says so.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Error of one matmul under each scheme against float64, with ggml's Q4_0 as the yardstick.

    16 rows of Gaussian activations with every 97th input ten times as large, the first 256 outputs.
    """
    from orkbench_tui.runner import model_store
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.quantize.matmul_error import matmul_errors
    from orkbench_tui.runner.quantize.tiers import source_stamp

    _, path = model_store.locate(model, locations.models_dir())
    if not path.exists():
        raise UsageError(f"{model} is not here", do=f"run: ork model pull {model}")
    with GgufFile.open(path) as file:
        info = file.tensors.get(tensor)
        if info is None or len(info.shape) != 2:
            raise UsageError(
                f"{path.name} has no matrix {tensor!r}", do="`ork model show --tensors` lists them"
            )
        if info.shape[0] % 32:
            raise UsageError(
                f"{tensor} has rows of {info.shape[0]} values", why="groups of 32 must divide them"
            )
        stamp = source_stamp(f"{path.name}, {tensor}", info.type, force=force)
        errors = matmul_errors(file.dequantized(tensor))
    yardstick = errors["q4_0 (ggml)"].relative
    data = {"model": path.name, "tensor": tensor, **stamp}
    if json:
        rows = {
            name: {**dataclasses.asdict(error), "of_q4_0": error.relative / yardstick}
            for name, error in errors.items()
        }
        output.emit_json("pack.qerr", {**data, "errors": rows}, source="host")
        return
    if stamp["low_bit_source"]:
        diagnostics.warn(
            f"the source has {stamp['source_bits']} bits a weight: every figure stands on rounded weights"
        )
    output.emit(f"{path.name}, {tensor}, from {stamp['source_type']} ({stamp['source_bits']} bits); host")
    output.emit(_COLUMNS.format("scheme", "relative", "of Q4_0", "p50/rms", "p90/rms", "p99/rms", "max/rms"))
    for name, error in errors.items():
        figures = [f"{value:.5f}" for value in (error.p50, error.p90, error.p99, error.worst)]
        output.emit(
            _COLUMNS.format(name, f"{error.relative:.5f}", f"{error.relative / yardstick:.2f}x", *figures)
        )
