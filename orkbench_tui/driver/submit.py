"""Submitting jobs: one job on one core, waited for or not, and a stream of jobs over all cores.

A job is a run of linked programs on one core. Only single-core submits are used: a multi-core mask
reads its task ranges from other slots than one expects, and a board that was told wrong wedges hard.
Stream workers pull the next job when their core is free; nobody waits at a barrier.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.affinity import pin_this_thread
from orkbench_tui.driver.counters import Counters
from orkbench_tui.driver.descriptor_state import DescriptorOwner
from orkbench_tui.driver.device import Device
from orkbench_tui.driver.failures import from_os_error
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.soc import Soc
from orkbench_tui.errors import OrkError
from orkbench_tui.plural import counted

__all__ = [
    "BLOCKING",
    "NONBLOCK",
    "Counters",
    "Job",
    "Submitted",
    "Submitter",
    "checked_core_mask",
    "checked_job_flags",
    "core_mask_for",
    "submit_structure",
]


def checked_core_mask(mask: int, soc: Soc) -> int:
    """``mask`` when it names one core of the chip.

    Raises:
        RefusedError: it names several (GRD-01).
        ValueError: it names none, or one the chip does not have.
    """
    if mask.bit_count() > 1:
        guards.refuse("GRD-01", seen=f"core mask {mask:#x}, allowed: one bit of {soc.core_mask:#x}")
    if not mask & soc.core_mask:
        raise ValueError(f"core mask {mask:#x}: {soc.name} has {soc.core_mask:#x}")
    return mask


def core_mask_for(core: int, soc: Soc) -> int:
    """The one-bit mask of a core.

    Raises:
        ValueError: the chip has no such core.
    """
    if not 0 <= core < soc.cores:
        raise ValueError(f"core {core}: {soc.name} has cores 0 to {soc.cores - 1}")
    return checked_core_mask(1 << core, soc)


def checked_job_flags(flags: uapi.JobFlag, *, fences: bool = False) -> int:
    """The flags of a submit; ``fences`` says that the kernel was probed and has them.

    Raises:
        RefusedError: fence flags without that probe (GRD-44).
    """
    if not fences and flags & (uapi.JobFlag.FENCE_IN | uapi.JobFlag.FENCE_OUT):
        guards.refuse("GRD-44", seen=f"job flags {int(flags):#x}")
    return int(flags)


BLOCKING = checked_job_flags(uapi.JobFlag.PC | uapi.JobFlag.PINGPONG)
NONBLOCK = checked_job_flags(uapi.JobFlag.PC | uapi.JobFlag.NONBLOCK | uapi.JobFlag.PINGPONG)
_BLOCKING_ONE_GROUP = checked_job_flags(uapi.JobFlag.PC)

RECENT = 2
"""Submits of a core that are remembered: the last may only have waited for the one before it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run of ``tasks`` descriptors, starting at ``first`` in the task array ``descriptors``.

    ``pingpong`` alternates the register groups from program to program; table programs need it off.
    """

    descriptors: Slice
    first: int
    tasks: int
    domain: int = 0
    pingpong: bool = True
    owner: DescriptorOwner = DescriptorOwner.MATMUL


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job as it went to the kernel: the bytes of ``sent``, and ``argument``, where the kernel answers."""

    core: int
    job: Job
    sent: bytes
    argument: bytearray


def submit_structure(soc: Soc, core: int, job: Job, flags: int, timeout_ms: int) -> uapi.Submit:
    """The argument of RKNPU_SUBMIT for one job on one core."""
    core_mask = core_mask_for(core, soc)
    ranges = uapi.SubcoreTask(task_start=job.first, task_number=job.tasks)
    submit = uapi.Submit(
        flags=flags,
        timeout=timeout_ms,
        task_start=job.first,
        task_number=job.tasks,
        task_obj_addr=job.descriptors.buffer.obj_addr,
        iommu_domain_id=job.domain,
        core_mask=core_mask,
        fence_fd=-1,
    )
    for slot in range(3):
        submit.subcore_task[slot] = ranges
    return submit


