"""A GGUF file as the float32 weights of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from orkbench_tui.runner.models.architecture import (
    EMBEDDING_NAME,
    HEAD_NAME,
    Architecture,
    split_expert_name,
)
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.quantize.int8 import all_zeros

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.gguf_file import GgufFile

__all__ = ["GgufWeights"]


class GgufWeights:
    """Every tensor dequantized when asked for; the file must stay open as long as this is used."""

    def __init__(self, model: GgufFile) -> None:
        self._model = model

    @cached_property
    def architecture(self) -> Architecture:
        return architecture_of(self._model)

    def raw(self, name: str) -> NDArray[np.float32]:
        """A tensor with a row per output; a tied head and an expert's weight have names of their own.

        Raises:
            InvalidFileError: a matrix of zeros, as in a stub whose weights only its pack has.
        """
        tied = name == HEAD_NAME and self.architecture.tied_head
        tensor, expert = split_expert_name(EMBEDDING_NAME if tied else name)
        if expert is None:
            found = self._model.dequantized(tensor)
        else:
            found = self._model.dequantized_part(tensor, expert)
        if found.ndim > 1 and not found.any():
            raise all_zeros(tensor if expert is None else f"{tensor}, expert {expert},")
        return found

    def raw_rows(self, name: str, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows ``ids`` of a tensor; IndexError where there is no such row."""
        return self._model.dequantized_rows(name, ids)
