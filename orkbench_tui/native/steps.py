"""A list of steps over preallocated arrays, run by the kernels in one call without the interpreter.

Each method appends one step and checks its arrays' types and shapes; R stands for the rows the
arrays have room for, and a run may use any number up to the smallest R. Codes and their scales go
together: int8 [R, padded width] with float32 [R].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, available_threads, ffi, lib, require
from orkbench_tui.native.rotation import check_rotation
from orkbench_tui.native.tiles import padded

__all__ = ["HEAD_DIM_MAX", "KEY_BLOCK", "CacheArrays", "Codes", "GateFunction", "Steps"]

Floats = NDArray[np.float32]
GateFunction = Literal["silu", "gelu_tanh"]

HEAD_DIM_MAX = 256
KEY_BLOCK = 32
_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Quantized rows: ``values`` int8 [R, padded width], ``scales`` float32 [R].

    ``rotation`` is the block of the Walsh-Hadamard transform a row goes through before it is
    quantized, 0 for none; see ``native.rotation``.
    """

    values: NDArray[np.int8]
    scales: Floats
    rotation: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CacheArrays:
    """One layer's keys [kv_heads, capacity / 32, head_dim, 32] and values [kv_heads, capacity, head_dim].

    Both float32, float16 or int8; int8 with float32 [kv_heads, capacity] scales of each.
    """

    keys: np.ndarray
    values: np.ndarray
    key_scales: Floats | None = None
    value_scales: Floats | None = None


_CACHE_TYPES: dict[type, int] = {
    np.float32: lib.ORK_CACHE_F32,
    np.float16: lib.ORK_CACHE_F16,
    np.int8: lib.ORK_CACHE_INT8,
}


