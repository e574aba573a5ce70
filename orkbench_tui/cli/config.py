"""``ork config``: settings as they are in force."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from orkbench_tui import locations
from orkbench_tui.cli import output
from orkbench_tui.settings import Settings

app = typer.Typer(help="Show settings and where they come from.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def _group() -> None:
    """Show settings and where they come from."""


@app.command()
def show(json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Every setting with its value and meaning."""
    settings = Settings.load()
    if json:
        output.emit_json(
            "config",
            {"file": str(locations.config_file()), "settings": dataclasses.asdict(settings)},
            source="host",
        )
        return
    output.emit(f"# {locations.config_file()}")
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        shown = f'"{value}"' if isinstance(value, str) else value
        output.emit(f"{field.name} = {shown}  # {field.metadata['doc']}")
