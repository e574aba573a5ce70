"""``ork pack calibrate`` and ``tiers``: what a 4-bit pack can be told about its model besides the weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.model_argument import model_path

__all__ = ["calibrate", "tiers"]

_TEXT_BYTES = 64 << 20


def calibrate(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file.")],
    file: Annotated[
        Path | None, typer.Option(help="UTF-8 text; a text that comes with ork when left out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The calibration; MODEL.orkcal here.")
    ] = None,
    window: Annotated[int, typer.Option(help="Tokens the model sees at once.", min=16, max=1 << 16)] = 512,
    hessians: Annotated[
        bool, typer.Option("--hessians/--no-hessians", help="Keep what GPTQ needs, most of the file.")
    ] = True,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 takes the big cores.", min=0, max=256)] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Run a text through the float32 model and keep what the inputs of every weight are like.

    The file gets its name when it is whole; Ctrl-C keeps nothing.
    """
    from orkbench_tui import locations
    from orkbench_tui.cli.progress import ProgressDisplay
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.gguf_weights import GgufWeights
    from orkbench_tui.runner.perplexity import text_digest
    from orkbench_tui.runner.quantize.calibrate import gather
    from orkbench_tui.runner.quantize.calibration import CalibrationWriter
    from orkbench_tui.runner.quantize.source_digest import remembered_sha256
    from orkbench_tui.runner.texts import calibration_text
    from orkbench_tui.runner.tokenizer import Tokenizer
    from orkbench_tui.user_files import read_text_bounded

    source = model_path(model)
    path = out or Path(source.stem + ".orkcal")
    text = calibration_text() if file is None else read_text_bounded(file, _TEXT_BYTES, "text file")
    started = time.perf_counter()
    display = ProgressDisplay(unit="windows")
    try:
        with GgufFile.open(source) as opened, CalibrationWriter(path) as writer:
            digest = remembered_sha256(source, locations.packs_dir()).hex()
            tokens = Tokenizer.from_metadata(opened.metadata).encode(text)
            used = gather(
                GgufWeights(opened),
                tokens,
                writer,
                window=window,
                hessians=hessians,
                threads=threads or None,
                progress=display,
            )
            writer.finish(model_sha256=digest, text_sha256=text_digest(text), tokens=used, window=window)
    finally:
        display.close()
    seconds, size = time.perf_counter() - started, path.stat().st_size
    if json:
        data = {
            "file": str(path),
            "file_bytes": size,
            "model_sha256": digest,
            "text_sha256": text_digest(text),
            "tokens": used,
            "window": window,
            "hessians": hessians,
            "seconds": seconds,
        }
        output.emit_json("pack.calibrate", data, source="host")
        return
    output.emit(
        f"{path}: {size / (1 << 20):.1f} MiB from {used} tokens in windows of {window}, in {seconds:.1f} s (host)"
    )


def tiers(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file; only its header is read.")],
    emit_map: Annotated[
        bool, typer.Option("--emit-map", help="A line for each matrix: name, TAB, int8 or int4.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """What ``build --allocation`` would make of a GGUF: int8 from 5 bits a weight on, int4 below."""
    from orkbench_tui.runner.quantize.tier_plan import allocation_of, map_lines, type_counts

    path = model_path(model)
    allocation = allocation_of(path)
    counts = type_counts(path)
    if json:
        rows = [
            {"type": type_, "tier": "int8" if tier == "int8" else "int4", "count": count}
            for (type_, tier), count in sorted(counts.items())
        ]
        words = {name: "int8" if tier == "int8" else "int4" for name, tier in allocation.items()}
        output.emit_json("pack.tiers", {"model": path.name, "counts": rows, "tiers": words}, source="host")
        return
    if emit_map:
        output.emit("\n".join(map_lines({name: (tier, "") for name, tier in allocation.items()})))
        return
    for (type_, tier), count in sorted(counts.items()):
        output.emit(f"{count:>5} {type_:<8} -> {'int8' if tier == 'int8' else 'int4'}")
