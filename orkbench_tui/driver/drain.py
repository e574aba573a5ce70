"""Waiting until a core is idle: a small blocking job, which a core runs after all that was queued before."""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.matmul.weights import load_tiles
from orkbench_tui.driver.memory import Slice

__all__ = ["Drain", "drain_of"]


class Drain:
    """The marker job of one format: one row against the smallest weight, all zeros."""

    def __init__(self, context: Context, format: MatmulFormat) -> None:
        self._context = context
        k, n = format.precision.k_granule, format.precision.kernel_group
        zeros = np.zeros(format.memory_bytes(k * n), dtype=np.uint8)
        weight = load_tiles(context.memory, format, "drain", zeros, k, n)
        plan = MatmulPlan(context.soc, [weight], 1, cores=1)
        a = context.memory.allocate(plan.a_bytes)
        c = context.memory.allocate(plan.c_bytes)
        programs = plan.programs(Slice(a, 0, plan.a_bytes), Slice(c, 0, plan.c_bytes))
        self._jobs, _ = context.programs.assemble(programs, 1)

    def run(self, core: int) -> None:
        """Return when everything queued on ``core`` before is over.

        Raises:
            UnhealthyError: what was queued is stuck.
        """
        for job in self._jobs:
            self._context.submitter.run_on(core, job)


def drain_of(context: Context, format: MatmulFormat) -> Drain:
    """The marker job of a format, made once per NPU."""
    if format.name not in context.drains:
        context.drains[format.name] = Drain(context, format)
    return context.drains[format.name]
