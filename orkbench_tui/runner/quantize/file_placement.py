"""Where the weights of a file live on the NPU, or would."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.layout import PACK_EXTENSION
from orkbench_tui.runner.orkpack.placement import Placement
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import plan_model

__all__ = ["placement_of_file"]


def placement_of_file(path: Path) -> Placement:
    """Of a pack what its builder placed, of a model file what the planner would. Raises OrkError."""
    if path.suffix == PACK_EXTENSION:
        with OrkPack.open(path) as pack:
            return pack.placement
    with GgufFile.open(path) as file:
        return plan_model(architecture_of(file))
