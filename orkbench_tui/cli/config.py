"""``ork config``: settings as they are in force."""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, output
from orkbench_tui.settings import Settings

app = typer.Typer(
    help="Show settings and where they come from.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Show settings and where they come from."""


@app.command()
def show(json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Every setting with its value, its origin and its meaning."""
    from orkbench_tui.upstream_variables import variable_warnings

    settings, origins = Settings.load(), Settings.origins()
    path = locations.config_file()
    for line in variable_warnings(os.environ):
        diagnostics.warn(line)
    if json:
        data = {"file": str(path), "settings": dataclasses.asdict(settings), "origins": origins}
        output.emit_json("config", data, source="host")
        return
    output.emit(f"# {path}{'' if path.exists() else ' (not there; defaults)'}")
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        shown = f'"{value}"' if isinstance(value, str) else value
        origin = "" if origins[field.name] == "default" else f" [{origins[field.name]}]"
        output.emit(f"{field.name} = {shown}  # {field.metadata['doc']}{origin}")
