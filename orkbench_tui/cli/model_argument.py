"""The model file a command's word names."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.errors import UsageError

__all__ = ["model_path"]


def model_path(model: str) -> Path:
    """Path of a catalogue name's file or of a file named itself; UsageError where it is not here."""
    from orkbench_tui.runner import model_store

    entry, path = model_store.locate(model, locations.models_dir())
    if not path.exists():
        name = entry.name if entry else model
        raise UsageError(f"{name} is not here", do=f"run: ork model pull {name}")
    return path
