"""Keys and values of attention as weights that stay in NPU memory and grow by one key at a time.

Scores are ``q x K^T`` and the output is ``e x V``, so one head holds two int8 weights: the keys as
[Lmax, 512] (a head's dimensions padded with zeros to the contraction the chip wants) and the values
transposed as [head_dim, Lmax]. A new key touches head_dim bytes of each. Keys not yet there are zeros
and add nothing, so both weights are always what a full repack of the same keys would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.attention_limits import KEY_CONTRACTION, KEY_STEP, most_keys
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.weights import KSlice, Weight
from orkbench_tui.driver.memory import Slice

__all__ = ["ResidentKv", "key_offsets", "merged_ranges", "value_offsets"]

_TILE = KEY_STEP
_BLOCK = _TILE * _TILE
_MERGE_GAP = 4096
"""Cleaning a page more costs less than another call into the kernel."""


def key_offsets(key: int | np.ndarray, dims: np.ndarray) -> np.ndarray:
    """Byte offset of dimensions ``dims`` of key ``key`` in the key weight."""
    tiles = KEY_CONTRACTION // _TILE
    return key // _TILE * tiles * _BLOCK + dims // _TILE * _BLOCK + key % _TILE * _TILE + dims % _TILE


def value_offsets(key: int | np.ndarray, dims: np.ndarray, max_keys: int) -> np.ndarray:
    """Byte offset of dimensions ``dims`` of key ``key`` in the value weight of ``max_keys`` keys."""
    tiles = max_keys // _TILE
    return dims // _TILE * tiles * _BLOCK + key // _TILE * _BLOCK + dims % _TILE * _TILE + key % _TILE


def merged_ranges(offsets: Iterable[int] | np.ndarray, gap: int = _MERGE_GAP) -> list[tuple[int, int]]:
    """``(start, end)`` of the bytes at ``offsets``, those less than ``gap`` apart in one range."""
    places = np.sort(np.fromiter(offsets, np.int64) if not isinstance(offsets, np.ndarray) else offsets, None)
    if not places.size:
        return []
    after = np.flatnonzero(np.diff(places) > gap)
    starts, ends = places[np.r_[0, after + 1]], places[np.r_[after, len(places) - 1]] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


class ResidentKv:
    """Keys and values of one head for up to ``max_keys`` keys.

    ``head_dim`` is a multiple of 32 up to 512, ``max_keys`` one up to the columns a program takes.

    Raises:
        OperandError: other sizes.
        NoMemoryError: it does not fit.
    """

    def __init__(self, context: Context, head_dim: int, max_keys: int, name: str = "kv") -> None:
        context.require_ready("allocating keys and values")
        _require_size("head_dim", head_dim, KEY_CONTRACTION)
        _require_size("max_keys", max_keys, most_keys(context.soc))
        self._context = context
        self.head_dim = head_dim
        self.max_keys = max_keys
        self.length = 0
        self._dims = np.arange(head_dim)
        self._keys = self._weight(f"{name}.k", KEY_CONTRACTION, max_keys)
        self.values = self._weight(f"{name}.v", max_keys, head_dim)

    def _weight(self, name: str, k: int, n: int) -> Weight:
        # A fresh buffer is zeros on both sides, which is the empty weight.
        buffer = self._context.memory.allocate(k * n)
        return Weight(name, INT8, k, n, buffer, (KSlice(0, k, 0),))

    @property
    def keys(self) -> Weight:
        """The key weight, as wide as the keys there are, rounded up to 32; K is 512.

        Raises:
            LifetimeError: there is no key yet.
        """
        if not self.length:
            raise LifetimeError("reading resident keys", why="no key was appended yet")
        width = -(-self.length // _TILE) * _TILE
        full = self._keys
        return replace(full, n=width)

    def append(self, key: np.ndarray, value: np.ndarray, position: int | None = None) -> int:
        """One key and value, int8 [head_dim]; see ``extend``. Returns the position."""
        for what, row in (("key", key), ("value", value)):
            require_array(row, (self.head_dim,), INT8.operand, what)
        return self.extend(key[None], value[None], position)

    def extend(self, keys: np.ndarray, values: np.ndarray, position: int | None = None) -> int:
        """Write keys and values, int8 [some, head_dim], from ``position`` on (default behind the last one).

        Only their bytes are written and only the ranges they lie in are cleaned. Returns the position of the first.
        Not while a job may read this head.

        Raises:
            OperandError: arrays that do not fit, or a position outside 0 to the keys there are.
            LifetimeError, NoDeviceError: freed or closed.
        """
        at, count = self.length if position is None else position, len(keys)
        if not 0 <= at <= self.length or at + count > self.max_keys:
            raise OperandError(
                "appending a key",
                why=f"position {at}, allowed: 0 to {min(self.length, self.max_keys - count)} of {self.max_keys} keys",
            )
        for what, rows in (("keys", keys), ("values", values)):
            require_array(rows, (count, self.head_dim), INT8.operand, what)
        self._context.require_ready("appending a key", (self._keys.buffer, self.values.buffer))
        numbers = np.arange(at, at + count)[:, None]
        self._write(self._keys, key_offsets(numbers, self._dims), keys)
        self._write(self.values, value_offsets(numbers, self._dims, self.max_keys), values)
        self.length = max(self.length, at + count)
        return at

    def _write(self, weight: Weight, offsets: np.ndarray, rows: np.ndarray) -> None:
        weight.buffer.view[offsets] = rows.view(np.uint8)
        for start, end in merged_ranges(offsets):
            self._context.memory.sync(Slice(weight.buffer, start, end - start), uapi.SyncFlag.TO_DEVICE)

    def free(self) -> None:
        """Release both weights; what was compiled with them refuses to run afterwards."""
        for weight in (self._keys, self.values):
            self._context.memory.free(weight.buffer)


def _require_size(name: str, value: int, limit: int) -> None:
    if value % _TILE or not _TILE <= value <= limit:
        raise OperandError(
            "keys and values", why=f"{name} = {value}, allowed: multiples of {_TILE} up to {limit}"
        )
