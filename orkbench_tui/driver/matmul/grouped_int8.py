"""int8 activations against weights with a scale per output channel and group of K.

Links of int8 programs take K from 512 up, so every group is a matmul of its own, over all cores, and the host
adds the scaled sums up: submits grow with K over the group. Nobody has run this on silicon.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.guards import refuse
from orkbench_tui.driver.matmul.compiled import Matmul
from orkbench_tui.driver.matmul.grouped import GroupedWeight, combine
from orkbench_tui.driver.matmul.operands import require_array

__all__ = ["GroupedInt8Matmul"]


class GroupedInt8Matmul:
    """``rows`` rows of int8 codes, each with a scale per group, against a grouped weight; fp32 [rows, n].

    ``unproven`` lifts the guard: on a simulated board, or in a probe on one's own.

    Raises:
        RefusedError: without ``unproven`` (GRD-22); nothing was allocated or submitted.
        OperandError: a weight made for 4-bit activations, or no rows.
        LifetimeError: the weight was freed.
    """

    def __init__(self, context: Context, weight: GroupedWeight, rows: int, *, unproven: bool = False) -> None:
        if weight.activation_bits != 8:
            raise OperandError(f"grouped int8 matmul with {weight.name}", why="it was made for 4-bit rows")
        if not unproven:
            refuse("GRD-22", seen=f"{weight.name}, {len(weight.parts)} groups of {weight.group}")
        self.weight, self.rows = weight, rows
        self._matmuls = tuple(Matmul(context, [part], rows) for part in weight.parts)

    def run(self, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Codes int8 [rows, k] and scales fp32 [rows, k / group] to fp32 [rows, n].

        Raises:
            OperandError: arrays that do not fit.
            UnhealthyError: a job timed out.
        """
        weight = self.weight
        require_array(codes, (self.rows, weight.k), np.int8, "activation")
        require_array(scales, (self.rows, len(weight.parts)), np.float32, "activation scales")
        partials = []
        for index, matmul in enumerate(self._matmuls):
            matmul.a[:] = codes[:, index * weight.group : (index + 1) * weight.group]
            matmul.run()
            # The next group's run has the same scratch.
            partials.append(matmul.outputs[0].copy())
        return combine(partials, scales, weight.scales)

    def close(self) -> None:
        """Give the program memory back; the weight stays."""
        for matmul in self._matmuls:
            matmul.close()
