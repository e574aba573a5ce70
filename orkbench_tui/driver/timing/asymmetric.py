"""Sizing a model whose prompts run on the NPU and whose tokens run on the CPU, each from weights of its own.

Prompts want int8 weights inside the NPU's address window, tokens 4-bit ones in the CPU's memory. No such model
exists; this is arithmetic from published rates, so everything it gives is a prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.timing.constants import value

__all__ = ["Sizing", "TokenBound", "sizing", "token_bound"]

_WINDOW = 1 << 32
_BYTES_INT8, _BYTES_INT4 = 1.0, 0.5


@dataclass(frozen=True, slots=True)
class TokenBound:
    """What a token of decoding waits for: ``bound`` is ``latency`` or ``bandwidth``; rate in bytes per ns."""

    bound: str
    rate: float
    ns: float

    @property
    def tokens_per_s(self) -> float:
        return 1e9 / self.ns


@dataclass(frozen=True, slots=True)
class Sizing:
    """Bytes a token streams, and bytes of the NPU's copy; ``windows`` of 4 GiB that copy takes."""

    token_bytes: float
    npu_bytes: float
    windows: int
    bound: TokenBound


def token_bound(token_bytes: float, cores: int = 1) -> TokenBound:
    """One row at a time, a core waits for its loads long before the memory is busy.

    A core by itself reads at the rate published for one; more of them add up until the memory's own rate.

    Raises:
        ValueError: no cores.
    """
    if cores < 1:
        raise ValueError(f"{cores} cores")
    alone, ceiling = cores * value("one_core_decode"), value("dram_rate")
    rate = min(alone, ceiling)
    return TokenBound("latency" if alone < ceiling else "bandwidth", rate, token_bytes / rate)


def sizing(parameters: float, active: float, cores: int = 1) -> Sizing:
    """Of ``parameters`` weights, ``active`` of which a token goes through.

    Raises:
        ValueError: more active than there are, or none.
    """
    if not 0 < active <= parameters:
        raise ValueError(f"{active:g} active of {parameters:g} parameters")
    npu_bytes = parameters * _BYTES_INT8
    token_bytes = active * _BYTES_INT4
    return Sizing(token_bytes, npu_bytes, -(-int(npu_bytes) // _WINDOW), token_bound(token_bytes, cores))
