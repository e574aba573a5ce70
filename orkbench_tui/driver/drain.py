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
    """The marker job of one format in one domain: one row against the smallest weight, all zeros."""

    def __init__(self, context: Context, format: MatmulFormat, domain: int) -> None:
        self._context = context
        k, n = format.precision.k_granule, format.precision.kernel_group
        zeros = np.zeros(format.memory_bytes(k * n), dtype=np.uint8)
        with context.domains.use(domain):
            weight = load_tiles(context.memory, format, "drain", zeros, k, n, domain=domain)
            plan = MatmulPlan(context.soc, [weight], 1, cores=1)
            a = context.memory.allocate(plan.a_bytes, domain=domain)
            c = context.memory.allocate(plan.c_bytes, domain=domain)
            programs = plan.programs(Slice(a, 0, plan.a_bytes), Slice(c, 0, plan.c_bytes))
            self._jobs, _ = context.programs.assemble(programs, 1, domain)

    def run(self, core: int) -> None:
        """Return when everything queued on ``core`` before is over.

        Raises:
            UnhealthyError: what was queued is stuck.
        """
        for job in self._jobs:
            self._context.submitter.run_on(core, job)

    def start(self, core: int) -> None:
        """Queue the marker without waiting, which makes the kernel drop what is overdue on ``core``."""
        for job in self._jobs:
            self._context.submitter.start_on(core, job)


def drain_of(context: Context, format: MatmulFormat, domain: int) -> Drain:
    """The marker job of a format in a domain, made once per NPU."""
    key = format.name, domain
    if key not in context.drains:
        context.drains[key] = Drain(context, format, domain)
    return context.drains[key]
