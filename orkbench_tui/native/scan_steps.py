"""The steps of a state space mixer (Mamba-2): its convolution, and the scan with skip and gate.

A row of ``mixed``, which is what the projection into the mixer gives, holds gates [heads * head_dim], then the
channels of the convolution (x, B and C), then a time step for each head. R is as in ``native.steps``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, ffi, require
from orkbench_tui.native.steps import Steps

__all__ = [
    "SCAN_CHUNK_MAX",
    "SCAN_STEP",
    "TAPS_MAX",
    "ScanArrays",
    "ScanRows",
    "chunks_touched",
    "convolve",
    "scan",
]

Floats = NDArray[np.float32]

TAPS_MAX = 8
SCAN_STEP = 8
"""Values of a head, and rows of a chunk, come in multiples of this."""

SCAN_CHUNK_MAX = 256


@dataclass(frozen=True, slots=True)
class ScanShape:
    """``heads`` of ``head_dim`` values with ``state_size`` numbers of state each, in ``groups``; ``chunk`` rows at once.

    Raises:
        ValueError: sizes the kernels do not compute.
    """

    heads: int
    head_dim: int
    state_size: int
    groups: int
    chunk: int

    def __post_init__(self) -> None:
        if self.head_dim % SCAN_STEP or self.chunk % SCAN_STEP or not 0 < self.chunk <= SCAN_CHUNK_MAX:
            raise ValueError(
                f"heads of {self.head_dim} values and chunks of {self.chunk} rows must be multiples of "
                f"{SCAN_STEP}, chunks up to {SCAN_CHUNK_MAX}"
            )
        if self.groups < 1 or self.heads % self.groups:
            raise ValueError(f"{self.heads} heads of {self.groups} groups")

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def group_width(self) -> int:
        """Values of the heads of one group."""
        return self.inner // self.groups


@dataclass(frozen=True, slots=True, eq=False)
class ScanArrays:
    """What one layer's scan holds between runs, float32.

    ``state`` [heads, state_size, head_dim] is that at the beginning of the current chunk of rows; the others are what was
    told of this chunk: ``inputs`` [heads, chunk, head_dim], ``decays`` [heads, chunk + 1] and ``writes``
    [slots, groups, state_size, chunk], chunks taking slots in turn.

    Raises:
        ValueError: arrays that do not fit the shape.
    """

    shape: ScanShape
    state: Floats
    inputs: Floats
    decays: Floats
    writes: Floats

    def __post_init__(self) -> None:
        s = self.shape
        require(self.state, np.float32, (s.heads, s.state_size, s.head_dim), "scan state")
        require(self.inputs, np.float32, (s.heads, s.chunk, s.head_dim), "scan inputs")
        require(self.decays, np.float32, (s.heads, s.chunk + 1), "scan decays")
        require(self.writes, np.float32, (None, s.groups, s.state_size, s.chunk), "scan writes")

    @classmethod
    def zeros(cls, shape: ScanShape, rows: int) -> ScanArrays:
        """A layer that was told nothing, for runs of up to ``rows``."""

        def array(*sizes: int) -> Floats:
            return np.zeros(sizes, np.float32)

        return cls(
            shape,
            array(shape.heads, shape.state_size, shape.head_dim),
            array(shape.heads, shape.chunk, shape.head_dim),
            array(shape.heads, shape.chunk + 1),
            array(chunks_touched(rows, shape.chunk), shape.groups, shape.state_size, shape.chunk),
        )

    @property
    def rows(self) -> int:
        """Rows that a run may have, wherever it begins."""
        return (len(self.writes) - 1) * self.shape.chunk + 1

    @property
    def arrays(self) -> tuple[Floats, ...]:
        return (self.state, self.inputs, self.decays, self.writes)


def chunks_touched(rows: int, chunk: int) -> int:
    """Chunks that so many rows lie in at most."""
    return (rows + chunk - 2) // chunk + 1


def convolve(
    steps: Steps, mixed: Floats, first: int, weights: Floats, bias: Floats, state: Floats, output: Floats
) -> None:
    """``output = silu(bias + sum of weights[j] * the input taps - 1 - j rows before)``, channel by channel.

    The input is columns ``first`` to ``first + width`` of mixed [R, any]; output [R, width], weights
    [taps, width], up to ``TAPS_MAX`` taps, oldest first; state [taps - 1, width] holds the inputs before row 0
    and counts as zeros in a run at position 0.
    """
    taps, width = require(weights, np.float32, (None, None), "convolution weights").shape
    if not 1 <= taps <= TAPS_MAX:
        raise ValueError(f"{taps} taps of a convolution, known are 1 to {TAPS_MAX}")
    require(bias, np.float32, (width,), "convolution bias")
    require(state, np.float32, (taps - 1, width), "convolution state")
    require(output, np.float32, (None, width), "convolution output")
    require(mixed, np.float32, (None, None), "convolution input")
    if not 0 <= first <= mixed.shape[1] - width:
        raise ValueError(f"columns {first} to {first + width} of {mixed.shape[1]}")
    steps.keep([mixed])
    fields: dict[str, Any] = {"input": ffi.cast("float *", address(mixed, "void *")) + first}
    fields |= {"weights": weights, "bias": bias, "state": state, "output": output}
    fields |= {"width": width, "taps": taps, "input_stride": mixed.shape[1]}
    steps.checked_step("convolve", min(len(mixed), len(output)), fields)


@dataclass(frozen=True, slots=True, eq=False)
class ScanRows:
    """What a scan reads and writes besides what it holds: all float32, R rows.

    mixed [R, any]; convolved [R, heads * head_dim + 2 groups * state_size]: x, B, C; products [R, groups * chunk]
    is room for what rows of a chunk see of each other; output [R, heads * head_dim]; time_bias, a, d [heads].

    Raises:
        ValueError: arrays that do not fit ``held``.
    """

    mixed: Floats
    convolved: Floats
    products: Floats
    output: Floats
    held: ScanArrays
    time_bias: Floats
    a: Floats
    d: Floats

    def __post_init__(self) -> None:
        shape = self.held.shape
        for name, array in (("time bias", self.time_bias), ("decay", self.a), ("skip", self.d)):
            require(array, np.float32, (shape.heads,), name)
        told = shape.inner + 2 * shape.groups * shape.state_size
        require(self.convolved, np.float32, (None, told), "convolved rows")
        require(self.products, np.float32, (None, shape.groups * shape.chunk), "scan products")
        require(self.output, np.float32, (None, shape.inner), "scan output")
        wide = require(self.mixed, np.float32, (None, None), "scan input").shape[1]
        if wide < shape.inner + shape.heads:
            raise ValueError(f"rows of {wide} hold no {shape.inner} gates and {shape.heads} times")

    @property
    def rows(self) -> int:
        """Rows a run may have."""
        return min(self.held.rows, *map(len, (self.mixed, self.convolved, self.products, self.output)))

    @property
    def fields(self) -> dict[str, Any]:
        """The record that every step of a scan takes."""
        names = ("mixed", "convolved", "products", "output", "time_bias", "a", "d")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {"state": self.held.state, "inputs": self.held.inputs}
        found |= {"decays": self.held.decays, "writes": self.held.writes}
        found |= asdict(self.held.shape)
        return found | {"slots": len(self.held.writes), "mixed_stride": self.mixed.shape[1]}


def scan(steps: Steps, rows: ScanRows) -> None:
    """``s = s exp(t a) + t x B``, ``output = (s C + d x) silu(gate)``, ``t = softplus(time + time_bias)``, by chunks.

    Heads of a group share B and C. The state counts as zeros in a run at position 0; runs in any cut give
    the same bits. Two steps.
    """
    for kind in ("scan_products", "scan"):
        steps.checked_step(kind, rows.rows, rows.fields, member="scan")
