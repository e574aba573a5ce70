"""``ork pack``: weight packs, from the plan to the comparison."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.model_argument import model_path
from orkbench_tui.cli.pack_calibrate import calibrate, tiers
from orkbench_tui.cli.pack_disk import disk, recipe
from orkbench_tui.cli.pack_errors import qerr
from orkbench_tui.cli.pack_reside import reside
from orkbench_tui.cli.pack_stub import stub
from orkbench_tui.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from orkbench_tui.runner.orkpack.placement import Placement
    from orkbench_tui.runner.orkpack.working_set import WorkingSet
    from orkbench_tui.runner.quantize.pack_model import Progress

app = typer.Typer(
    help="Make weight packs, look into them, check and compare them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.command()(qerr)
app.command()(calibrate)
app.command()(tiers)
app.command()(reside)
app.command()(stub)
app.command()(disk)
app.command()(recipe)

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
PackFile = Annotated[Path, typer.Argument(help="A weight pack.")]


@app.command()
def plan(
    model: Annotated[str | None, typer.Argument(help="Catalogue name, GGUF file or pack.")] = None,
    shapes: Annotated[
        str | None,
        typer.Option(help="Shapes instead of a model: a JSON file, or qwen-27b-like[:w4a4|mixed|w4a8]."),
    ] = None,
    json: Json = False,
) -> None:
    """Which IOMMU domain each weight would live in, before anything is built."""
    if (model is None) == (shapes is None):
        raise UsageError("name one model, or --shapes", do="see ork pack plan --help")
    placement = _placement_of_shapes(shapes) if shapes is not None else _placement_of_model(model or "")
    if json:
        from orkbench_tui.cli.pack_report import placement_facts

        data = {"model": model, "shapes": shapes, **placement_facts(placement)}
        data["working_set"] = _working_set(placement).as_dict()
        output.emit_json("pack.plan", data, source="host")
        return
    from orkbench_tui.cli.pack_report import placement_lines

    output.emit("\n".join(placement_lines(placement)))
    output.emit(_working_set(placement).line())


def _working_set(placement: Placement) -> WorkingSet:
    """Of a pack that runs on this machine; a GGUF beside it is read only while it is packed."""
    from orkbench_tui.host_memory import total_bytes
    from orkbench_tui.runner.orkpack.working_set import WorkingSet

    pack = placement.weight_bytes
    scratch = sum(domain.scratch + domain.anchor for domain in placement.domains)
    return WorkingSet(0, pack, None, scratch, total_bytes())


def _placement_of_shapes(shapes: str) -> Placement:
    from orkbench_tui.runner.orkpack.placement import plan_placement
    from orkbench_tui.runner.orkpack.shapes import shapes_named

    return plan_placement(shapes_named(shapes))


def _placement_of_model(model: str) -> Placement:
    from orkbench_tui.runner.quantize.file_placement import placement_of_file

    return placement_of_file(model_path(model))


@app.command()
def build(
    model: Annotated[str, typer.Argument(help="Catalogue name or GGUF file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The pack; MODEL.orkpack here unless given.")
    ] = None,
    quant: Annotated[str | None, typer.Option(help="w8a8-rot, w8a8, w4a8-g32-rot or nf4-mixed.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="From ork pack calibrate: 4-bit errors are weighed by it.")
    ] = None,
    gptq: Annotated[bool, typer.Option("--gptq", help="Spread 4-bit errors; needs a calibration.")] = False,
    allocation: Annotated[
        Path | None,
        typer.Option(help="GGUF whose types say which weights get 4 bits; its values are not used."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="4 bits from a source under 5 bits; the pack says so.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="Threads that quantize; 0 takes every processor.", min=0, max=256)
    ] = 0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Keep another pack of that name as .old.")
    ] = False,
    json: Json = False,
) -> None:
    """Pack a model. The file gets its name when it is whole; a killed build goes on where it was."""
    from orkbench_tui.cli.progress import ProgressDisplay
    from orkbench_tui.runner.orkpack.layout import PACK_EXTENSION
    from orkbench_tui.runner.orkpack.schemes import DEFAULT_SCHEME, scheme_named
    from orkbench_tui.runner.quantize.calibration import Calibration
    from orkbench_tui.runner.quantize.pack_cache import require_space
    from orkbench_tui.runner.quantize.pack_model import pack_gguf
    from orkbench_tui.runner.quantize.tier_plan import PackChoices

    scheme = scheme_named(quant or DEFAULT_SCHEME)
    source = model_path(model)
    path = out or Path(source.stem + PACK_EXTENSION)
    unfinished = path.with_name(path.name + ".tmp.journal")
    if unfinished.exists():
        diagnostics.note("an earlier build was stopped: what it finished is kept if it is of this model")
    # With an allocation it may be that every weight is int8.
    largest = DEFAULT_SCHEME if allocation is not None else scheme.name
    require_space(source, path.parent, _size(path.with_name(path.name + ".tmp")), largest)
    started = time.perf_counter()
    display = ProgressDisplay()
    try:
        with ExitStack() as stack:
            known = None if calibration is None else stack.enter_context(Calibration.open(calibration))
            pack_gguf(
                source,
                path,
                _with_peak(display),
                scheme=scheme.name,
                replace=replace,
                resumable=True,
                threads=jobs or None,
                choices=PackChoices(allocation, known, gptq, force),
            )
    except (KeyboardInterrupt, SystemExit):
        display.close()
        diagnostics.note("stopped; what is packed is kept, the same command goes on from there")
        raise
    finally:
        display.close()
    seconds, size, peak = time.perf_counter() - started, path.stat().st_size, _peak_bytes()
    if json:
        data = {
            "file": str(path),
            "file_bytes": size,
            "scheme": scheme.name,
            "seconds": seconds,
            "peak_bytes": peak,
        }
        output.emit_json("pack.build", data, source="host")
        return
    output.emit(
        f"{path}: {size / (1 << 20):.1f} MiB, {scheme.name}, in {seconds:.1f} s (host), "
        f"peak memory {peak / (1 << 20):.0f} MiB"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _peak_bytes() -> int:
    """The most memory this process ever had resident."""
    from orkbench_tui.host_memory import peak_bytes

    return peak_bytes() or 0


def _with_peak(display: Progress) -> Progress:
    return lambda what, done, total: display(f"{what}, peak {_peak_bytes() >> 20} MiB", done, total)


@app.command()
def info(pack: PackFile, json: Json = False) -> None:
    """What is in a pack and where it would live on the NPU."""
    from orkbench_tui.cli.pack_report import pack_facts, pack_lines
    from orkbench_tui.runner.orkpack.reader import OrkPack

    with OrkPack.open(pack) as opened:
        if json:
            output.emit_json("pack.info", pack_facts(opened), source="host")
        else:
            output.emit("\n".join(pack_lines(opened)))


@app.command()
def verify(
    pack: PackFile,
    level: Annotated[
        Literal["header", "table", "index", "full"], typer.Option(help="How deep; full reads every byte.")
    ] = "full",
    json: Json = False,
) -> None:
    """Check a pack's checksums; the first damage is named."""
    from orkbench_tui.runner.orkpack.reader import OrkPack

    started = time.perf_counter()
    with OrkPack.open(pack) as opened:
        checked = opened.verify(level)
    seconds = time.perf_counter() - started
    if json:
        data: dict[str, Any] = {
            "file": str(pack),
            "level": level,
            "checked_bytes": checked,
            "seconds": seconds,
        }
        output.emit_json("pack.verify", {**data, "intact": True}, source="host")
        return
    output.emit(f"{pack} is intact: {level}, {checked / (1 << 20):.1f} MiB checked in {seconds:.2f} s (host)")


@app.command()
def diff(first: PackFile, second: PackFile, json: Json = False) -> None:
    """What differs between two packs; the exit code is 1 where anything does."""
    from orkbench_tui.cli.pack_report import differences
    from orkbench_tui.runner.orkpack.reader import OrkPack

    with OrkPack.open(first) as one, OrkPack.open(second) as other:
        # Checksums of damaged weights are those of the whole ones: without this, damage would be no difference.
        one.verify("full")
        other.verify("full")
        found = differences(one, other)
    if json:
        data = {"first": str(first), "second": str(second), "differences": found}
        output.emit_json("pack.diff", data, source="host")
    else:
        lines = [f"{row['what']}: {row['first']} | {row['second']}" for row in found]
        output.emit("\n".join(lines) or "no difference in scheme, source, metadata or tensors")
    if found:
        raise typer.Exit(ExitCode.FAILED)
