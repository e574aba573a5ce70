"""Weights with a scale per output channel and group of K: ``C = sum over groups (aS * bS * partial)``.

The NPU gives one exact partial sum per group, the host adds them up in fp32. A group is a weight of its
own, so a matmul takes as many programs as there are groups, in as few submits as linked runs allow.
Weights are made for activations of 4 or of 8 bits; with the other kind their products mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver.chain import Chain
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.guards import refuse
from orkbench_tui.driver.matmul.formats import INT4, INT8
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.matmul.weights import Weight, load_matrix
from orkbench_tui.driver.task_rules import MAX_STEPS, ChainTask

__all__ = ["GroupedMatmul", "GroupedWeight", "grouped_product", "load_grouped"]

_FORMATS = {4: INT4, 8: INT8}


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWeight:
    """``parts[g]`` holds the codes of K ``[g * group, (g + 1) * group)``; ``scales`` fp32 [groups, n].

    ``activation_bits`` are those of the activations the codes were made for, 4 or 8.
    """

    name: str
    k: int
    n: int
    group: int
    parts: tuple[Weight, ...]
    scales: np.ndarray
    activation_bits: int = 4


def load_grouped(
    context: Context,
    name: str,
    codes: np.ndarray,
    scales: np.ndarray,
    group: int,
    *,
    activation_bits: int = 4,
) -> GroupedWeight:
    """Codes [n, k] (int8 values, -8 to 7 for 4-bit activations) and their scales, fp32 [k / group, n].

    Raises:
        OperandError: a group that is no multiple of 32, does not divide K or is above the format's limit (480
            for int4, whose sums of 8 by 8 no longer fit the 16-bit result); codes or scales that do not fit.
    """
    if activation_bits not in _FORMATS:
        raise OperandError(f"weight {name}", why=f"activations of {activation_bits} bits; allowed: 4, 8")
    format = _FORMATS[activation_bits]
    n, k = codes.shape if codes.ndim == 2 else (0, 0)
    granule = format.precision.k_granule
    if group % granule or not granule <= group <= format.k_limit or k % group:
        raise OperandError(
            f"weight {name}",
            why=f"groups of {group} for K = {k}; allowed: multiples of {granule} up to {format.k_limit} "
            "that divide K",
        )
    require_array(scales, (k // group, n), np.float32, f"scales of {name}")
    if not np.isfinite(scales).all():
        raise OperandError(f"scales of {name}", why="allowed: finite numbers")
    parts = tuple(
        load_matrix(
            context.memory, format, f"{name}, group {index}", np.ascontiguousarray(codes[:, at : at + group])
        )
        for index, at in enumerate(range(0, k, group))
    )
    return GroupedWeight(name, k, n, group, parts, scales, activation_bits)


class GroupedMatmul:
    """``rows`` rows of int4 codes, each with a scale per group, against a grouped weight; fp32 [rows, n].

    Raises:
        RefusedError: a weight made for 8-bit activations (GRD-21); ``GroupedInt8Matmul`` takes it.
        OperandError: no rows, or more programs than one run takes for a single group.
        LifetimeError: the weight was freed.
    """

    def __init__(self, context: Context, weight: GroupedWeight, rows: int, *, core: int = 0) -> None:
        if weight.activation_bits != 4:
            refuse("GRD-21", seen=f"{weight.name} was made for 8-bit activations, groups of {weight.group}")
        self.weight, self.rows = weight, rows
        steps = MatmulPlan(context.soc, [weight.parts[0]], rows, cores=1).steps
        per_run = MAX_STEPS // steps
        if not per_run:
            raise OperandError(
                "grouped matmul",
                why=f"{steps} programs per group, one run takes {MAX_STEPS}",
                do="fewer rows",
            )
        self._chains = tuple(
            Chain(context, [ChainTask(part, rows) for part in weight.parts[at : at + per_run]], core=core)
            for at in range(0, len(weight.parts), per_run)
        )

    @property
    def submits(self) -> int:
        """Submits of one run."""
        return len(self._chains)

    def run(self, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Codes int8 [rows, k] and scales fp32 [rows, k / group] to fp32 [rows, n].

        Raises:
            OperandError: arrays that do not fit, codes outside -8 to 7.
            UnhealthyError: a job timed out.
        """
        weight = self.weight
        require_array(codes, (self.rows, weight.k), np.int8, "activation")
        require_array(scales, (self.rows, len(weight.parts)), np.float32, "activation scales")
        activations = [array for chain in self._chains for array in chain.activations]
        for index, array in enumerate(activations):
            array[:] = codes[:, index * weight.group : (index + 1) * weight.group]
        for chain in self._chains:
            chain.run()
        return combine([output for chain in self._chains for output in chain.outputs], scales, weight.scales)

    def close(self) -> None:
        """Give the memory back; the weight stays."""
        for chain in self._chains:
            chain.close()


def grouped_product(
    a_codes: np.ndarray, a_scales: np.ndarray, b_codes: np.ndarray, b_scales: np.ndarray, group: int
) -> np.ndarray:
    """What a grouped matmul gives, without an NPU: rows [m, k] against weights [n, k], 4-bit or 8-bit codes.

    Scales are fp32 [m, k / group] and [k / group, n]. Every group's sum is exact, as on the NPU; fp32 [m, n].
    """
    # BLAS has no integers; float64 holds every sum of products of bytes exactly.
    a, b = a_codes.astype(np.float64), b_codes.astype(np.float64)
    spans = [slice(at, at + group) for at in range(0, a.shape[1], group)]
    return combine([a[:, span] @ b[:, span].T for span in spans], a_scales, b_scales)


def combine(partials: Sequence[np.ndarray], a_scales: np.ndarray, b_scales: np.ndarray) -> np.ndarray:
    """Exact partial sums [rows, n or more] per group, scaled and added in fp32, groups in order."""
    n = b_scales.shape[1]
    total = np.zeros((a_scales.shape[0], n), np.float32)
    for index, partial in enumerate(partials):
        total += partial[:, :n].astype(np.float32) * (a_scales[:, index : index + 1] * b_scales[index])
    return total
