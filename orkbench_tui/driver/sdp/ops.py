"""``npu.sdp``: element-wise operations and activations on the NPU, one call each.

Operands are [rows, channels]; channels fill 16-byte atoms (16 for int8, 8 for int16 and fp16, 4 for int32
and fp32). Any number of rows: an operation is cut into programs that keep the row ceilings. A call
compiles, runs and forgets; ``compile`` and ``compile_table`` keep an operation for a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.sdp import fused
from orkbench_tui.driver.sdp.compiled import SdpCompiler, SdpOperation, checked_matrix
from orkbench_tui.driver.sdp.dead_forms import Form, refuse_form
from orkbench_tui.driver.sdp.formats import FORMATS, SdpFormat
from orkbench_tui.driver.sdp.fused import FusedMatmul
from orkbench_tui.driver.sdp.fused_programs import PerChannelRequant
from orkbench_tui.driver.sdp.lut import fp16_lut, integer_lut
from orkbench_tui.driver.sdp.lut_functions import function_named
from orkbench_tui.driver.sdp.norm import RmsNorm
from orkbench_tui.driver.sdp.programs import SdpNumbers, StageNumbers
from orkbench_tui.driver.sdp.quantization import Quantization, numbers_for
from orkbench_tui.driver.sdp.table import row_for

__all__ = ["FP16_GATES", "Sdp", "format_of"]

FP16_GATES: Mapping[str, str] = MappingProxyType({"silu": "sigmoid", "gelu": "gaussian_cdf"})
"""Functions that fp16 computes as ``x * gate(x)``: a table cannot hold their slope, and GELU from one
table was seen to be wrong on boards."""

_PLAIN = Quantization()
_TABLE_TYPES = ("int8", "int16", "fp16")


def format_of(array: np.ndarray) -> SdpFormat:
    """The number type of an array.

    Raises:
        OperandError: one the element-wise unit does not have.
    """
    for format in FORMATS.values():
        if format.dtype == array.dtype:
            return format
    names = ", ".join(str(format.dtype) for format in FORMATS.values())
    raise OperandError(f"{array.dtype} operands", why=f"the element-wise unit takes {names}")


class Sdp:
    """Element-wise operations of one NPU."""

    def __init__(self, compiler: SdpCompiler) -> None:
        self.compiler = compiler

    @property
    def table_loads(self) -> int:
        """Function tables loaded so far; an operation whose table is still there loads none."""
        return self.compiler.tables.loads

    def compile(
        self,
        op: str,
        dtype: str,
        rows: int,
        channels: int,
        quantization: Quantization = _PLAIN,
        *,
        numbers: SdpNumbers | None = None,
    ) -> SdpOperation:
        """An operation of ``table.ROWS`` for a shape; ``numbers`` replaces what the scales would give.

        Raises:
            OperandError: no such operation or shape, or scales it does not have.
            RefusedError: a form that hangs.
            OperandError: scales out of reach.
        """
        if (op, dtype) == ("mul_perchannel", "int16"):
            refuse_form(Form.PER_CHANNEL_INT16, seen=f"{rows} x {channels} elements")
        row = row_for(op, dtype)
        return self.compiler.operation(
            row, rows, channels, numbers if numbers is not None else numbers_for(row, quantization)
        )

    def run(
        self,
        op: str,
        a: np.ndarray,
        b: np.ndarray | None = None,
        *,
        quantization: Quantization = _PLAIN,
        numbers: SdpNumbers | None = None,
        core: int = 0,
    ) -> np.ndarray:
        """Any operation of the table by name; [rows, channels] of its result type.

        Raises:
            see ``compile`` and ``SdpOperation.run``.
        """
        format = format_of(a)
        checked_matrix("the first operand", format, a)
        rows, channels = a.shape
        with self.compile(op, format.name, rows, channels, quantization, numbers=numbers) as operation:
            return operation.run(a, b, core=core)

    def mul(
        self, a: np.ndarray, b: np.ndarray, quantization: Quantization = _PLAIN, *, core: int = 0
    ) -> np.ndarray:
        """``a * b``; codes: ``sat(round((a - a0)(b - b0) a_scale b_scale / out_scale) + out0)``."""
        return self.run("mul", a, b, quantization=quantization, core=core)

    def add(
        self, a: np.ndarray, b: np.ndarray, quantization: Quantization = _PLAIN, *, core: int = 0
    ) -> np.ndarray:
        """``a + b``; codes: ``sat(round(((a - a0) a_scale + (b - b0) b_scale) / out_scale) + out0)``."""
        return self.run("add", a, b, quantization=quantization, core=core)

    def sub(self, a: np.ndarray, b: np.ndarray, *, core: int = 0) -> np.ndarray:
        """``a - b``, fp16."""
        return self.run("sub", a, b, core=core)

    def max(self, a: np.ndarray, b: np.ndarray, *, core: int = 0) -> np.ndarray:
        """The larger of each pair."""
        return self.run("max", a, b, core=core)

    def min(self, a: np.ndarray, b: np.ndarray, *, core: int = 0) -> np.ndarray:
        """The smaller of each pair."""
        return self.run("min", a, b, core=core)

    def relu(self, a: np.ndarray, quantization: Quantization = _PLAIN, *, core: int = 0) -> np.ndarray:
        """``max(a, 0)``; codes are rescaled by ``a_scale / out_scale``."""
        return self.run("relu", a, quantization=quantization, core=core)

    def copy(self, a: np.ndarray, quantization: Quantization = _PLAIN, *, core: int = 0) -> np.ndarray:
        """``a`` through the pipeline; codes are rescaled by ``a_scale / out_scale``."""
        return self.run("copy", a, quantization=quantization, core=core)

    def mul_perchannel(
        self, a: np.ndarray, b: np.ndarray, quantization: Quantization = _PLAIN, *, core: int = 0
    ) -> np.ndarray:
        """``a[m, n] * b[n]``, int8 and fp16, ``b`` of the type of ``a``; see ``mul``.

        Raises:
            RefusedError: int16.
        """
        format = format_of(a)
        if b.dtype != format.dtype:
            raise OperandError(f"the second operand is {b.dtype}", why=f"expected {format.dtype}")
        factors = b if format.floating else b.astype(np.int16) - np.int16(quantization.b_zero)
        return self.run("mul_perchannel", a, factors, quantization=quantization, core=core)

    def add_to_fp32(self, a: np.ndarray, b: np.ndarray, *, core: int = 0) -> np.ndarray:
        """``a + b`` of int32 operands as fp32."""
        return self.run("add_to_fp32", a, b, core=core)

    def scale_vector(self, a: np.ndarray, scalar: float, vector: np.ndarray, *, core: int = 0) -> np.ndarray:
        """``a[m, n] * scalar * vector[n]`` of fp32 ``a``; scalar and vector are rounded to fp16.

        Raises:
            OperandError: operands of another type or shape, or a factor fp16 cannot hold.
        """
        format = FORMATS["fp32"]
        checked_matrix("the first operand", format, a)
        if vector.shape != a.shape[1:]:
            raise OperandError(f"the vector has shape {vector.shape}", why=f"expected {a.shape[1:]}")
        with np.errstate(over="ignore"):
            factors = np.append(vector, scalar).astype(np.float16)
        if not np.isfinite(factors).all():
            raise OperandError("a factor fp16 cannot hold", why="allowed: finite numbers up to 65504")
        bits = factors.view(np.uint16)
        words = bits[:-1].astype(np.uint32).view(np.float32)
        numbers = SdpNumbers(bs=StageNumbers(factor=int(bits[-1])))
        operand = np.broadcast_to(words, a.shape)
        return self.run("scale_vector", a, operand, numbers=numbers, core=core)

    def compile_table(
        self,
        function: str,
        dtype: str,
        rows: int,
        channels: int,
        *,
        in_scale: float = 1.0,
        out_scale: float = 1.0,
        in_zero: int = 0,
        out_zero: int = 0,
    ) -> SdpOperation:
        """A table function for a shape. fp16 functions with a gate give the gate.

        Raises:
            OperandError: an unknown function or a type without tables.
            OperandError: scales out of reach.
        """
        row = function_named(function)
        if dtype not in _TABLE_TYPES:
            raise OperandError(f"{function} of {dtype}", why=f"tables exist for {', '.join(_TABLE_TYPES)}")
        format = FORMATS[dtype]
        if format.floating:
            if (in_scale, out_scale, in_zero, out_zero) != (1.0, 1.0, 0, 0):
                raise OperandError(
                    f"{function} of {dtype}", why="scales and zero points are for int8 and int16"
                )
            use = fp16_lut(function_named(FP16_GATES.get(function, function)))
        else:
            use = integer_lut(
                row, format, in_scale=in_scale, out_scale=out_scale, in_zero=in_zero, out_zero=out_zero
            )
        return self.compiler.table_operation(format, rows, channels, use)

    def activate(
        self,
        function: str,
        x: np.ndarray,
        *,
        in_scale: float = 1.0,
        out_scale: float = 1.0,
        in_zero: int = 0,
        out_zero: int = 0,
        core: int = 0,
    ) -> np.ndarray:
        """``f((x - in_zero) * in_scale) / out_scale + out_zero`` from a table; fp16 takes no scales.

        Raises:
            see ``compile_table`` and ``SdpOperation.run``.
        """
        format = format_of(x)
        checked_matrix("the operand", format, x)
        with self.compile_table(
            function,
            format.name,
            *x.shape,
            in_scale=in_scale,
            out_scale=out_scale,
            in_zero=in_zero,
            out_zero=out_zero,
        ) as operation:
            result = operation.run(x, core=core)
        gated = format.floating and function in FP16_GATES
        return self.mul(x, result, core=core) if gated else result

    def silu(
        self, x: np.ndarray, *, in_scale: float = 1.0, out_scale: float = 1.0, core: int = 0
    ) -> np.ndarray:
        """``x / (1 + exp(-x))``; see ``activate``."""
        return self.activate("silu", x, in_scale=in_scale, out_scale=out_scale, core=core)

    def gelu(
        self, x: np.ndarray, *, in_scale: float = 1.0, out_scale: float = 1.0, core: int = 0
    ) -> np.ndarray:
        """``x * P(X <= x)``; see ``activate``."""
        return self.activate("gelu", x, in_scale=in_scale, out_scale=out_scale, core=core)

    def exp(
        self,
        x: np.ndarray,
        *,
        in_scale: float = 1.0,
        out_scale: float = 1.0,
        biased: bool = False,
        core: int = 0,
    ) -> np.ndarray:
        """``exp(x)``; fp16 for x <= 0, larger ones give 1. ``biased`` takes integer codes relative to
        their largest, as a softmax does; the host finds it.
        """
        zero = int(x.max()) if biased and x.size else 0
        return self.activate("exp", x, in_scale=in_scale, out_scale=out_scale, in_zero=zero, core=core)

    def rsqrt(
        self, x: np.ndarray, *, in_scale: float = 1.0, out_scale: float = 1.0, core: int = 0
    ) -> np.ndarray:
        """``1 / sqrt(x)``; codes below 1 give the value of code 1, fp16 is for 0.25 to 66."""
        return self.activate("rsqrt", x, in_scale=in_scale, out_scale=out_scale, core=core)

    def requantized(self, weight: Weight, rows: int, requant: PerChannelRequant) -> FusedMatmul:
        """int8 matmul, bias and factor per channel, int8 results; see ``fused.requantized``."""
        return fused.requantized(self.compiler, weight, rows, requant)

    def biased(self, weight: Weight, rows: int, bias: np.ndarray) -> FusedMatmul:
        """int8 matmul plus a bias per channel, int32 results; see ``fused.biased``."""
        return fused.biased(self.compiler, weight, rows, bias)

    def activated(
        self,
        weight: Weight,
        rows: int,
        function: str,
        *,
        acc_scale: float,
        out_scale: float,
        reach: float,
        out_zero: int = 0,
        out: str = "int8",
    ) -> FusedMatmul:
        """int8 matmul through a function table, int8 results; see ``fused.activated``."""
        return fused.activated(
            self.compiler,
            weight,
            rows,
            function,
            acc_scale=acc_scale,
            out_scale=out_scale,
            reach=reach,
            out_zero=out_zero,
            out=out,
        )

    def with_operand(self, weight: Weight, rows: int, op: str) -> FusedMatmul:
        """fp16 matmul combined with an fp16 operand; see ``fused.with_operand``."""
        return fused.with_operand(self.compiler, weight, rows, op)

    def rmsnorm(self, weight: np.ndarray, rows: int, eps: float = 1e-6) -> RmsNorm:
        """RMSNorm of fp16 rows, in part on the host; see ``norm``."""
        return RmsNorm(self.compiler, weight, rows, eps)
