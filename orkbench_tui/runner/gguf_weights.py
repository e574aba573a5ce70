"""A GGUF file as float32 weights, for the engine's high-precision way of running."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import (
    EMBEDDING_NAME,
    HEAD_NAME,
    Architecture,
    architecture_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GgufWeights"]


class GgufWeights:
    """Tensors of an open GGUF file by name; the file must stay open. A tied head is the embedding."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file

    @cached_property
    def architecture(self) -> Architecture:
        return architecture_of(self._file)

    def raw(self, name: str) -> NDArray[np.float32]:
        """A whole tensor as float32, a row per output; KeyError where there is none."""
        return self._file.dequantized(self._stored(name))

    def raw_rows(self, name: str, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows ``ids`` as float32; IndexError where there is no such row."""
        return self._file.dequantized_rows(self._stored(name), ids)

    def _stored(self, name: str) -> str:
        return EMBEDDING_NAME if name == HEAD_NAME and self.architecture.tied_head else name
