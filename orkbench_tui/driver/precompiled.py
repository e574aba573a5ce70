"""Decode steps compiled once: A's address captured, C's baked in, nothing built or allocated per run.

A run copies A to where the device reads it, writes the patterns, submits without waiting and looks
until the results are there; native code does that in one call. The program owns its descriptor array:
on a shared one another path's descriptors would run, and the kernel would answer with resets (GRD-42).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.affinity import on_big_processors, worth_moving_to
from orkbench_tui.driver.completion import COMPLETION
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.device import descriptor_of
from orkbench_tui.driver.dma_memory import UNCACHED_FLAGS, array_address
from orkbench_tui.driver.failure_recorder import naming
from orkbench_tui.driver.failures import LifetimeError, OperandError, from_os_error
from orkbench_tui.driver.matmul.assembly import PROGRAM_BYTES, TASK_BYTES
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.matmul.operands import bind_activation, require_array
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.memory import Buffer, Slice
from orkbench_tui.driver.recovery import MAX_ATTEMPTS
from orkbench_tui.driver.run_paths import RunPath, path_mode
from orkbench_tui.driver.submit import BLOCKING, NONBLOCK, Job, Submitted, core_mask_for, submit_structure
from orkbench_tui.driver.task_rules import require_chainable
from orkbench_tui.errors import OrkError, RefusedError, UnhealthyError
from orkbench_tui.plural import counted

__all__ = ["MAX_WEIGHTS", "PrecompiledProgram", "require_own_descriptors", "require_polled"]

MAX_WEIGHTS = 512
_PATTERN = COMPLETION[INT8.name].patterns[0]


def require_own_descriptors(job: Job, own: Buffer) -> None:
    """Raises RefusedError (GRD-42) when a compiled job's descriptors are not in the program's own array."""
    if job.descriptors.buffer is not own:
        guards.refuse(
            "GRD-42",
            seen=f"task array at {job.descriptors.buffer.obj_addr:#x}, the program's own is at {own.obj_addr:#x}",
        )


def require_polled(part: Slice | None, what: str, *, cached_allowed: bool) -> Slice:
    """``part`` when results there can be polled; see ``PrecompiledProgram`` for what is allowed.

    Raises:
        RefusedError: it is outside NPU memory, or in cached memory this processor cannot maintain (GRD-43).
    """
    if part is None:
        guards.refuse("GRD-43", seen=f"{what} is outside NPU memory; allowed: dma_array(..., cached=False)")
    if part.buffer.flags & uapi.MemFlag.CACHEABLE and not cached_allowed:
        guards.refuse("GRD-43", seen=f"{what} is in cached NPU memory; allowed: dma_array(..., cached=False)")
    return part


class PrecompiledProgram:
    """``C_i = a x B_i`` for one row of int8, K a multiple of 512 up to 4096, up to 512 weights that share K.

    ``outputs[i]`` [1, n_i] is valid after ``run`` until the next: the caller's arrays where ``outputs``
    was given, which must lie in NPU memory that can be polled, else copies in ordinary memory.

    Args:
        a: int8 [1, k], captured by address: write new numbers into it, do not move or resize it.
        call: stands in for the system's ioctl where the device has a descriptor (see ``HotPath.attach``).

    Raises:
        RefusedError: a K outside the envelope (GRD-10), an output that cannot be polled (GRD-43).
        OperandError: arrays or weights that do not fit.
        LifetimeError: a weight was freed.
    """

    def __init__(
        self,
        context: Context,
        weights: Sequence[Weight],
        a: np.ndarray,
        outputs: Sequence[np.ndarray] | None = None,
        *,
        core: int = 0,
        call: Callable[[int, int, Any], int] | None = None,
    ) -> None:
        from orkbench_tui.native.hot_path import HotPath, cache_maintained

        core_mask_for(core, context.soc)
        context.require_ready("compiling a program", (b for weight in weights for b in weight.buffers))
        fd = descriptor_of(context.submitter.device)
        maintain = fd is not None and cache_maintained()
        plan = _checked_plan(context, weights, a)
        direct = _checked_outputs(context, plan, outputs, cached_allowed=maintain)
        self._context = context
        self.core = core
        self._a = a
        self._a_address = array_address(a)
        self._domain = plan.domain
        self._buffers: list[Buffer] = []
        with context.domains.use(plan.domain):
            staging = self._allocate(plan.a_bytes, uapi.DATA_FLAGS)
            activation = bind_activation(context.dma, INT8, plan.placement, staging, a)
            self._activation = activation.part
            results = self._allocate(plan.c_bytes, UNCACHED_FLAGS)
            self._job = self._build(plan, results, direct)
        parts = [
            part or Slice(results.buffer, results.offset + block.start, 4 * block.width)
            for part, block in zip(direct, plan.blocks, strict=True)
        ]
        self.outputs = tuple(
            np.empty((1, weight.n), dtype=np.int32) if outputs is None else outputs[index]
            for index, weight in enumerate(weights)
        )
        self._used = [*self._buffers, activation.part.buffer, *(b for w in weights for b in w.buffers)]
        self._used += [part.buffer for part in parts]
        views = [part.view for part in parts]
        self._hot = HotPath(
            source=a.view(np.uint8).reshape(-1) if activation.moved else None,
            staging=activation.part.view,
            bells=[view.view(np.uint32)[-1:] for view in views],
            pattern=_PATTERN,
            results=views,
            mirrors=[
                None if given else out.view(np.uint8).reshape(-1)
                for given, out in zip(direct, self.outputs, strict=True)
            ],
            cached_results=any(part.buffer.flags & uapi.MemFlag.CACHEABLE for part in parts),
        )
        self._path = path_mode(RunPath.COMPILED, INT8)
        self._window = context.windows.of(sum(weight.k * weight.n for weight in weights))
        self._sync = bytearray(
            uapi.MemSync(
                flags=int(uapi.SyncFlag.TO_DEVICE),
                obj_addr=activation.part.buffer.obj_addr,
                offset=activation.part.offset,
                size=activation.part.size,
            )
        )
        self._submit = bytearray(
            submit_structure(context.soc, core, self._job, NONBLOCK, context.submitter.timeout_ms)
        )
        self._flags = uapi.Submit.from_buffer(self._submit)
        self._native = fd is not None
        self._caller_cpus = worth_moving_to()
        if fd is not None:
            self._hot.attach(
                fd,
                sync=(uapi.RKNPU_MEM_SYNC, self._sync),
                submit=(uapi.RKNPU_SUBMIT, self._submit),
                maintain_cache=maintain and bool(activation.part.buffer.flags & uapi.MemFlag.CACHEABLE),
                call=call,
            )
        self._open = True

    def _allocate(self, size: int, flags: int) -> Slice:
        buffer = self._context.memory.allocate(size, flags, self._domain)
        self._buffers.append(buffer)
        return Slice(buffer, 0, size)

    def _build(self, plan: MatmulPlan, results: Slice, direct: Sequence[Slice | None]) -> Job:
        """Programs and descriptors into buffers of their own."""
        bodies = [program.body for program in plan.programs(self._activation, results, direct)]
        words = self._allocate(PROGRAM_BYTES * len(bodies), uapi.DATA_FLAGS)
        tasks = self._allocate(TASK_BYTES * len(bodies), uapi.TASK_FLAGS)
        context = self._context
        job = LinkedPrograms(
            context.memory, context.programs, bodies, domain=self._domain, pieces=(words, tasks)
        ).job
        require_own_descriptors(job, tasks.buffer)
        return job

    @property
    def tasks(self) -> int:
        """Programs one run executes."""
        return self._job.tasks

    def require_ready(self) -> None:
        """Raises LifetimeError or NoDeviceError when a run must not be submitted."""
        if not self._open:
            raise LifetimeError("running a compiled program", why="it was closed", do="compile it again")
        a = self._a
        if a.__array_interface__["data"][0] != self._a_address or a.nbytes != self._activation.size:
            raise LifetimeError(
                "running a compiled program",
                why=f"its activation was at {self._a_address:#x} with {self._activation.size} bytes, "
                f"and is at {array_address(a):#x} with {a.nbytes}",
                do="compile it again for the new array (GRD-43)",
            )
        for buffer in self._used:
            if not buffer.live:
                break
        else:
            if self._context.open and self._context.pid == os.getpid():
                return
        self._context.require_ready("running a compiled program", self._used)

    def run(self) -> None:
        """Compute all outputs from what ``a`` holds now.

        Raises:
            LifetimeError, NoDeviceError: closed, freed, or ``a`` was moved; nothing was submitted.
            UnhealthyError: no result came after six resets and resubmits; the outputs are void.
        """
        self.require_ready()
        context = self._context
        # A submit that does not wait makes the kernel drop whatever it holds for overdue on that core.
        self._flags.flags = BLOCKING if self.core in context.unattended else NONBLOCK
        context.gate.enter(self._path)
        failed, ran = True, True
        try:
            if self._caller_cpus:
                with on_big_processors(self._caller_cpus):
                    self._in_domain()
            else:
                self._in_domain()
            failed = False
        except RefusedError:
            failed, ran = False, False
            raise
        finally:
            context.gate.leave(self._path, failed=failed, ran=ran)
        context.submitter.count(self.core, self._job.tasks, 0)
        context.after_run()

    def _in_domain(self) -> None:
        domains = self._context.domains
        domains.enter(self._domain)
        try:
            answer = self._once(self._window.seconds())
            if answer:
                self._recover(answer)
            else:
                self._window.learn(self._hot.elapsed_ns * 1e-9)
        finally:
            domains.leave()

    def _once(self, window_s: float) -> int:
        window_ns = int(window_s * 1e9)
        if self._native:
            return self._hot.run(window_ns)
        device = self._context.submitter.device
        self._hot.refresh()
        try:
            if self._activation.buffer.flags & uapi.MemFlag.CACHEABLE:
                device.ioctl(uapi.RKNPU_MEM_SYNC, self._sync)
            device.ioctl(uapi.RKNPU_SUBMIT, self._submit)
        except OSError as error:
            raise self._refused(error) from error
        return self._hot.poll(window_ns)

    def _recover(self, answer: int) -> None:
        context, counters = self._context, self._context.submitter.counters
        kept: Path | None = None
        what = f"a compiled program of {counted(self._job.tasks, 'task')} on core {self.core}"
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if answer != -errno.ETIMEDOUT:
                raise self._refused(OSError(-answer, os.strerror(-answer)))
            self._dropped()
            if attempt == 1:
                kept = context.failures.keep(
                    f"{what} wrote no result", "its window passed", self._submitted()
                )
            context.reset()
            counters.resets += 1
            counters.resubmits += 1
            answer = self._once(self._window.seconds(attempt))
            if not answer:
                counters.recovered += 1
                if kept is not None:
                    context.say_once(
                        f"{what} was lost and ran again; `ork npu failures {kept.name}` shows what was submitted"
                    )
                return
        self._dropped()
        counters.failed += 1
        error = UnhealthyError(
            f"{what} never finished",
            why=f"no result in {MAX_ATTEMPTS + 1} submits with a reset between; the outputs are void",
            do="look at `ork board log`, then `ork board recover`",
        )
        raise naming(error, kept)

    def _submitted(self) -> list[Submitted]:
        return [Submitted(self.core, self._job, bytes(self._submit), self._submit)]

    def _refused(self, error: OSError) -> OrkError:
        context = self._context
        failure = from_os_error(error, "running a compiled program", context.submitter.device.name)
        return context.failures.named(failure, self._submitted())

    def _dropped(self) -> None:
        context = self._context
        context.submitter.counters.drops += 1
        context.domains.mark_dirty(self._domain, context.submitter.timeout_ms)

    def close(self) -> None:
        """Give all memory back; the program cannot be run afterwards."""
        if self._open:
            self._open = False
            for buffer in self._buffers:
                self._context.memory.free(buffer)


def _checked_plan(context: Context, weights: Sequence[Weight], a: np.ndarray) -> MatmulPlan:
    if not 1 <= len(weights) <= MAX_WEIGHTS:
        raise OperandError("compiling a program", why=f"{len(weights)} weights, allowed: 1 to {MAX_WEIGHTS}")
    for weight in weights:
        if weight.format is not INT8:
            raise OperandError(
                "compiling a program", why=f"{weight.name} is {weight.format.name}; allowed: {INT8.name}"
            )
    plan = MatmulPlan(context.soc, weights, 1, cores=1)
    require_array(a, (1, plan.k), INT8.operand, "activation")
    require_chainable([MatmulPlan(context.soc, [weight], 1, cores=1) for weight in weights], plan.steps)
    return plan


def _checked_outputs(
    context: Context, plan: MatmulPlan, outputs: Sequence[np.ndarray] | None, *, cached_allowed: bool
) -> list[Slice | None]:
    if len(plan.blocks) != len(plan.weights):
        widest = max(weight.n for weight in plan.weights)
        raise OperandError(
            "compiling a program",
            why=f"N = {widest}, allowed: up to {plan.placement.widest_block(context.soc)}",
        )
    if outputs is None:
        return [None] * len(plan.weights)
    if len(outputs) != len(plan.weights):
        raise OperandError(
            "compiling a program", why=f"{len(outputs)} outputs for {len(plan.weights)} weights"
        )
    parts: list[Slice | None] = []
    for index, (output, weight) in enumerate(zip(outputs, plan.weights, strict=True)):
        require_array(output, (1, weight.n), INT8.total, f"output {index}")
        found = context.dma.find(output, f"output {index}")
        if found is not None and found.buffer.domain != plan.domain:
            raise OperandError(
                f"output {index}",
                why=f"it lies in domain {found.buffer.domain}, the weights in {plan.domain}",
            )
        if found is not None and found.offset % context.soc.atom_bytes:
            raise OperandError(
                f"output {index}",
                why=f"it starts {found.offset} bytes into its memory; allowed: multiples of 16",
            )
        parts.append(require_polled(found, f"output {index}", cached_allowed=cached_allowed))
    return parts
