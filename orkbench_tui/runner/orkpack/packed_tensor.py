"""A weight of a pack as stored, and as the tiles it is multiplied from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkbench_tui.runner.orkpack.layout import DType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.native.expert_steps import NibbleRows

__all__ = ["PackedTensor"]


@dataclass(frozen=True, slots=True, eq=False)
class PackedTensor:
    """An int8 or 4-bit weight of K inputs and N outputs.

    ``data`` is a view of the file: int8 tiles in the order [N/32][K/32][32 n][32 k] with zeros in the padding, or
    rows of K / 2 bytes with the even k in the low nibble. ``scales``: float32 [N]; weight (n, k) is its tile
    byte times scales[n], of the row rotated in blocks of ``rotation`` unless 0. ``multipliers``: int8 [N, K / G].
    """

    name: str
    K: int
    N: int
    data: NDArray[np.uint8]
    scales: NDArray[np.float32]
    rotation: int = 0
    dtype: DType = DType.I8
    multipliers: NDArray[np.int8] | None = None

    @property
    def tiles(self) -> NDArray[np.int8]:
        """int8 [padded N · padded K]: the file's own bytes, or made of the 4-bit codes at every call."""
        import numpy as np

        if self.dtype == DType.I8:
            return self.data.view(np.int8)
        from orkbench_tui.native.tiles import inflate_tiles

        rows = self.rows
        assert rows is not None
        return inflate_tiles(rows.nibbles, rows.levels, rows.multipliers)

    @property
    def rows(self) -> NibbleRows | None:
        """A 4-bit weight as the file has it; None for int8."""
        if self.dtype == DType.I8:
            return None
        from orkbench_tui.native.expert_steps import NibbleRows
        from orkbench_tui.runner.quantize.four_bit import nibble_levels

        levels = nibble_levels("uniform" if self.dtype == DType.I4_UNIFORM else "nf4")
        return NibbleRows(self.data.reshape(self.N, self.K // 2), levels, self.scales, self.multipliers)
