"""Tasks that share a submit, with memory of their own: their activations, results and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.dma_memory import UNCACHED_FLAGS
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.operands import (
    Activation,
    bind_activation,
    in_place_output,
    require_array,
    require_values,
)
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.memory import Buffer, Slice
from orkbench_tui.driver.task_rules import ChainTask, require_chainable

__all__ = ["BoundTask", "TaskRoom", "TaskSet"]

_ALIGN = 64


@dataclass(frozen=True, slots=True, eq=False)
class BoundTask:
    """A task with its memory. ``result`` is what the device writes, ``direct`` when that is ``output`` itself."""

    plan: MatmulPlan
    activation: Activation
    result: Slice
    output: np.ndarray
    direct: bool
    bodies: tuple[np.ndarray, ...]
    cost: int

    @property
    def weight_name(self) -> str:
        return self.plan.weights[0].name


def _checked_plan(context: Context, task: ChainTask) -> MatmulPlan:
    plan = MatmulPlan(context.soc, [task.weight], task.rows, task.convert, cores=1, reuse=task.reuse)
    if task.a is not None:
        require_array(task.a, (task.rows, plan.k), plan.format.operand, "activation")
    if task.output is not None:
        require_array(task.output, (task.rows, task.weight.n), plan.format.total, "output")
    domain = task.weight.domain
    for what, array in (("activation", task.a), ("output", task.output)):
        part = None if array is None else context.dma.find(array, what)
        if part is not None and part.buffer.domain != domain:
            raise OperandError(what, why=f"it lies in domain {part.buffer.domain}, the weight in {domain}")
    return plan


def _offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where pieces of these sizes start when each begins on a cache line, and the size of all."""
    starts, at = [], 0
    for size in sizes:
        starts.append(at)
        at += -(-size // _ALIGN) * _ALIGN
    return starts, at


class TaskRoom:
    """Memory for activations and results, handed out from the front."""

    def __init__(self, context: Context, domain: int, a_bytes: int, c_bytes: int, *, polled: bool) -> None:
        self._context = context
        with context.domains.use(domain):
            self._a = Slice(context.memory.allocate(a_bytes, domain=domain), 0, a_bytes)
            flags = UNCACHED_FLAGS if polled else uapi.DATA_FLAGS
            self._c = Slice(context.memory.allocate(c_bytes, flags, domain), 0, c_bytes)

    def take(self, a_bytes: int, c_bytes: int) -> tuple[Slice, Slice]:
        """Raises OperandError when less is left."""
        for what, wanted, left in (("A", a_bytes, self._a.size), ("C", c_bytes, self._c.size)):
            if wanted > left:
                raise OperandError(
                    "memory for a task", why=f"{what} takes {wanted} bytes, {left} of the reserve left"
                )
        taken = self._a.part(0, a_bytes), self._c.part(0, c_bytes)
        self._a = self._a.part(a_bytes, self._a.size - a_bytes)
        self._c = self._c.part(c_bytes, self._c.size - c_bytes)
        return taken

    def free(self) -> None:
        self._context.memory.free(self._a.buffer)
        self._context.memory.free(self._c.buffer)


class TaskSet:
    """Tasks bound to memory in the domain of their weights.

    Args:
        polled: results go to uncached memory and are copied out in one piece, as a poller needs it.
        spare_steps: programs the submit may hold beside these.
        room: memory to take instead of allocating, for tasks that join a running job.

    Raises:
        OperandError, RefusedError: see ``require_chainable``; nothing was allocated.
        LifetimeError: a weight was freed.
    """

    def __init__(
        self,
        context: Context,
        tasks: Sequence[ChainTask],
        *,
        polled: bool = False,
        spare_steps: int = 0,
        room: TaskRoom | None = None,
    ) -> None:
        context.require_ready("making a chain", (b for task in tasks for b in task.weight.buffers))
        plans = [_checked_plan(context, task) for task in tasks]
        require_chainable(plans, sum(plan.steps for plan in plans) + spare_steps)
        self._context = context
        self.format = plans[0].format
        self.domain = tasks[0].weight.domain
        a_starts, a_size = _offsets([plan.a_bytes for plan in plans])
        c_starts, c_size = _offsets([plan.c_bytes for plan in plans])
        self._owned = room is None
        if room is None:
            room = TaskRoom(context, self.domain, a_size, c_size, polled=polled)
        self._a, self._c = room.take(a_size, c_size)
        self.tasks = tuple(
            self._bind(task, plan, self._a.part(a, plan.a_bytes), self._c.part(c, plan.c_bytes), polled)
            for task, plan, a, c in zip(tasks, plans, a_starts, c_starts, strict=True)
        )
        self._weights = [buffer for task in tasks for buffer in task.weight.buffers]

    def _bind(self, task: ChainTask, plan: MatmulPlan, a: Slice, c: Slice, polled: bool) -> BoundTask:
        dma = self._context.dma
        activation = bind_activation(dma, plan.format, plan.placement, a, task.a)
        found = None
        if task.output is not None and plan.lies_in_place(0):
            found = in_place_output(dma, task.output, self.domain)
        if task.output is not None:
            output = task.output
        elif polled:
            output = np.empty((plan.rows, task.weight.n), dtype=plan.format.total)
        else:
            output = plan.output_array(0, c)
        programs = plan.programs(activation.part, c, [found])
        return BoundTask(
            plan=plan,
            activation=activation,
            result=found or c,
            output=output,
            direct=found is not None or (task.output is None and not polled and plan.lies_in_place(0)),
            bodies=tuple(program.body for program in programs),
            cost=sum(program.cost for program in programs),
        )

    @property
    def largest(self) -> tuple[int, int]:
        """Bytes of the largest activation and of the largest result, in whole cache lines."""
        a, c = (
            [_offsets([size])[1] for size in sizes]
            for sizes in zip(*((t.plan.a_bytes, t.plan.c_bytes) for t in self.tasks), strict=True)
        )
        return max(a), max(c)

    @property
    def imports(self) -> frozenset[int]:
        """Handles of the imported buffers its programs read."""
        return frozenset(buffer.handle for buffer in self._weights if buffer.source)

    @property
    def bodies(self) -> list[np.ndarray]:
        return [body for task in self.tasks for body in task.bodies]

    @property
    def cost(self) -> int:
        return sum(task.cost for task in self.tasks)

    @property
    def caller_outputs(self) -> list[Slice]:
        """Results written straight into memory of the caller's."""
        return [task.result for task in self.tasks if task.result.buffer is not self._c.buffer]

    def require_ready(self, what: str) -> None:
        """Raises LifetimeError, NoDeviceError or OperandError unless a run may be submitted."""
        self._context.require_ready(what, self._buffers())
        for task in self.tasks:
            require_values(task.plan.format, task.activation.array, "activation")

    def _buffers(self) -> list[Buffer]:
        own = [self._a.buffer, self._c.buffer, *self._weights]
        return own + [part.buffer for task in self.tasks for part in (task.activation.part, task.result)]

    def refresh(self) -> None:
        """Bring the activations to the device."""
        memory = self._context.memory
        own = False
        for task in self.tasks:
            task.activation.refresh()
            if task.activation.part.buffer is self._a.buffer:
                own = True
            else:
                memory.sync(task.activation.part, uapi.SyncFlag.TO_DEVICE)
        if own:
            memory.sync(self._a, uapi.SyncFlag.TO_DEVICE)

    def clean_results(self, *, all_of_them: bool) -> None:
        """Before a submit: no dirty line may be left to be evicted over a result.

        The caller may have written into memory of its own at any time, into ours only before the
        first run or where it was handed out.
        """
        memory = self._context.memory
        for part in self.caller_outputs:
            memory.sync(part, uapi.SyncFlag.TO_DEVICE)
        if all_of_them:
            memory.sync(self._c, uapi.SyncFlag.TO_DEVICE)

    def fetch_results(self, tasks: Sequence[BoundTask] | None = None) -> None:
        """After completion: results (default all) into the outputs where they do not lie there."""
        wanted = self.tasks if tasks is None else tasks
        memory = self._context.memory
        own = False
        for task in wanted:
            if task.result.buffer is self._c.buffer:
                own = True
            else:
                memory.sync(task.result, uapi.SyncFlag.FROM_DEVICE)
        if own:
            memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)
        for task in wanted:
            if not task.direct:
                task.plan.gather(task.result, [task.output])

    def free(self) -> None:
        """Release the memory; not while a job may still write to it."""
        if self._owned:
            self._context.memory.free(self._a.buffer)
            self._context.memory.free(self._c.buffer)
