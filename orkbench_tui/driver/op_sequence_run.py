"""Carrying out a planned sequence of operations, one run after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from orkbench_tui.driver.chain import Chain
from orkbench_tui.driver.chain_rules import ChainRule, OpGroup, op_group
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.compiled import Matmul
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.modes import Mode, transition
from orkbench_tui.driver.op_sequence import (
    FUSED_KIND,
    Earlier,
    How,
    PlannedRun,
    SeqStep,
    Source,
    plan_sequence,
)
from orkbench_tui.driver.run_paths import RunPath, path_mode
from orkbench_tui.driver.sdp.kinds import OPERATIONS
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS
from orkbench_tui.driver.sdp.ops import Sdp
from orkbench_tui.driver.sdp.quantization import Quantization
from orkbench_tui.driver.sdp.table import TABLE
from orkbench_tui.driver.task_rules import ChainTask
from orkbench_tui.errors import OrkError

__all__ = ["run_sequence"]

_SILU = "silu"


class _Sequence:
    def __init__(self, context: Context, sdp: Sdp, steps: Sequence[SeqStep]) -> None:
        self._context, self._sdp, self._steps = context, sdp, steps
        self.results: list[np.ndarray | None] = [None] * len(steps)

    def _read(self, source: Source) -> np.ndarray:
        if not isinstance(source, Earlier):
            return source
        result = self.results[source.step]
        # A plan fuses a step only where nobody else reads what is lost by it.
        assert result is not None
        return result

    def run(self, planned: PlannedRun) -> None:
        if planned.before is ChainRule.DISALLOW:
            self._start_over(self._steps[planned.start])
        if planned.how is How.LINKED:
            self._linked(planned)
        elif planned.how is How.FUSED:
            self._fused(planned)
        else:
            self._alone(planned)

    def _start_over(self, following: SeqStep) -> None:
        """A reset before a step that may not follow what ran; those that reset from cold need no second."""
        context = self._context
        if context.unattended:
            raise LifetimeError(
                "a reset between two operations",
                why=f"core {min(context.unattended)} has a doorbell running",
                do="end that one first",
            )
        context.gate.forget()
        if following.weight is not None:
            path = path_mode(RunPath.BLOCKING, following.weight.format)
            if transition(path.profile, Mode.COLD, path.mode, context.gate.state.knobs).reset:
                return
        context.reset()
        context.submitter.counters.resets += 1

    def _linked(self, planned: PlannedRun) -> None:
        tasks = [self._task(self._steps[index]) for index in planned.steps]
        chain = Chain(self._context, tasks, core=planned.core)
        try:
            chain.run()
            for index, output in zip(planned.steps, chain.outputs, strict=True):
                self.results[index] = output.copy()
        finally:
            chain.close()

    def _task(self, step: SeqStep) -> ChainTask:
        assert step.weight is not None
        return ChainTask(step.weight, step.rows, a=self._read(step.a), convert=step.convert)

    def _fused(self, planned: PlannedRun) -> None:
        matmul, activation = (self._steps[index] for index in planned.steps)
        self.results[planned.start + 1] = self._activated(matmul, activation.quantization, planned.core)

    def _activated(self, step: SeqStep, q: Quantization, core: int) -> np.ndarray:
        assert step.weight is not None
        with self._sdp.activated(
            step.weight,
            step.rows,
            _SILU,
            acc_scale=q.a_scale,
            out_scale=q.out_scale,
            out_zero=q.out_zero,
            reach=FUNCTIONS[_SILU].reach,
        ) as program:
            return program.run(self._read(step.a), core=core)

    def _alone(self, planned: PlannedRun) -> None:
        step = self._steps[planned.start]
        if step.kind in OPERATIONS:
            self.results[planned.start] = self._element_wise(step, planned.core)
        elif step.kind is FUSED_KIND:
            self.results[planned.start] = self._activated(step, step.quantization, planned.core)
        else:
            self.results[planned.start] = self._matmul(step, planned.core)

    def _matmul(self, step: SeqStep, core: int) -> np.ndarray:
        assert step.weight is not None
        matmul = Matmul(
            self._context, [step.weight], step.rows, step.convert, a=self._read(step.a), one_core=True
        )
        try:
            matmul.run_on(core)
            return matmul.outputs[0].copy()
        finally:
            matmul.close()

    def _element_wise(self, step: SeqStep, core: int) -> np.ndarray:
        op, dtype = OPERATIONS[step.kind]
        a, q = self._read(step.a), step.quantization
        if (op, dtype) in TABLE:
            b = None if step.b is None else self._read(step.b)
            return self._sdp.run(op, a, b, quantization=q, core=core)
        return self._sdp.activate(
            op,
            a,
            in_scale=q.a_scale,
            out_scale=q.out_scale,
            in_zero=q.a_zero,
            out_zero=q.out_zero,
            core=core,
        )

    def witness(self, planned: PlannedRun) -> None:
        """A small matmul behind a group that does not end with one: when it is over, so is the group."""
        last = self._steps[planned.steps[-1]]
        if last.group and op_group(last.kind) is not OpGroup.MATMUL:
            drain_of(self._context, INT8, 0).run(planned.core)


@contextmanager
def _named(planned: PlannedRun) -> Iterator[None]:
    """Failures name the first step they concern."""
    try:
        yield
    except OrkError as error:
        error.what = f"step {planned.start} ({planned.kinds[0]}): {error.what}"
        error.args = (error.line(),)
        raise


def run_sequence(
    context: Context, sdp: Sdp, steps: Sequence[SeqStep], *, core: int = 0
) -> tuple[np.ndarray | None, ...]:
    """Compute every step; results [rows, columns] by step, None where one was consumed within a program.

    Raises:
        OperandError: see ``plan_sequence``; nothing was submitted.
        OrkError: a step failed: the message names the first it may be, the results are void.
    """
    runs = plan_sequence(steps, cores=context.soc.cores, core=core)
    sequence = _Sequence(context, sdp, steps)
    for index, planned in enumerate(runs):
        with _named(planned):
            sequence.run(planned)
            group = steps[planned.start].group
            if index + 1 == len(runs) or steps[runs[index + 1].start].group != group:
                sequence.witness(planned)
    return tuple(sequence.results)
