"""Attention of one query over resident keys and values, split between the NPU and the host.

The NPU does the two products with int8 codes; the host does the softmax between them in floating point,
with the maximum subtracted. Keys have a scale each. Values share one: a scale per key would have to go
inside the sum.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver import guards
from orkbench_tui.driver.attention_limits import KEY_CONTRACTION, LEAST_KEYS
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.compiled import Matmul
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.precompiled import PrecompiledProgram
from orkbench_tui.driver.resident_kv import ResidentKv
from orkbench_tui.driver.task_rules import FULL_K_GRANULE, FULL_K_LIMIT

__all__ = ["HeadAttention", "codes", "softmax_codes"]

_TOP = 127
Floats = NDArray[np.float32]


def codes(values: Floats, scale: float | NDArray[np.float64]) -> NDArray[np.int8]:
    """``values * scale`` as int8, halves away from zero, saturated at ±127."""
    scaled = values.astype(np.float64) * scale
    rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.clip(rounded, -_TOP, _TOP).astype(np.int8)


def softmax_codes(weights: Floats, scale: float | None = None) -> tuple[NDArray[np.int8], float]:
    """Softmax weights as int8 and their scale, which is 127 over the largest.

    Raises:
        RefusedError: another ``scale``, under which the largest is not 127 (GRD-16).
    """
    largest = float(weights.max())
    fitting = _TOP / largest
    if scale is not None and int(scale * largest + 0.5) != _TOP:
        guards.refuse(
            "GRD-16",
            seen=f"scale {scale:g} for weights up to {largest:.3g}, allowed: {fitting:.6g}",
        )
    used = fitting if scale is None else scale
    return codes(weights, used), used


class _Leg(Protocol):
    """One product, compiled: fill ``a``, ``run``, read ``outputs``."""

    outputs: tuple[np.ndarray, ...]

    def run(self) -> None: ...

    def close(self) -> None: ...


class _OnOneCore:
    """A product outside the envelope of compiled programs, as a blocking matmul."""

    def __init__(self, context: Context, weight: Weight, a: np.ndarray, core: int) -> None:
        self._matmul = Matmul(context, [weight], 1, a=a)
        self._core = core
        self.outputs = self._matmul.outputs

    def run(self) -> None:
        self._matmul.run_on(self._core)

    def close(self) -> None:
        self._matmul.close()


def _leg(context: Context, weight: Weight, a: np.ndarray, core: int) -> _Leg:
    if weight.k % FULL_K_GRANULE == 0 and weight.k <= FULL_K_LIMIT:
        return PrecompiledProgram(context, [weight], a, core=core)
    return _OnOneCore(context, weight, a, core)


class HeadAttention:
    """One head: ``append`` keys and values, ``attend`` with a query.

    Args:
        value_scale: codes per unit of the values, 127 over the largest magnitude they may have; values
            beyond saturate and are counted in ``clipped``.

    Raises:
        OperandError: sizes ``ResidentKv`` does not take, or a scale that is not positive.
    """

    def __init__(
        self,
        context: Context,
        head_dim: int,
        max_keys: int,
        *,
        value_scale: float,
        core: int = 0,
        name: str = "attention",
    ) -> None:
        if not (value_scale > 0 and np.isfinite(value_scale)):
            raise OperandError("attention", why=f"value scale {value_scale}; allowed: positive numbers")
        self._context = context
        self._core = core
        self.kv = ResidentKv(context, head_dim, max_keys, name)
        self.clipped = 0
        self._value_scale = value_scale
        self._key_scales = np.zeros(max_keys)
        self._query = np.zeros((1, KEY_CONTRACTION), np.int8)
        self._weights = np.zeros((1, max_keys), np.int8)
        self._values = _leg(context, self.kv.values, self._weights, core)
        self._keys: _Leg | None = None
        self._width = 0

    def append(self, key: Floats, value: Floats) -> int:
        """Add one key and value, float32 [head_dim]; see ``extend``. Returns its position."""
        for what, row in (("key", key), ("value", value)):
            require_array(row, (self.kv.head_dim,), np.float32, what)
        return self.extend(key[None], value[None])

    def extend(self, keys: Floats, values: Floats) -> int:
        """Add keys and values, float32 [some, head_dim]; returns the position of the first.

        Raises:
            OperandError: arrays of another type or shape, numbers that are not finite, or no room.
            LifetimeError, NoDeviceError: freed or closed.
        """
        for what, rows in (("key", keys), ("value", values)):
            self._require_rows(what, rows)
        largest = np.abs(keys).max(axis=1).astype(np.float64)
        scales = _TOP / np.where(largest > 0, largest, 1.0)
        at = self.kv.extend(codes(keys, scales[:, None]), codes(values, self._value_scale))
        self._key_scales[at : at + len(keys)] = scales
        self.clipped += int(np.count_nonzero(np.abs(values) * self._value_scale > _TOP + 0.5))
        return at

    def attend(self, query: Floats) -> Floats:
        """``softmax(q K^T / sqrt(head_dim)) V`` over the keys there are, float32 [head_dim].

        Raises:
            RefusedError: fewer than 256 keys (GRD-15); nothing was submitted.
            OperandError: a query of another type or shape, or with numbers that are not finite.
            LifetimeError, NoDeviceError, UnhealthyError: see ``PrecompiledProgram.run``.
        """
        require_array(query, (self.kv.head_dim,), np.float32, "query")
        self._require_rows("query", query[None])
        length = self.kv.length
        if length < LEAST_KEYS:
            guards.refuse("GRD-15", seen=f"{length} keys, allowed: from {LEAST_KEYS}")
        query_scale = _TOP / (float(np.abs(query).max()) or 1.0)
        self._query[0, : self.kv.head_dim] = codes(query, query_scale)
        keys = self._key_leg()
        keys.run()
        sums = keys.outputs[0][0, :length].astype(np.float64)
        scores = sums / (query_scale * self._key_scales[:length]) / np.sqrt(self.kv.head_dim)
        exponents = np.exp(scores - scores.max())
        weights, _ = softmax_codes((exponents / exponents.sum()).astype(np.float32))
        self._weights[0, :length] = weights
        self._values.run()
        # Over the sum of the codes: what rounding took from many small weights is missing in no value then.
        total = int(weights.sum(dtype=np.int64))
        result = self._values.outputs[0][0, : self.kv.head_dim] / (total * self._value_scale)
        return np.asarray(result, dtype=np.float32)

    def _key_leg(self) -> _Leg:
        """The product with the keys, compiled anew when they have grown by a tile."""
        weight = self.kv.keys
        if self._keys is None or weight.n != self._width:
            fresh = _leg(self._context, weight, self._query, self._core)
            if self._keys is not None:
                self._keys.close()
            self._keys, self._width = fresh, weight.n
        return self._keys

    def _require_rows(self, what: str, rows: np.ndarray) -> None:
        require_array(rows, (len(rows), self.kv.head_dim), np.float32, what)
        if not np.isfinite(rows).all():
            at = int(np.argmax(~np.isfinite(rows)))
            raise OperandError(
                what, why=f"{rows.flat[at]} at element {at % self.kv.head_dim}; allowed: finite numbers"
            )

    def free(self) -> None:
        """Give all memory back; the head cannot be used afterwards."""
        for leg in (self._keys, self._values):
            if leg is not None:
                leg.close()
        self.kv.free()
