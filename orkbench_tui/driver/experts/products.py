"""Products of rows with the experts they chose, on the NPU, in one of three ways that differ in submits alone.

``EACH``: a submit for every active expert, of any K. ``CHAIN``: all of a pass as one submit on one core. ``CORES``: dealt
over the cores by rows, a submit for each core (one submit over several cores wedges the device).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.experts.groups import Groups
from orkbench_tui.driver.experts.pool import ExpertPool
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.task_rules import FULL_K_GRANULE, FULL_K_LIMIT

__all__ = ["Ways", "deal", "expert_products"]


class Ways(enum.Enum):
    EACH = "each"
    CHAIN = "chain"
    CORES = "cores"


def expert_products(
    npu: Npu, pool: ExpertPool, codes: NDArray[np.int8], groups: Groups, way: Ways = Ways.CORES
) -> NDArray[np.int32]:
    """int32 [rows * used, n]: choice ``i`` is its row of ``codes`` [rows, k] by the expert it chose.

    Experts pass through the pool's places, as many at a time as there are. Every way gives the same sums.

    Raises:
        OperandError: rows that are not those of ``groups``.
        RefusedError: a K that chains do not take (GRD-10), where ``way`` needs one.
        UnhealthyError: a job timed out.
    """
    rows = len(groups.slots) // groups.used
    if codes.ndim != 2 or codes.dtype != np.int8 or len(codes) != rows:
        raise OperandError(
            "experts' input", why=f"{codes.dtype} {codes.shape}; the choices are of {rows} rows"
        )
    active = groups.active
    result: NDArray[np.int32] | None = None
    for first in range(0, len(active), pool.size):
        part = active[first : first + pool.size]
        weights = pool.hold(part)
        inputs = [np.ascontiguousarray(codes[groups.rows(expert)]) for expert in part]
        if result is None:
            result = np.zeros((len(groups.slots), weights[0].n), np.int32)
        for expert, output in zip(part, _RUN[way](npu, weights, inputs), strict=True):
            result[groups.choices(expert)] = output
    return np.zeros((0, 0), np.int32) if result is None else result


def deal(rows: Sequence[int], shares: int) -> list[list[int]]:
    """Tasks by index in at most ``shares`` shares of about as many rows: the largest first, to the least loaded."""
    loads = [0] * shares
    found: list[list[int]] = [[] for _ in range(shares)]
    for index in sorted(range(len(rows)), key=lambda index: -rows[index]):
        lightest = min(range(shares), key=loads.__getitem__)
        loads[lightest] += rows[index]
        found[lightest].append(index)
    return [share for share in found if share]


def _each(npu: Npu, weights: Sequence[Weight], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    outputs = []
    for weight, a in zip(weights, inputs, strict=True):
        if weight.k % FULL_K_GRANULE == 0 and weight.k <= FULL_K_LIMIT:
            outputs += _chain(npu, [weight], [a])
            continue
        # Other widths run as a matmul, a submit for each core's share of the columns.
        matmul = npu.matmul([weight], len(a))
        try:
            matmul.a[:] = _padded(a, weight.k)
            matmul.run_on(0)
            outputs.append(matmul.outputs[0].copy())
        finally:
            matmul.close()
    return outputs


def _chain(npu: Npu, weights: Sequence[Weight], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return _dealt(npu, weights, inputs, 1)


def _cores(npu: Npu, weights: Sequence[Weight], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return _dealt(npu, weights, inputs, npu.soc.cores)


def _dealt(npu: Npu, weights: Sequence[Weight], inputs: Sequence[np.ndarray], cores: int) -> list[np.ndarray]:
    shares = deal([len(a) for a in inputs], cores)
    chains = []
    outputs: list[np.ndarray] = [np.zeros(0, np.int32)] * len(inputs)
    try:
        for share in shares:
            chains.append(npu.chain([ChainTask(weights[i], len(inputs[i])) for i in share]))
            for array, i in zip(chains[-1].activations, share, strict=True):
                array[:] = _padded(inputs[i], weights[i].k)
        if len(chains) == 1:
            chains[0].run()
        else:
            npu.round_robin(chains, cores=cores).run()
        for chain, share in zip(chains, shares, strict=True):
            for output, i in zip(chain.outputs, share, strict=True):
                outputs[i] = output.copy()
    finally:
        for chain in chains:
            chain.close()
    return outputs


def _padded(a: np.ndarray, k: int) -> np.ndarray:
    return a if a.shape[1] == k else np.pad(a, ((0, 0), (0, k - a.shape[1])))


_RUN = {Ways.EACH: _each, Ways.CHAIN: _chain, Ways.CORES: _cores}
