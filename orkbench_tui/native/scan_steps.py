"""The steps of a state space mixer (Mamba-2): its convolution, and the scan with skip and gate.

A row of ``mixed``, which is what the projection into the mixer gives, holds gates [heads * head_dim], then the
channels of the convolution (x, B and C), then a time step for each head. R is as in ``native.steps``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, ffi, require
from orkbench_tui.native.steps import Steps

__all__ = ["STATE_STEP", "TAPS_MAX", "convolve", "scan"]

Floats = NDArray[np.float32]

TAPS_MAX = 8
STATE_STEP = 8
"""Values of a state come in multiples of this."""


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


def scan(
    steps: Steps,
    mixed: Floats,
    convolved: Floats,
    output: Floats,
    state: Floats,
    *,
    time_bias: Floats,
    a: Floats,
    d: Floats,
    groups: int,
) -> None:
    """``s = s exp(t a) + t x B``, ``output = (s C + d x) silu(gate)``, ``t = softplus(time + time_bias)``; row by row.

    mixed [R, any]; convolved [R, heads * head_dim + 2 groups * state_size]: x, B, C; output [R, heads *
    head_dim]; time_bias, a, d [heads]; state [heads, head_dim, state_size] counts as zeros in a run at
    position 0. Heads of a group share B and C.
    """
    heads, head_dim, size = require(state, np.float32, (None, None, None), "scan state").shape
    if size % STATE_STEP or groups < 1 or heads % groups:
        raise ValueError(
            f"states of {size} values must be multiples of {STATE_STEP}, {heads} heads of {groups} groups"
        )
    for name, array in (("time bias", time_bias), ("decay", a), ("skip", d)):
        require(array, np.float32, (heads,), name)
    inner = heads * head_dim
    require(convolved, np.float32, (None, inner + 2 * groups * size), "convolved rows")
    require(output, np.float32, (None, inner), "scan output")
    if require(mixed, np.float32, (None, None), "scan input").shape[1] < inner + heads:
        raise ValueError(f"rows of {mixed.shape[1]} hold no {inner} gates and {heads} times")
    fields: dict[str, Any] = {"mixed": mixed, "convolved": convolved, "time_bias": time_bias, "a": a, "d": d}
    fields |= {"state": state, "output": output, "heads": heads, "head_dim": head_dim}
    fields |= {"state_size": size, "groups": groups, "mixed_stride": mixed.shape[1]}
    steps.checked_step("scan", min(map(len, (mixed, convolved, output))), fields)
