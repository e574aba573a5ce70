"""A decoder layer's matmuls for one token: each group compiled once and kept, in order of its dependency.

What shares an input shares a submit: q, k and v; gate and up. The output projection waits for attention
and the down projection for gate and up, so neither has a peer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.precompiled import PrecompiledProgram

__all__ = ["LAYER_STEPS", "DecodeLayer", "batch_sizes"]

LAYER_STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
)
"""Steps of a layer in order, and the matmuls that run together in each."""


def batch_sizes() -> dict[str, int]:
    """How many independent matmuls each step has."""
    return {step: len(names) for step, names in LAYER_STEPS.items()}


class DecodeLayer:
    """Compiled programs of one layer. Results are copied out of uncached memory at once (see ``PrecompiledProgram``).

    Args:
        weights: by name (q, k, v, o, gate, up, down); steps none of whose weights is given are left out.

    Raises:
        OperandError: an unknown name, or a step with some of its weights missing or of different K.
        RefusedError: a K outside the envelope of compiled programs (GRD-10).
    """

    def __init__(self, context: Context, weights: Mapping[str, Weight], *, core: int = 0) -> None:
        known = [name for names in LAYER_STEPS.values() for name in names]
        if strange := sorted(set(weights) - set(known)):
            raise OperandError(
                "a decoder layer", why=f"no matmul {strange[0]!r}; allowed: {', '.join(known)}"
            )
        self._inputs: dict[str, np.ndarray] = {}
        self._programs: dict[str, PrecompiledProgram] = {}
        for step, names in LAYER_STEPS.items():
            given = [weights[name] for name in names if name in weights]
            if given and len(given) != len(names):
                missing = next(name for name in names if name not in weights)
                raise OperandError("a decoder layer", why=f"{missing!r} is missing in step {step}")
            if given:
                self._inputs[step] = np.zeros((1, given[0].k), INT8.operand)
                self._programs[step] = PrecompiledProgram(context, given, self._inputs[step], core=core)

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self._programs)

    def run(self, step: str, a: np.ndarray) -> Sequence[np.ndarray]:
        """Results of a step, int32 [1, n] each in the order of its names, valid until it runs again.

        Raises:
            OperandError: a step the layer does not have, or an activation that is not int8 [1, K].
            LifetimeError, NoDeviceError, UnhealthyError: see ``PrecompiledProgram.run``.
        """
        if step not in self._programs:
            raise OperandError("a decoder layer", why=f"no step {step!r}; it has {', '.join(self.steps)}")
        require_array(a, self._inputs[step].shape, INT8.operand, f"activation of {step}")
        self._inputs[step][:] = a
        self._programs[step].run()
        return self._programs[step].outputs

    def close(self) -> None:
        """Give the programs' memory back; weights are the caller's."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()
