"""Known-answer checks of the element-wise unit: one operation on seeded operands against numpy.

A check that is exact allows no difference. Table functions state how far a result may be from the real
function: in codes for integer types, relative to the largest result for fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.sdp.formats import FORMATS, SdpFormat
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS, TABLE_EVIDENCE
from orkbench_tui.driver.sdp.ops import Sdp
from orkbench_tui.driver.sdp.table import ROWS, Evidence, Operand, row_for
from orkbench_tui.errors import UsageError

__all__ = ["CHECKED_TABLES", "REFERENCES", "Available", "OpCheck", "available", "checked_op", "run_op"]

Array = np.ndarray
_ELEMENT_WISE, _TABLE, _COMPOSITE = "element-wise", "table", "host and NPU"
_CHECK_SCALAR = 0.3
_TABLE_WIDTH = 6.0
_FP16_WIDTH = 8.0


@dataclass(frozen=True, slots=True)
class OpCheck:
    """Outcome of one operation. ``wrong`` and ``worst`` are None when nothing was compared.

    ``worst`` is the largest difference and ``allowed`` its bound: codes for integer types, units of the
    largest result for table functions of fp16, 0 for results that must be equal.
    """

    op: str
    dtype: str
    rows: int
    channels: int
    evidence: str
    submits: int
    tasks: int
    hw_ns: int
    wrong: int | None = None
    worst: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True)
class Available:
    """One operation of one type, as ``ork npu op --list`` shows it."""

    op: str
    dtype: str
    kind: str
    evidence: str


REFERENCES: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "mul": lambda a, b: a * b,
        "mul_perchannel": lambda a, b: a * b,
        "add": lambda a, b: a + b,
        "add_to_fp32": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "max": np.maximum,
        "min": np.minimum,
        "relu": lambda a, b: np.maximum(a, 0),
        "copy": lambda a, b: a,
        "scale_vector": lambda a, b: (a * np.float32(np.float16(_CHECK_SCALAR))) * b,
    }
)
"""What each operation is, on int64 or float32; the result is then saturated or rounded once."""

_CALLS: Mapping[str, Callable[[Sdp, Array, Array], Array]] = MappingProxyType(
    {
        "mul_perchannel": lambda sdp, a, b: sdp.mul_perchannel(a, b),
        "scale_vector": lambda sdp, a, b: sdp.scale_vector(a, _CHECK_SCALAR, b),
    }
)

CHECKED_TABLES = ("silu", "gelu", "sigmoid", "tanh", "exp", "rsqrt")
_TABLE_BOUNDS: Mapping[str, float] = MappingProxyType({"int8": 0.6, "int16": 8.0, "fp16": 2.0**-10})
_RSQRT_FP16_BOUND = 2.0**-8
_RMSNORM_EPS = 1e-6
# Three roundings to fp16.
_RMSNORM_BOUND = 2.0**-9


def available() -> tuple[Available, ...]:
    """Every operation that can be run, in the order of the tables."""
    rows = [Available(row.op, row.dtype, _ELEMENT_WISE, row.evidence.value) for row in ROWS]
    tables = [
        Available(name, dtype, _TABLE, TABLE_EVIDENCE.get((name, dtype), Evidence.DERIVED).value)
        for name in CHECKED_TABLES
        for dtype in _TABLE_BOUNDS
    ]
    return (*rows, *tables, Available("rmsnorm", "fp16", _COMPOSITE, Evidence.DERIVED.value))


def _operand(random: np.random.Generator, format: SdpFormat, shape: tuple[int, ...]) -> Array:
    if format.floating:
        return random.standard_normal(shape).astype(format.dtype)
    low, high = format.limits
    return random.integers(low, high, shape, endpoint=True).astype(format.dtype)


def _narrowed(values: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        values = np.clip(values, limits.min, limits.max)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _second_operand(
    random: np.random.Generator, op: str, format: SdpFormat, shape: tuple[int, int]
) -> Array | None:
    kind = row_for(op, format.name).operand
    if op == "scale_vector":
        return _operand(random, FORMATS["fp16"], shape[1:])
    if kind is Operand.NONE:
        return None
    return _operand(random, format, shape if kind is Operand.ELEMENT else shape[1:])


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Absolute differences [rows, channels] and their bound."""

    errors: Array
    allowed: float


