"""Several independent matmuls as one submit on one core, and such chains dealt over the cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.matmul.operands import cores_for_outputs
from orkbench_tui.driver.mode_gate import Priming
from orkbench_tui.driver.run_paths import RunPath, path_mode
from orkbench_tui.driver.submit import core_mask_for
from orkbench_tui.driver.task_rules import MAX_STEPS, ChainTask
from orkbench_tui.driver.task_set import TaskSet

__all__ = ["MAX_STEPS", "Chain", "ChainTask", "RoundRobinChains"]


class Chain:
    """Tasks that run one after the other on ``core``, in one submit of linked programs.

    ``activations[i]`` [rows, k] is to be filled before ``run``, ``outputs[i]`` [rows, n] valid after it
    until the next run. The programs are built once; a run costs one submit.

    Raises:
        OperandError, RefusedError: tasks that may not share a submit (``require_chainable``), arrays that
            do not fit; nothing was submitted.
        LifetimeError: a weight was freed.
    """

    def __init__(self, context: Context, tasks: Sequence[ChainTask], *, core: int = 0) -> None:
        core_mask_for(core, context.soc)
        self._context = context
        self.core = core
        self.priming = Priming()
        self.set = TaskSet(context, tasks)
        with context.domains.use(self.set.domain):
            self.linked = LinkedPrograms(
                context.memory, context.programs, self.set.bodies, domain=self.set.domain
            )
        self.format = self.set.format
        self.activations: tuple[np.ndarray, ...] = tuple(t.activation.array for t in self.set.tasks)
        self.outputs: tuple[np.ndarray, ...] = tuple(t.output for t in self.set.tasks)
        self._open = True

    @property
    def steps(self) -> int:
        """Programs one run executes."""
        return self.linked.count

    def require_ready(self) -> None:
        """Raises LifetimeError, NoDeviceError or OperandError when a run must not be submitted."""
        if not self._open:
            raise LifetimeError("running a chain", why="it was closed", do="make it again")
        self.set.require_ready("running a chain")

    def run(self) -> None:
        """Compute all outputs; every one is complete on return.

        Raises:
            LifetimeError, OperandError, NoDeviceError: see ``require_ready``; nothing was submitted.
            UnhealthyError: the job timed out; all outputs are void.
        """
        self.require_ready()
        context, path = self._context, path_mode(RunPath.CHAIN, self.format)
        with context.gate.inside(path) as cold, context.domains.use(self.set.domain):
            self.set.refresh()
            self.set.clean_results(all_of_them=self.priming.due(context.gate, cold=cold))
            context.submitter.run_on(self.core, self.linked.job)
            self.set.fetch_results()
        context.after_run()

    def close(self) -> None:
        """Give all memory back; the chain cannot be run afterwards."""
        if self._open:
            self._open = False
            self.linked.release()
            self.set.free()


class RoundRobinChains:
    """Chains as jobs of a stream: a core that is done takes the next one, nobody waits for another.

    Each chain has memory of its own, so they do not disturb each other. With a result in the caller's
    NPU memory all of them run on one core (GRD-23).

    Raises:
        OperandError: no chains, or chains of different formats or domains.
    """

    def __init__(self, context: Context, chains: Sequence[Chain], *, cores: int | None = None) -> None:
        if not chains:
            raise OperandError("round robin", why="no chains; at least 1 is needed")
        names = sorted({chain.format.name for chain in chains})
        if len(names) > 1:
            raise OperandError("round robin", why=f"chains of {', '.join(names)}; all must share one format")
        domains = sorted({chain.set.domain for chain in chains})
        if len(domains) > 1:
            raise OperandError(
                "round robin",
                why=f"chains in domains {', '.join(map(str, domains))}; the NPU works in one at a time",
            )
        if cores is not None and not 1 <= cores <= context.soc.cores:
            raise OperandError("round robin", why=f"{cores} cores, allowed: 1 to {context.soc.cores}")
        self._context = context
        self.chains = tuple(chains)
        direct = [part for chain in chains for part in chain.set.caller_outputs]
        self.cores = cores_for_outputs(context, direct, cores or context.soc.cores)

    def run(self) -> None:
        """Compute the outputs of every chain.

        One sync of everything before the first submit and one after the last, none in between.

        Raises:
            LifetimeError, OperandError, NoDeviceError: see ``Chain.require_ready``; nothing was submitted.
            UnhealthyError: a job timed out; all outputs are void.
        """
        for chain in self.chains:
            chain.require_ready()
        context, path = self._context, path_mode(RunPath.STREAM, self.chains[0].format)
        with context.gate.inside(path) as cold, context.domains.use(self.chains[0].set.domain):
            for chain in self.chains:
                chain.set.refresh()
                chain.set.clean_results(all_of_them=chain.priming.due(context.gate, cold=cold))
            context.submitter.stream([chain.linked.job for chain in self.chains], self.cores)
            for chain in self.chains:
                chain.set.fetch_results()
        context.after_run()
