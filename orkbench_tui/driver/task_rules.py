"""What tasks may share one submit. All of it is checked before anything is allocated or submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver import guards
from orkbench_tui.driver.chain_rules import OpKind, require_hardware_edge
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.importer import require_chain_mappings
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.matmul.reuse import WeightReuse
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.plural import counted

__all__ = [
    "FULL_K_GRANULE",
    "FULL_K_LIMIT",
    "MATMUL_KINDS",
    "MAX_STEPS",
    "ChainTask",
    "require_chainable",
    "require_full_k",
    "require_one_row_tile",
    "require_whole_k",
]

MAX_STEPS = 1024
FULL_K_GRANULE = 512
FULL_K_LIMIT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ChainTask:
    """One matmul of a chain: ``rows`` rows against ``weight``.

    ``a`` [rows, k] and ``output`` [rows, n] are the caller's arrays; without them the chain has its own.
    ``reuse`` keeps its weights in the core over its row tiles.
    """

    weight: Weight
    rows: int
    a: np.ndarray | None = None
    output: np.ndarray | None = None
    convert: OutputConversion | None = None
    reuse: WeightReuse | None = None


MATMUL_KINDS: Mapping[str, OpKind] = MappingProxyType(
    {
        "int8": OpKind.MATMUL_W8A8,
        "int8->int8": OpKind.MATMUL_REQUANT_W8A8,
        "int8->int16": OpKind.MATMUL_W8A8_I16OUT,
        "fp16": OpKind.MATMUL_W16A16,
        "fp16->fp16": OpKind.MATMUL_W16A16_F16OUT,
        "int4": OpKind.MATMUL_W4A4,
    }
)
"""By format name."""


def require_full_k(k: int, what: str) -> None:
    """Raises RefusedError (GRD-10) for a K outside what int8 chains were shown to compute rightly."""
    if k % FULL_K_GRANULE or not 0 < k <= FULL_K_LIMIT:
        guards.refuse(
            "GRD-10",
            seen=f"{what} has K = {k}, allowed: multiples of {FULL_K_GRANULE} up to {FULL_K_LIMIT}",
        )


def require_whole_k(weight: Weight) -> None:
    """Raises RefusedError (GRD-11) for an int8 weight of several K slices, where tasks share a submit.

    A slice's sums are parts of a result, and nothing adds them between the programs of a batch.
    """
    if len(weight.slices) > 1:
        guards.refuse(
            "GRD-11",
            seen=f"{weight.name} has K = {weight.k} in {len(weight.slices)} slices, allowed: one slice, K up to "
            f"{weight.format.k_limit}",
            do="run it alone as a matmul, which adds the slices up",
        )


def require_one_row_tile(plans: Sequence[MatmulPlan]) -> None:
    """Raises RefusedError (GRD-18) when fp16 tasks need row tiles of different heights."""
    heights = sorted({max(plan.tile_rows) for plan in plans})
    if len(heights) > 1:
        guards.refuse("GRD-18", seen=f"row tiles of {', '.join(map(str, heights))} rows")


def _require_edge(first: MatmulFormat, second: MatmulFormat) -> None:
    """Programs of one format may follow each other as the tiles of one matmul do."""
    if first is second:
        return
    kinds = MATMUL_KINDS.get(first.name), MATMUL_KINDS.get(second.name)
    if kinds[0] is None or kinds[1] is None:
        raise OperandError("linking two matmuls", why=f"{first.name} -> {second.name} has never been tried")
    require_hardware_edge(kinds[0], kinds[1])


def require_chainable(plans: Sequence[MatmulPlan], steps: int) -> None:
    """Raises OperandError or RefusedError unless the tasks may ride one submit of ``steps`` programs."""
    if not plans:
        raise OperandError("chain", why="no tasks; at least 1 is needed")
    weights = [plan.weights[0] for plan in plans]
    domains = sorted({weight.domain for weight in weights})
    if len(domains) > 1:
        raise OperandError(
            "chain",
            why=f"weights in domains {', '.join(map(str, domains))}; one submit reaches one domain",
            do="make a chain per domain",
        )
    for first, second in pairwise(plans):
        _require_edge(first.format, second.format)
    for plan, weight in zip(plans, weights, strict=True):
        if plan.format.precision.input_bits == 8:
            if len(plans) > 1:
                require_whole_k(weight)
            require_full_k(plan.k, weight.name)
    if plans[0].format.precision.code is Precision.FP16:
        require_one_row_tile(plans)
    imports = {b.handle for weight in weights for b in weight.buffers if b.source}
    require_chain_mappings(len(imports), f"a chain of {counted(len(plans), 'task')}")
    if steps > MAX_STEPS:
        raise OperandError(
            "chain",
            why=f"{len(plans)} tasks need {steps} programs, allowed: 1 to {MAX_STEPS}",
            do="split it into several chains",
        )