def _element_wise(npu: Npu, op: str, format: SdpFormat, shape: tuple[int, int], seed: int) -> _Outcome:
    random = np.random.default_rng(seed)
    a = _operand(random, format, shape)
    b = _second_operand(random, op, format, shape)
    seen = _CALLS[op](npu.sdp, a, b) if op in _CALLS and b is not None else npu.sdp.run(op, a, b)
    wide = np.float32 if format.floating else np.int64
    second = np.zeros(1, dtype=wide) if b is None else b.astype(wide)
    expected = _narrowed(REFERENCES[op](a.astype(wide), second), seen.dtype)
    return _Outcome(np.abs(seen.astype(np.float64) - expected.astype(np.float64)), 0.0)


def _rmsnorm(npu: Npu, op: str, format: SdpFormat, shape: tuple[int, int], seed: int) -> _Outcome:
    random = np.random.default_rng(seed)
    x, weight = _operand(random, format, shape), _operand(random, format, shape[1:])
    wide = x.astype(np.float64)
    exact = wide / np.sqrt(np.mean(wide * wide, axis=1, keepdims=True) + _RMSNORM_EPS) * weight
    with npu.sdp.rmsnorm(weight, shape[0], _RMSNORM_EPS) as norm:
        seen = norm.run(x)
    return _Outcome(np.abs(seen - exact) / np.abs(exact).max(), _RMSNORM_BOUND)


def _table(npu: Npu, name: str, format: SdpFormat, shape: tuple[int, int], seed: int) -> _Outcome:
    random = np.random.default_rng(seed)
    function, bound = FUNCTIONS[name], _TABLE_BOUNDS[format.name]
    if format.floating:
        half = random.uniform(-_FP16_WIDTH, _FP16_WIDTH, shape).astype(np.float16)
        half = {"exp": -np.abs(half), "rsqrt": np.abs(half) + np.float16(0.25)}.get(name, half)
        exact = function.compute(half.astype(np.float64))
        errors = np.abs(npu.sdp.activate(name, half) - exact) / np.abs(exact).max()
        return _Outcome(errors, _RSQRT_FP16_BOUND if name == "rsqrt" else bound)
    codes = _operand(random, format, shape)
    high = format.limits[1]
    in_scale = _TABLE_WIDTH / high
    x = codes.astype(np.float64) * in_scale
    exact = function.compute(np.maximum(x, in_scale) if name == "rsqrt" else x)
    out_scale = float(np.abs(exact).max()) / high
    seen = npu.sdp.activate(name, codes, in_scale=in_scale, out_scale=out_scale)
    return _Outcome(np.abs(seen - exact / out_scale), bound)


_RUNS: Mapping[str, Callable[[Npu, str, SdpFormat, tuple[int, int], int], _Outcome]] = MappingProxyType(
    {_ELEMENT_WISE: _element_wise, _TABLE: _table, _COMPOSITE: _rmsnorm}
)


def checked_op(op: str, dtype: str, channels: int) -> Available:
    """The operation by name and type, before a device is opened for it.

    Raises:
        UsageError: no such operation or type, or channels that do not fill 16-byte atoms.
    """
    known = [row for row in available() if row.op == op]
    if not known:
        names = ", ".join(dict.fromkeys(row.op for row in available()))
        raise UsageError(f"no operation {op!r}", why=f"there are {names}")
    for row in known:
        if row.dtype == dtype:
            if channels % FORMATS[dtype].per_atom:
                raise UsageError(
                    f"{channels} channels of {dtype}", why=f"allowed: multiples of {FORMATS[dtype].per_atom}"
                )
            return row
    raise UsageError(f"{op} of {dtype}", why=f"it exists for {', '.join(row.dtype for row in known)}")


def run_op(
    npu: Npu, op: str, dtype: str, rows: int, channels: int, *, seed: int = 0, check: bool = True
) -> OpCheck:
    """Run one operation on seeded operands over the whole range of its type.

    Raises:
        UsageError: see ``checked_op``.
    """
    found = checked_op(op, dtype, channels)
    before = npu.counters
    outcome = _RUNS[found.kind](npu, op, FORMATS[dtype], (rows, channels), seed)
    used = npu.counters.since(before)
    compared: dict[str, Any] = {}
    if check:
        compared = {
            "wrong": int(np.count_nonzero(outcome.errors > outcome.allowed)),
            "worst": float(outcome.errors.max()),
            "allowed": outcome.allowed,
        }
    return OpCheck(
        op, dtype, rows, channels, found.evidence, used.submits, used.tasks, used.hw_ns, **compared
    )
