"""A model's sizes from its file alone: a GGUF or a pack, nothing of it loaded."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.driver.timing.shapes import ModelShape
from orkbench_tui.runner.models.model_shape import model_shape

__all__ = ["header_shape"]


def header_shape(path: Path) -> ModelShape:
    """Raises what opening the file raises; a pack is known by what it begins with."""
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.models.read_architecture import architecture_of
    from orkbench_tui.runner.orkpack.layout import MAGIC
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.user_files import open_regular

    with open_regular(path, "model file") as handle:
        begins = handle.read(len(MAGIC))
    if begins == MAGIC:
        with OrkPack.open(path) as pack:
            return model_shape(pack.architecture)
    with GgufFile.open(path) as model:
        return model_shape(architecture_of(model))