class _Batch:
    """Jobs being worked off, and the first failure among them."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = iter(jobs)
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    def next(self) -> Job | None:
        with self._lock:
            return None if self.failure else next(self._jobs, None)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or error


class Submitter:
    """Runs jobs on the cores of one device."""

    def __init__(
        self, device: Device, soc: Soc, timeout_ms: int, worker_cpus: frozenset[int] = frozenset()
    ) -> None:
        """Worker threads are kept on ``worker_cpus``; where it is empty they run anywhere.

        ``on_failure`` may add to the error of a job the kernel failed; by default it is raised as it is.
        """
        self._device = device
        self._soc = soc
        self._timeout_ms = timeout_ms
        self._worker_cpus = worker_cpus
        self._lock = threading.Lock()
        self._stream_lock = threading.Lock()
        self._inboxes: list[queue.SimpleQueue[_Batch | None]] = []
        self._workers: list[threading.Thread] = []
        self._returned = threading.Semaphore(0)
        self.counters = Counters(core_submits=[0] * soc.cores)
        self.on_failure: Callable[[OrkError, Sequence[Submitted]], OrkError] = lambda error, jobs: error
        self._recent = [deque[Submitted](maxlen=RECENT) for _ in range(soc.cores)]

    @property
    def device(self) -> Device:
        return self._device

    @property
    def timeout_ms(self) -> int:
        return self._timeout_ms

    def run_on(self, core: int, job: Job) -> None:
        """Run one job on one core and wait for it.

        Raises:
            RefusedError, LifetimeError: its descriptors are another's or were given back; nothing was
                submitted.
            UnhealthyError: the job timed out or the kernel refused it.
            NoDeviceError: the device is gone.
        """
        self._submit(core, job, BLOCKING if job.pingpong else _BLOCKING_ONE_GROUP)

    def start_on(self, core: int, job: Job) -> Submitted:
        """Queue one job on one core and return; the kernel tells nobody how it ends.

        Raises:
            UnhealthyError, NoDeviceError: the kernel did not take it.
        """
        return self._submit(core, job, NONBLOCK)

    def _submit(self, core: int, job: Job, flags: int) -> Submitted:
        job.descriptors.buffer.descriptors.require(job.first, job.owner)
        argument = bytearray(submit_structure(self._soc, core, job, flags, self._timeout_ms))
        submitted = Submitted(core, job, bytes(argument), argument)
        self._recent[core].append(submitted)
        try:
            self._device.ioctl(uapi.RKNPU_SUBMIT, argument)
        except OSError as error:
            failure = from_os_error(
                error, f"running a job of {counted(job.tasks, 'task')} on core {core}", self._device.name
            )
            raise self.on_failure(failure, [submitted]) from error
        self.count(core, job.tasks, uapi.Submit.from_buffer(argument).hw_elapse_time)
        return submitted

    def recent(self) -> list[Submitted]:
        """The last ``RECENT`` submits of each core, oldest first; those of compiled programs are not among them."""
        return [submitted for core in self._recent for submitted in list(core)]

    def count(self, core: int, tasks: int, hw_ns: int) -> None:
        """Enter one submit into the counters."""
        with self._lock:
            self.counters.submits += 1
            self.counters.tasks += tasks
            self.counters.hw_ns += max(0, hw_ns)
            self.counters.core_submits[core] += 1

    def stream(self, jobs: Sequence[Job], cores: int | None = None) -> None:
        """Run jobs over the first ``cores`` cores (default all) in any order; returns when all are done.

        After a failure no further job starts, jobs already on a core are waited for, and the first
        failure is raised.
        """
        others = min(len(jobs), self._soc.cores if cores is None else cores) - 1
        if others < 1:
            for job in jobs:
                self.run_on(0, job)
            return
        with self._stream_lock:
            self._start_workers()
            batch = _Batch(jobs)
            inboxes = self._inboxes[:others]
            for inbox in inboxes:
                inbox.put(batch)
            self._work(0, batch)
            for _ in inboxes:
                self._returned.acquire()
            if batch.failure:
                raise batch.failure

    def _work(self, core: int, batch: _Batch) -> None:
        while (job := batch.next()) is not None:
            try:
                self.run_on(core, job)
            except BaseException as error:  # noqa: BLE001 - carried to the thread that asked for the stream
                batch.failed(error)

    def _start_workers(self) -> None:
        if self._workers:
            return
        for core in range(1, self._soc.cores):
            inbox: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
            worker = threading.Thread(
                target=self._serve, args=(core, inbox), name=f"npu-core{core}", daemon=True
            )
            self._inboxes.append(inbox)
            self._workers.append(worker)
            worker.start()

    def _serve(self, core: int, inbox: queue.SimpleQueue[_Batch | None]) -> None:
        pin_this_thread(self._worker_cpus)
        while (batch := inbox.get()) is not None:
            self._work(core, batch)
            self._returned.release()

    def close(self) -> None:
        """Stop the workers; jobs on a core finish first."""
        for inbox in self._inboxes:
            inbox.put(None)
        for worker in self._workers:
            worker.join()
        self._inboxes.clear()
        self._workers.clear()
