"""A whole model: layer, prefill and decode, by the path the published open stack takes.

That path is serial: quantize, run, dequantize, one matmul after the other, attention and norms on the
CPU between them. Work that overlaps is predicted where it is scheduled, from the same parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.driver.timing.attention import cpu_attention_ns
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.programs import MACS_SHARE, Shape, hardware_ns
from orkbench_tui.driver.timing.shapes import ModelShape

__all__ = ["Decode", "Prefill", "decode", "matmul_run_ns", "npu_decode_ns", "prefill"]


@dataclass(frozen=True, slots=True)
class Prefill:
    """Times of one forward over ``tokens`` tokens, nanoseconds; ``hardware`` is the NPU's own part of ``run``."""

    tokens: int
    quantize: float
    run: float
    hardware: float
    dequantize: float
    attention: float
    between: float

    @property
    def total(self) -> float:
        return self.quantize + self.run + self.dequantize + self.attention + self.between

    @property
    def tokens_per_s(self) -> float:
        return self.tokens * 1e9 / self.total

    @property
    def npu_busy(self) -> float:
        """Share of the time in which the NPU's cores work, 0 to 1."""
        return self.hardware / self.total


@dataclass(frozen=True, slots=True)
class Decode:
    """One token by the CPU, nanoseconds: at the effective weight rate, and at the memory's ceiling."""

    typical: float
    best: float

    @property
    def tokens_per_s(self) -> float:
        return 1e9 / self.typical

    @property
    def best_tokens_per_s(self) -> float:
        return 1e9 / self.best


def matmul_run_ns(shape: Shape, soc: Soc = RK3588) -> float:
    """The driver's share of one large matmul on all cores of a live prefill, its copies included."""
    rate = value("serial_macs") * MACS_SHARE[shape.bits] * soc.cores / RK3588.cores
    return shape.weight_bytes / value("weight_rate") + shape.macs / rate


def prefill(model: ModelShape, tokens: int, *, batch: int = 512, bits: int = 8, soc: Soc = RK3588) -> Prefill:
    """``tokens`` tokens in batches of ``batch``; the output head runs for the last token only.

    Args:
        bits: of the operands the NPU multiplies.
    """
    parts = [_batch(model, min(batch, tokens - done), done, bits, soc) for done in range(0, tokens, batch)]
    return Prefill(
        tokens=tokens,
        quantize=sum(p.quantize for p in parts),
        run=sum(p.run for p in parts),
        hardware=sum(p.hardware for p in parts),
        dequantize=sum(p.dequantize for p in parts),
        attention=sum(p.attention for p in parts),
        between=sum(p.between for p in parts),
    )


def _batch(model: ModelShape, tokens: int, before: int, bits: int, soc: Soc) -> Prefill:
    run = hardware = 0.0
    for linear in model.linears:
        # Experts share the tokens out; each gets its mean.
        M = max(1, -(-tokens * linear.active // linear.count))
        shape = Shape(M, linear.K, linear.N, bits)
        run += linear.count * matmul_run_ns(shape, soc)
        hardware += linear.count * hardware_ns(shape, soc.cores, soc)
    return Prefill(
        tokens=tokens,
        quantize=tokens * model.inputs * value("activation_quant"),
        run=model.layers * run,
        hardware=model.layers * hardware,
        dequantize=tokens * model.outputs * value("dequant"),
        attention=cpu_attention_ns(model.layers, model.attention_width, tokens, before),
        between=model.layers * model.embedding * value("between_matmuls"),
    )


def decode(model: ModelShape, *, bytes_per_weight: float = 1.0, context: int = 0) -> Decode:
    """One token on the CPU, which streams the active weights and the head once.

    Args:
        bytes_per_weight: of the format the CPU reads, scales included.
        context: tokens already there, whose keys and values are attended to.
    """
    size = (model.active_weights + model.head_weights) * bytes_per_weight
    attention = cpu_attention_ns(model.layers, model.attention_width, 1, context)
    return Decode(size / value("cpu_decode") + attention, size / value("dram_rate") + attention)


def npu_decode_ns(model: ModelShape) -> float:
    """The NPU's part of a token whose layers' matmuls all run there, six weights in flight."""
    return model.active_weights / value("shared_rate")
