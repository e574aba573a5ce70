"""``ork kernel patches``: the patch series for the rknpu driver, on a source tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.errors import RefusedError

if TYPE_CHECKING:
    from orkbench_tui.ops.kernel.patch_series import Patch, Series
    from orkbench_tui.ops.kernel.patch_tree import Finding

app = typer.Typer(
    help="Patches for the rknpu driver: list, check, apply, build.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

_Tree = Annotated[Path, typer.Argument(metavar="TREE", help="A kernel tree, or the driver's own sources.")]
_Only = Annotated[
    str,
    typer.Option(
        "--only", metavar="NAMES", help="These by comma, with what they need; else all but optional."
    ),
]
_Folder = Annotated[
    Path | None, typer.Option("--series", metavar="DIR", help="Another folder with a series.toml.")
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


@app.callback()
def _group() -> None:
    """Patches for the rknpu driver: list, check, apply, build."""


def _series(folder: Path | None) -> Series:
    from orkbench_tui.ops.kernel.patch_series import default_folder, load_series

    return load_series(folder or default_folder())


def _names(only: str) -> tuple[str, ...]:
    return tuple(name for name in only.split(",") if name)


@app.command("list")
def list_(series: _Folder = None, json: _Json = False) -> None:
    """Every patch: what it is for, its risk, how to verify it, and the driver versions it fits."""
    found = _series(series)
    if json:
        output.emit_json("kernel.patches", [_patch_row(patch) for patch in found.patches], source="host")
        return
    for patch in found.patches:
        extra = "optional" if patch.optional else "part of the series"
        output.emit(f"{patch.id}  ({', '.join(patch.files)}; {extra})")
        rows = (("what", patch.title), ("why", patch.purpose), ("risk", patch.risk), ("verify", patch.verify))
        for name, text in (*rows, ("needs", ", ".join(patch.needs)), ("note", patch.note)):
            if text:
                output.emit(f"  {name:<7}{text}")


def _patch_row(patch: Patch) -> dict[str, Any]:
    return {
        "id": patch.id,
        "title": patch.title,
        "purpose": patch.purpose,
        "risk": patch.risk,
        "verify": patch.verify,
        "rollback": patch.rollback,
        "needs": list(patch.needs),
        "optional": patch.optional,
        "note": patch.note or None,
        "files": {tree: path.name for tree, path in patch.files.items()},
    }


def _emit(schema: str, tree_line: str, findings: list[Finding], facts: dict[str, Any], json: bool) -> None:
    if json:
        rows = [
            {"id": one.patch.id, "state": one.state.value, "detail": one.detail or None} for one in findings
        ]
        output.emit_json(schema, {**facts, "patches": rows}, source="host")
        return
    output.emit(tree_line)
    for one in findings:
        output.emit(f"  {one.patch.id:<18}{one.state.value}" + (f": {one.detail}" if one.detail else ""))


@app.command()
def check(tree: _Tree, only: _Only = "", series: _Folder = None, json: _Json = False) -> None:
    """What each patch would do to a tree; exit code 7 when one does not fit. Changes nothing."""
    from orkbench_tui.ops.kernel.patch_tree import State, check_patches, find_tree

    found = _series(series)
    place = find_tree(tree, found)
    findings = check_patches(place, found, found.chosen(_names(only), place.variant))
    facts = {"driver": place.version, "folder": place.driver, "variant": place.variant or None}
    _emit("kernel.patches.check", f"rknpu {place.version} in {place.driver}", findings, facts, json)
    stuck = [one for one in findings if one.state not in (State.FITS, State.APPLIED)]
    if not findings:
        raise RefusedError(
            f"no patch is made for driver {place.version}",
            why=f"there are variants for {', '.join(found.trees)}",
        )
    if stuck:
        raise RefusedError(
            f"{len(stuck)} of {len(findings)} patches do not fit",
            why=f"{stuck[0].patch.id}: {stuck[0].state.value}",
            do="choose with --only, or port them",
        )


@app.command()
def apply(tree: _Tree, only: _Only = "", series: _Folder = None, json: _Json = False) -> None:
    """Apply what is not applied yet: all of it, or nothing."""
    from orkbench_tui.ops.kernel.patch_tree import apply_patches, find_tree

    found = _series(series)
    place = find_tree(tree, found)
    chosen = found.chosen(_names(only), place.variant)
    findings = apply_patches(place, found, chosen)
    facts = {"driver": place.version, "folder": place.driver, "variant": place.variant or None}
    _emit(
        "kernel.patches.apply", f"rknpu {place.version} in {place.driver}, now with:", findings, facts, json
    )
    for patch in chosen:
        if patch.note:
            diagnostics.note(f"{patch.id}: {patch.note}")


@app.command()
def build(
    tree: _Tree,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder outside the tree.")],
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="That of the running kernel.")],
    only: _Only = "",
    series: _Folder = None,
    suffix: Annotated[str, typer.Option("--localversion", help="Makes the release its own.")] = "-ork1",
    cross: Annotated[
        str, typer.Option("--cross", help="Prefix of the cross compiler.")
    ] = "aarch64-linux-gnu-",
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Compilers at a time; 0 for one per CPU.")] = 0,
    json: _Json = False,
) -> None:
    """Cross-build a kernel with its modules, device trees and the manifest that deploy reads."""
    from orkbench_tui.ops.kernel.build import BuildOrder, build_kernel
    from orkbench_tui.ops.kernel.patch_tree import find_tree

    found = _series(series)
    place = find_tree(tree, found)
    order = BuildOrder(
        place,
        found,
        found.chosen(_names(only), place.variant),
        out,
        config,
        suffix,
        cross,
        jobs or os.cpu_count() or 1,
    )
    folder = build_kernel(
        order, diagnostics.status if diagnostics.stderr_is_terminal() else lambda text: None
    )
    if json:
        output.emit_json("kernel.patches.build", {"folder": str(folder)}, source="host")
    else:
        output.emit(f"{folder}: add an initrd.img, then `ork kernel deploy {folder}` on the board")
