"""The O4N1 record: one 4-bit weight with a scale for each output channel, as other programs of the stack store it.

    0  magic 0x4F344E31   4  version   8  K   12  N   16  kind (0 uniform, 1 NF4)
    20 float32 scales [N], then N rows of K / 2 bytes, even k in the low nibble

Little-endian. A uniform nibble is a code of -8..7 in two's complement worth code times scale; an NF4 one is a
level, worth its int8 value times scale.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.runner.orkpack.layout import DType
from orkbench_tui.runner.orkpack.packed_tensor import PackedTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["O4N1_MAGIC", "O4n1"]

O4N1_MAGIC = 0x4F344E31
VERSION = 1
_HEAD = struct.Struct("<IIiiI")
_MAX_SIDE = 1 << 20
# A pack's uniform levels are 16 times the code.
_UNIFORM_STEP = 16
_KINDS = {DType.I4_UNIFORM: 0, DType.I4_CODEBOOK: 1}


@dataclass(frozen=True, slots=True, eq=False)
class O4n1:
    """``scales`` float32 [N], ``nibbles`` uint8 [N, K / 2]; ``kind`` 0 is uniform, 1 NF4."""

    K: int
    N: int
    kind: int
    scales: NDArray[np.float32]
    nibbles: NDArray[np.uint8]

    @classmethod
    def of(cls, tensor: PackedTensor) -> O4n1:
        """The record of a weight of a pack.

        Raises:
            UsageError: it is int8, or has a scale for each group, which the record has no place for.
        """
        import numpy as np

        if tensor.dtype not in _KINDS:
            raise UsageError(f"tensor {tensor.name} holds no 4-bit codes", why="it is stored as int8")
        if tensor.multipliers is not None:
            raise UsageError(
                f"tensor {tensor.name} has groups", why="an O4N1 record has one scale for a channel"
            )
        kind = _KINDS[tensor.dtype]
        step = np.float32(_UNIFORM_STEP if kind == 0 else 1)
        nibbles = tensor.data.reshape(tensor.N, tensor.K // 2)
        return cls(tensor.K, tensor.N, kind, tensor.scales * step, nibbles)

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(O4N1_MAGIC, VERSION, self.K, self.N, self.kind)
        return head + self.scales.astype("<f4").tobytes() + self.nibbles.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, label: str = "record") -> O4n1:
        """InvalidFileError where it is none, cut short, or of sizes nobody packs."""
        import numpy as np

        def bad(why: str) -> InvalidFileError:
            return InvalidFileError(f"{label} is no O4N1 record", why=why, do="make it again from the model")

        if len(data) < _HEAD.size:
            raise bad(f"it has {len(data)} bytes")
        magic, version, K, N, kind = _HEAD.unpack_from(data)
        if magic != O4N1_MAGIC:
            raise bad(f"it begins with {magic:#010x}")
        if version != VERSION or kind not in (0, 1):
            raise bad(f"version {version}, kind {kind}")
        if not 0 < K <= _MAX_SIDE or not 0 < N <= _MAX_SIDE or K % 2:
            raise bad(f"K = {K}, N = {N}")
        if len(data) != _HEAD.size + 4 * N + N * K // 2:
            raise bad(f"it has {len(data)} bytes, {_HEAD.size + 4 * N + N * K // 2} expected")
        scales = np.frombuffer(data, "<f4", N, _HEAD.size)
        if not bool(np.isfinite(scales).all()):
            raise bad("a scale is not a finite number")
        nibbles = np.frombuffer(data, np.uint8, N * K // 2, _HEAD.size + 4 * N).reshape(N, K // 2)
        return cls(K, N, kind, scales, nibbles)

    def tensor(self, name: str, rotation: int = 0) -> PackedTensor:
        """The same weight as a pack has it; its tiles are made of the nibbles when asked for."""
        import numpy as np

        step = np.float32(_UNIFORM_STEP if self.kind == 0 else 1)
        dtype = DType.I4_UNIFORM if self.kind == 0 else DType.I4_CODEBOOK
        return PackedTensor(
            name, self.K, self.N, self.nibbles.reshape(-1), self.scales / step, rotation, dtype
        )