class Steps:
    """See the module. ``join=False`` lets threads go on to the next step, which must not need this one."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, str, bool, dict[str, Any]]] = []
        self._kept: list[object] = []
        self._compiled: Any = None
        self.rows = _UNLIMITED
        self.positions = _UNLIMITED

    def __len__(self) -> int:
        return len(self._steps)

    def _array(self, array: np.ndarray | None) -> Any:
        if array is None:
            return ffi.NULL
        self._kept.append(array)
        return address(array, "void *")

    def keep(self, owners: Iterable[object]) -> None:
        """Holds arrays, or what owns them, whose addresses are in a step's own tables."""
        self._kept += owners

    def _limit(self, *arrays: np.ndarray) -> None:
        self.rows = min(self.rows, *(len(array) for array in arrays))

    def _append(self, kind: str, member: str, join: bool, fields: Mapping[str, Any]) -> None:
        converted = {
            name: self._array(value) if value is None or isinstance(value, np.ndarray) else value
            for name, value in fields.items()
        }
        self._steps.append((kind, member, join, converted))
        self._compiled = None

    def _codes(self, codes: Codes | None, width: int) -> dict[str, Any]:
        """The fields of a step that writes or reads codes of ``width`` values a row."""
        if codes is None:
            return {"codes": None, "code_scales": None, "code_stride": 0}
        require(codes.values, np.int8, (None, padded(width)), "codes")
        require(codes.scales, np.float32, (None,), "code scales")
        self._limit(codes.values, codes.scales)
        return {
            "codes": codes.values,
            "code_scales": codes.scales,
            "code_stride": codes.values.shape[1],
        }

    def _written(self, codes: Codes | None, width: int) -> dict[str, Any]:
        """The fields of a step that quantizes rows of ``width`` values."""
        rotation = 0 if codes is None else codes.rotation
        if rotation:
            check_rotation(width, rotation)
        return {**self._codes(codes, width), "rotation": rotation}

    def norm(
        self,
        source: Floats,
        weight: Floats,
        output: Floats,
        *,
        epsilon: float,
        groups: int = 1,
        accumulate: bool = False,
        codes: Codes | None = None,
        join: bool = True,
    ) -> None:
        """``output (+)= source / rms(source) * weight`` over each of ``groups`` parts of a row.

        source, output [R, groups * width] (may be the same array unless accumulating), weight [width], or
        [groups, width] where each has its own; the output is also quantized when ``codes`` are given (one
        group only).
        """
        own = weight.ndim == 2
        width = require(weight, np.float32, (groups, None) if own else (None,), "norm weight").shape[-1]
        for name, array in (("norm input", source), ("norm output", output)):
            require(array, np.float32, (None, groups * width), name)
        if codes is not None and groups != 1:
            raise ValueError("only a norm over the whole row can quantize it")
        self._limit(source, output)
        fields = {"input": source, "weight": weight, "output": output, "width": width, "groups": groups}
        fields |= {"epsilon": epsilon, "accumulate": int(accumulate), "weight_stride": width if own else 0}
        self._append("NORM", "norm", join, fields | self._written(codes, width))

    def quantize(self, source: Floats, codes: Codes, *, groups: int = 1, join: bool = True) -> None:
        """Rows of ``source``, rotated if the codes say so, to codes: scale absmax / 127, halves away from 0.

        source [R, groups * width], codes [R * groups, padded width]: each of the ``groups`` parts on its own.
        """
        width = source.shape[1] // groups
        require(source, np.float32, (None, groups * width), "quantizer input")
        rows = min(self.rows, len(source), len(codes.values) // groups, len(codes.scales) // groups)
        fields = {"input": source, "width": width, "groups": groups, **self._written(codes, width)}
        self.rows = rows
        self._append("QUANTIZE", "quantize", join, fields)

    def checked_step(
        self, kind: str, rows: int, fields: Mapping[str, Any], *, member: str = "", join: bool = True
    ) -> None:
        """Appends a step of a module beside this one, which has checked its arrays; they hold ``rows`` rows.

        ``member`` is the record it shares with other kinds, where it has none of its own name.
        """
        self.rows = min(self.rows, rows)
        self._append(kind.upper(), member or kind, join, fields)

    def matmul(
        self,
        codes: Codes,
        tiles: NDArray[np.int8],
        weight_scales: Floats,
        output: Floats,
        *,
        bias: Floats | None = None,
        accumulate: bool = False,
        join: bool = True,
    ) -> None:
        """``output (+)= (codes x tiles) * (code scale * weight scale) + bias``, sums exact in int32.

        output [R, N], weight_scales and bias [N], tiles [padded(N) * padded(K)].
        """
        (n,) = require(weight_scales, np.float32, (None,), "weight scales").shape
        k = codes.values.shape[1]
        require(tiles, np.int8, (padded(n) * k,), "tiles")
        fields = {"tiles": tiles, "k": k, **self._scaled(weight_scales, bias, output, accumulate)}
        self._append("MATMUL", "matmul", join, fields | self._codes(codes, k))

    def dequantize(
        self,
        sums: NDArray[np.int32],
        code_scales: Floats,
        weight_scales: Floats,
        output: Floats,
        *,
        bias: Floats | None = None,
        accumulate: bool = False,
        join: bool = True,
    ) -> None:
        """What ``matmul`` does with its sums, for sums [R, ≥ N] int32 from elsewhere (any row stride)."""
        (n,) = weight_scales.shape
        if sums.dtype != np.int32 or sums.ndim != 2 or sums.shape[1] < n or sums.strides[1] != 4:
            raise ValueError(f"sums must be int32 rows of at least {n} adjacent values")
        require(code_scales, np.float32, (None,), "code scales")
        self._limit(sums, code_scales)
        fields = {"sums": sums, "code_scales": code_scales, "sum_stride": sums.strides[0] // 4}
        fields |= self._scaled(weight_scales, bias, output, accumulate)
        self._append("DEQUANTIZE", "dequantize", join, fields)

    def _scaled(
        self, weight_scales: Floats, bias: Floats | None, output: Floats, accumulate: bool
    ) -> dict[str, Any]:
        (n,) = require(weight_scales, np.float32, (None,), "weight scales").shape
        require(output, np.float32, (None, n), "matmul output")
        if bias is not None:
            require(bias, np.float32, (n,), "bias")
        self._limit(output)
        fields: dict[str, Any] = {"weight_scales": weight_scales, "bias": bias, "output": output, "n": n}
        return fields | {"output_stride": n, "accumulate": int(accumulate)}

    def add(
        self,
        source: Floats,
        output: Floats,
        *,
        bias: Floats | None = None,
        accumulate: bool = False,
        join: bool = True,
    ) -> None:
        """``output (+)= source + bias``; source, output [R, width], bias [width]."""
        require(source, np.float32, (None, None), "addend")
        width = source.shape[1]
        require(output, np.float32, (None, width), "sum")
        if bias is not None:
            require(bias, np.float32, (width,), "bias")
        self._limit(source, output)
        fields = {"input": source, "bias": bias, "output": output, "width": width}
        self._append("ADD", "add", join, fields | {"accumulate": int(accumulate)})

    def rope(
        self,
        values: Floats,
        cosines: Floats,
        sines: Floats,
        *,
        heads: int,
        halves: bool,
        join: bool = True,
    ) -> None:
        """Rotates heads in place by their position; values [R, heads * head_dim], tables [positions, dims / 2].

        Pairs are (i, i + dims / 2) with ``halves`` ("neox"), else (2i, 2i + 1) ("norm").
        """
        require(values, np.float32, (None, None), "rotated values")
        require(cosines, np.float32, (None, None), "cosines")
        require(sines, np.float32, cosines.shape, "sines")
        head_dim, dims = values.shape[1] // heads, 2 * cosines.shape[1]
        if head_dim * heads != values.shape[1] or dims > head_dim:
            raise ValueError(f"{values.shape[1]} values are not {heads} heads of at least {dims}")
        self._limit(values)
        self.positions = min(self.positions, len(cosines))
        fields = {"values": values, "cosines": cosines, "sines": sines, "heads": heads}
        fields |= {"head_dim": head_dim, "dims": dims, "halves": int(halves)}
        self._append("ROPE", "rope", join, fields)

    def append(self, keys: Floats, values: Floats, cache: CacheArrays, *, join: bool = True) -> None:
        """Stores keys and values [R, kv_heads * head_dim] at their positions."""
        fields = self._cache(cache)
        width = fields["kv_heads"] * fields["head_dim"]
        require(keys, np.float32, (None, width), "keys")
        require(values, np.float32, (None, width), "values")
        self._limit(keys, values)
        self._append("APPEND", "append", join, {"keys": keys, "values": values, **fields})

    def attention(
        self,
        queries: Floats,
        output: Floats,
        cache: CacheArrays,
        *,
        heads: int,
        scale: float,
        window: int = 0,
        cap: float = 0.0,
        join: bool = True,
    ) -> None:
        """Causal attention of each row, at its position, over the cache.

        queries, output [R, heads * head_dim]. ``window`` > 0: only the last that many positions count.
        ``cap`` > 0: scores pass cap * tanh(score / cap).
        """
        fields = self._cache(cache)
        if heads % fields["kv_heads"]:
            raise ValueError(f"{heads} heads cannot share {fields['kv_heads']} key-value heads")
        for name, array in (("queries", queries), ("attention output", output)):
            require(array, np.float32, (None, heads * fields["head_dim"]), name)
        self._limit(queries, output)
        fields |= {"queries": queries, "output": output, "heads": heads, "scale": scale, "window": window}
        fields["cap"] = cap
        self._append("ATTENTION", "attention", join, fields)

    def _cache(self, cache: CacheArrays) -> dict[str, Any]:
        kv_heads, capacity, head_dim = cache.values.shape
        dtype = cache.values.dtype.type
        if dtype not in _CACHE_TYPES:
            raise ValueError(f"a cache of {cache.values.dtype}, known are float32, float16 and int8")
        require(cache.values, dtype, (None, None, None), "value cache")
        require(cache.keys, dtype, (kv_heads, capacity // KEY_BLOCK, head_dim, KEY_BLOCK), "key cache")
        if (dtype is np.int8) != (cache.key_scales is not None and cache.value_scales is not None):
            raise ValueError("an int8 cache, and no other, has scales")
        for scales in (cache.key_scales, cache.value_scales):
            if scales is not None:
                require(scales, np.float32, (kv_heads, capacity), "cache scales")
        if capacity % KEY_BLOCK or head_dim % 8 or not 0 < head_dim <= HEAD_DIM_MAX:
            raise ValueError(
                f"the cache holds multiples of {KEY_BLOCK} positions and heads of 8 to {HEAD_DIM_MAX} values "
                f"in steps of 8, not {capacity} and {head_dim}"
            )
        self.positions = min(self.positions, capacity)
        fields: dict[str, Any] = {"key_cache": cache.keys, "value_cache": cache.values, "kv_heads": kv_heads}
        fields |= {"key_scales": cache.key_scales, "value_scales": cache.value_scales}
        return fields | {"head_dim": head_dim, "capacity": capacity, "type": _CACHE_TYPES[dtype]}

    def gated(
        self,
        gate: Floats,
        up: Floats,
        output: Floats,
        *,
        function: GateFunction,
        codes: Codes | None = None,
        join: bool = True,
    ) -> None:
        """``output = function(gate) * up``, all [R, width]; also quantized when ``codes`` are given."""
        require(gate, np.float32, (None, None), "gate")
        width = gate.shape[1]
        require(up, np.float32, (None, width), "up")
        require(output, np.float32, (None, width), "gated output")
        self._limit(gate, up, output)
        code = {"silu": lib.ORK_SILU, "gelu_tanh": lib.ORK_GELU_TANH}[function]
        fields = {"gate": gate, "up": up, "output": output, "width": width, "function": code}
        self._append("GATED", "gated", join, fields | self._written(codes, width))

    def cap(self, values: Floats, limit: float, *, join: bool = True) -> None:
        """``values = limit * tanh(values / limit)`` in place, [R, width]."""
        require(values, np.float32, (None, None), "capped values")
        self._limit(values)
        fields = {"values": values, "width": values.shape[1], "limit": limit}
        self._append("CAP", "cap", join, fields)

    def _compile(self) -> Any:
        array = ffi.new("ork_step[]", max(1, len(self._steps)))
        for step, (kind, member, join, fields) in zip(array, self._steps, strict=False):
            step.kind = getattr(lib, f"ORK_{kind}")
            step.join = int(join)
            arguments = getattr(step, "as")
            for name, value in fields.items():
                setattr(getattr(arguments, member), name, value)
        return array

    def run(self, rows: int, position: int = 0, threads: int | None = None) -> None:
        """Runs all steps for ``rows`` rows, the first of them at ``position``.

        The result does not depend on the number of threads.

        Raises:
            ValueError: more rows or positions than the arrays hold.
            MemoryError: no memory for the bookkeeping of a run.
        """
        if not 0 <= rows <= self.rows or position < 0 or position + rows > self.positions:
            raise ValueError(
                f"{rows} rows at position {position}; there is room for {self.rows} rows, {self.positions} positions"
            )
        if self._compiled is None:
            self._compiled = self._compile()
        status = lib.ork_plan_run(
            self._compiled, len(self._steps), rows, position, threads or available_threads()
        )
        if status:
            raise MemoryError("no memory to run a plan")
