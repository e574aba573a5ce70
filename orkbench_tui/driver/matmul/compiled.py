"""Matmuls on the NPU: compiled once per shape, then re-run, over all cores or on one.

A call compiles for a fixed number of rows and for one or several weights that share the activation
(q, k and v; gate and up). Per run only the activation is refreshed: sync A to the device, run, sync C
back. Row-major formats hand A and C over in place; cube formats are packed around the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.operands import (
    bind_activation,
    cores_for_outputs,
    in_place_output,
    require_array,
    require_values,
)
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.matmul.reuse import WeightReuse
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.memory import Buffer, Slice
from orkbench_tui.driver.mode_gate import Priming
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.run_paths import RunPath, path_mode

__all__ = ["Matmul"]


class Matmul:
    """A compiled ``C_i = A x B_i`` for fixed rows and weights.

    ``a`` is the operand [rows, k], to be filled before ``run``; ``outputs`` are [rows, n_i]. Without
    arrays of the caller's they are valid from ``run`` until the next run of any matmul of the same lane.

    Args:
        lane: matmuls of different lanes share no memory, so one may be filled and read while another runs.
        a: the caller's operand; read where it is when it lies in NPU memory (``Npu.dma_array``).
        outputs: the caller's results; those in NPU memory are written where they are, on one core.
        reuse: keep weights in the cores over the row tiles; see ``reuse``.
        one_core: columns are not cut for several cores; ``run`` uses the first.

    Raises:
        OperandError: arrays or weights that do not fit each other.
        LifetimeError: a weight was freed.
        RefusedError: a shape the chip cannot run.
    """

    def __init__(
        self,
        context: Context,
        weights: Sequence[Weight],
        rows: int,
        convert: OutputConversion | None = None,
        *,
        lane: int = 0,
        a: np.ndarray | None = None,
        outputs: Sequence[np.ndarray] | None = None,
        reuse: WeightReuse | None = None,
        one_core: bool = False,
    ) -> None:
        context.require_ready("compiling a matmul", (b for weight in weights for b in weight.buffers))
        self._context = context
        self._priming = Priming()
        plan = MatmulPlan(context.soc, weights, rows, convert, cores=context.soc.cores, reuse=reuse)
        if a is not None:
            require_array(a, (rows, plan.k), plan.format.operand, "activation")
        direct = self._direct_outputs(plan, outputs)
        self._single_core = one_core or cores_for_outputs(context, direct, context.soc.cores) == 1
        if self._single_core:
            plan = MatmulPlan(context.soc, weights, rows, convert, cores=1, reuse=reuse)
        self._plan = plan
        self.format = plan.format
        self.rows = rows
        self.k = plan.k
        self.weights = plan.weights
        with context.domains.use(plan.domain):
            a_part = Slice(context.scratch(f"a{lane}", plan.a_bytes, plan.domain), 0, plan.a_bytes)
            self._c = Slice(context.scratch(f"c{lane}", plan.c_bytes, plan.domain), 0, plan.c_bytes)
        self._activation = bind_activation(context.dma, plan.format, plan.placement, a_part, a)
        self._direct = tuple(part for part in direct if part)
        self.a = self._activation.array
        if outputs is None:
            self.outputs = tuple(plan.output_array(index, self._c) for index in range(len(weights)))
            copied = [not plan.lies_in_place(index) for index in range(len(weights))]
        else:
            self.outputs = tuple(outputs)
            copied = [part is None for part in direct]
        self._gathered = [out if copy else None for out, copy in zip(self.outputs, copied, strict=True)]
        self._jobs, self._pieces = context.programs.assemble(
            plan.programs(self._activation.part, self._c, direct),
            1 if self._single_core else None,
            plan.domain,
        )

    def _direct_outputs(self, plan: MatmulPlan, outputs: Sequence[np.ndarray] | None) -> list[Slice | None]:
        if outputs is None:
            return [None] * len(plan.weights)
        if len(outputs) != len(plan.weights):
            raise OperandError(
                "compiling a matmul", why=f"{len(outputs)} outputs for {len(plan.weights)} weights"
            )
        found: list[Slice | None] = []
        for index, (output, weight) in enumerate(zip(outputs, plan.weights, strict=True)):
            require_array(output, (plan.rows, weight.n), plan.format.total, f"output {index}")
            part = in_place_output(self._context.dma, output, plan.domain)
            found.append(part if plan.lies_in_place(index) else None)
        return found

    @property
    def tasks(self) -> int:
        """Programs one run executes."""
        return sum(job.tasks for job in self._jobs)

    def _buffers(self) -> list[Buffer]:
        return [
            self._activation.part.buffer,
            self._c.buffer,
            *(buffer for weight in self.weights for buffer in weight.buffers),
            *(part.buffer for part in self._direct),
        ]

    def run(self) -> None:
        """Compute all outputs from ``a``, streaming the programs over all cores.

        With an output in NPU memory one core does it all.

        Raises:
            LifetimeError, OperandError, NoDeviceError: freed or closed, or numbers the format does not
                take; nothing was submitted.
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``; the outputs are void then.
        """
        if self._single_core:
            self.run_on(0)
        else:
            self._bracketed(RunPath.SPREAD, lambda: self._context.submitter.stream(self._jobs))

    def run_on(self, core: int) -> None:
        """The same on one core, one blocking job after the other."""

        def jobs() -> None:
            for job in self._jobs:
                self._context.submitter.run_on(core, job)

        self._bracketed(RunPath.BLOCKING, jobs)

    def _bracketed(self, path: RunPath, submit: Callable[[], None]) -> None:
        context = self._context
        if not self._jobs:
            raise LifetimeError("running a matmul", why="it was closed", do="compile it again")
        context.require_ready("running a matmul", self._buffers())
        require_values(self.format, self.a, "activation")
        with context.gate.inside(path_mode(path, self.format)) as cold:
            self._enter_and_run(cold, submit)
        self._plan.gather(self._c, self._gathered)
        context.after_run()

    def _enter_and_run(self, cold: bool, submit: Callable[[], None]) -> None:
        memory = self._context.memory
        with self._context.domains.use(self._plan.domain):
            self._activation.refresh()
            memory.sync(self._activation.part, uapi.SyncFlag.TO_DEVICE)
            if self._priming.due(self._context.gate, cold=cold):
                memory.sync(self._c, uapi.SyncFlag.TO_DEVICE | uapi.SyncFlag.FROM_DEVICE)
            for part in self._direct:
                # The caller may have written there: a dirty line evicted later would cover the result.
                memory.sync(part, uapi.SyncFlag.TO_DEVICE)
            submit()
            for part in self._direct:
                memory.sync(part, uapi.SyncFlag.FROM_DEVICE)
            if len(self._direct) < len(self.outputs):
                memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)

    def close(self) -> None:
        """Give the program memory back; the object cannot be run afterwards."""
        if self._jobs:
            self._context.programs.release(self._pieces)
            self._jobs = []
