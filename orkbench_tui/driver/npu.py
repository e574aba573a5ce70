"""The NPU as the rest of the program sees it: load weights, compile matmuls, run them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.affinity import big_processors
from orkbench_tui.driver.chain import Chain, ChainTask, RoundRobinChains
from orkbench_tui.driver.chip_programs import require_known_programs
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.counters import Counters
from orkbench_tui.driver.device import Device
from orkbench_tui.driver.dma_heap import DmaHeap
from orkbench_tui.driver.dma_memory import DmaMemory
from orkbench_tui.driver.domains import Domains, DomainSettings
from orkbench_tui.driver.doorbell import Doorbell
from orkbench_tui.driver.doorbell_spread import SpreadDoorbell
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.failure_files import FailureFiles
from orkbench_tui.driver.failure_recorder import FailureRecorder
from orkbench_tui.driver.failures import from_os_error
from orkbench_tui.driver.fresh_products import FreshProducts
from orkbench_tui.driver.head_attention import HeadAttention
from orkbench_tui.driver.importer import Importer, ImportSettings
from orkbench_tui.driver.matmul.assembly import ProgramStore
from orkbench_tui.driver.matmul.compiled import Matmul
from orkbench_tui.driver.matmul.formats import FORMATS, INT8, MatmulFormat
from orkbench_tui.driver.matmul.grouped import GroupedMatmul, GroupedWeight, load_grouped
from orkbench_tui.driver.matmul.reuse import WeightReuse
from orkbench_tui.driver.matmul.sliced import SlicedMatmul, SlicedWeight, load_sliced
from orkbench_tui.driver.matmul.weights import Weight, load_matrix, load_tiles
from orkbench_tui.driver.memory import DomainUse, Memory
from orkbench_tui.driver.mode_gate import ModeGate
from orkbench_tui.driver.modes import ModeKnobs, ModeState
from orkbench_tui.driver.npu_info import NpuInfo, read_info
from orkbench_tui.driver.occupancy import Publisher
from orkbench_tui.driver.op_sequence import PlannedRun, SeqStep, plan_sequence
from orkbench_tui.driver.op_sequence_run import run_sequence
from orkbench_tui.driver.precompiled import PrecompiledProgram
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.resident_kv import ResidentKv
from orkbench_tui.driver.sdp.compiled import SdpCompiler
from orkbench_tui.driver.sdp.ops import Sdp
from orkbench_tui.driver.soc import RK3588, Soc, not_validated
from orkbench_tui.driver.submit import Submitter
from orkbench_tui.errors import NoDeviceError, OrkError

__all__ = ["Npu", "NpuInfo"]


def _parts(weight: Weight | GroupedWeight | SlicedWeight) -> tuple[Weight, ...]:
    if isinstance(weight, GroupedWeight):
        return weight.parts
    if isinstance(weight, SlicedWeight):
        return tuple(part for parts in weight.parts for part in parts)
    return (weight,)


class Npu:
    """An open NPU. Owns the device and everything allocated on it; use as a context manager."""

    def __init__(
        self,
        device: Device,
        *,
        soc: Soc = RK3588,
        timeout_ms: int = 60000,
        publisher: Publisher | None = None,
        knobs: ModeKnobs | None = None,
        heap: Callable[[], DmaHeap] | None = None,
        domain_settings: DomainSettings | None = None,
        import_settings: ImportSettings | None = None,
        worker_cpus: frozenset[int] | None = None,
        failure_files: FailureFiles | None = None,
    ) -> None:
        """``heap`` opens the dma-heap that imported weights lie in, when the first is loaded; jobs that fail
        leave what was submitted in ``failure_files``.

        Threads that drive the second core and on stay on ``worker_cpus``, by default the big ones.
        """
        self._device = device
        self._open_heap = heap
        self._heap: DmaHeap | None = None
        self._importer: Importer | None = None
        self._import_settings = import_settings or ImportSettings()
        self._publisher = publisher
        self.soc = soc
        self.memory = Memory(device, window_bytes=soc.iova_space_bytes, guard_bytes=soc.iova_guard_bytes)
        self.domain_switching = Domains(
            self.memory,
            lambda domain: self._set_domain(domain),
            domain_settings or DomainSettings(),
            get_domain=lambda: self.action(uapi.ActionCode.GET_IOMMU_DOMAIN_ID),
        )
        self._submitter = Submitter(
            device, soc, timeout_ms, big_processors() if worker_cpus is None else worker_cpus
        )
        self.failures = FailureRecorder(
            failure_files,
            device=device.name,
            soc=soc.name,
            memory=self.memory,
            submitter=self._submitter,
            modes=lambda: self.modes,
            action=self._act,
        )
        self.context = Context(
            failures=self.failures,
            soc=soc,
            memory=self.memory,
            dma=DmaMemory(self.memory),
            submitter=self._submitter,
            gate=ModeGate(
                ModeState(soc.cores, knobs or ModeKnobs()),
                lambda: self._order_reset(),
                self._submitter.counters,
            ),
            domains=self.domain_switching,
            programs=ProgramStore(soc, self.memory),
            after_run=self._publish,
            reset=lambda: self.context.gate.reset_within(),
        )
        self.domain_switching.reap = self._reap
        if warning := not_validated(soc):
            self.context.say_once(warning)
        self.sdp = Sdp(SdpCompiler(self.context))

    @property
    def name(self) -> str:
        return self._device.name

    @property
    def counters(self) -> Counters:
        """A copy of what has run so far."""
        return self._submitter.counters.copy()

    @property
    def modes(self) -> ModeState:
        """Which mode the cores are in, and how often each path was entered."""
        return self.context.gate.state

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know of how work was run, each line once."""
        return tuple(self.context.notices)

    def load_int8(
        self, name: str, tiles: np.ndarray | memoryview | bytes, k: int, n: int, *, domain: int = 0
    ) -> Weight:
        """An int8 weight from its tiles; see ``load_tiles``."""
        return self.load_tiles(INT8, name, tiles, k, n, domain=domain)

    def load_tiles(
        self,
        format: MatmulFormat,
        name: str,
        tiles: np.ndarray | memoryview | bytes,
        k: int,
        n: int,
        *,
        domain: int = 0,
        imported: bool = False,
    ) -> Weight:
        """A weight of any format from its tiles; see ``weights.load_tiles``.

        Args:
            domain: the address window it goes to; weights of one matmul must share it.
            imported: into imported chunks instead of one native buffer.
        """
        importer = self._ready_to_load(name, imported)
        with self.domain_switching.use(domain):
            weight = load_tiles(
                self.memory,
                format,
                name,
                tiles,
                k,
                n,
                domain=domain,
                importer=importer,
                k_limit=self.soc.max_k_int8,
            )
        self._publish()
        return weight

    def load(
        self,
        format: MatmulFormat,
        name: str,
        weights: np.ndarray,
        *,
        domain: int = 0,
        imported: bool = False,
    ) -> Weight:
        """A weight from a row-major matrix [N, K] of the format's operand type, padded with zeros.

        ``domain`` and ``imported`` are those of ``load_tiles``.

        Raises:
            OperandError: wrong shape or type, or values outside the format's range.
        """
        importer = self._ready_to_load(name, imported)
        with self.domain_switching.use(domain):
            weight = load_matrix(
                self.memory,
                format,
                name,
                weights,
                domain=domain,
                importer=importer,
                k_limit=self.soc.max_k_int8,
            )
        self._publish()
        return weight

    def _ready_to_load(self, name: str, imported: bool) -> Importer | None:
        self.context.require_ready(f"loading {name}")
        require_known_programs(self.soc)
        return self.importer() if imported else None

    def importer(self) -> Importer:
        """Imports buffers of the dma-heap, which is opened on the first call.

        Raises:
            NoDeviceError, DeniedError: there is no dma-heap, or it may not be opened.
        """
        if self._importer is None:
            if self._open_heap is None:
                raise NoDeviceError("no dma-heap to import from", do="load without importing")
            self._heap = self._open_heap()
            self._importer = Importer(
                self._device, self.memory, self.domain_switching, self._heap, self._import_settings
            )
        return self._importer

    def _set_domain(self, domain: int) -> None:
        self.action(uapi.ActionCode.SET_IOMMU_DOMAIN_ID, domain)

    def free(self, weight: Weight | GroupedWeight | SlicedWeight) -> None:
        """Release a weight; what was compiled with it refuses to run afterwards."""
        for part in _parts(weight):
            for buffer in part.buffers:
                self.memory.free(buffer)

    def dma_array(
        self, shape: tuple[int, ...], dtype: type[np.generic], *, cached: bool = True
    ) -> np.ndarray:
        """Zeros in NPU memory, used where they are as operand or result; see ``DmaMemory.array``."""
        self.context.require_ready("allocating an array")
        return self.context.dma.array(shape, dtype, cached=cached)

    def free_array(self, array: np.ndarray) -> None:
        """Release an array of ``dma_array``; see ``DmaMemory.free``."""
        self.context.dma.free(array)

    def matmul_int8(self, weights: Sequence[Weight], rows: int, *, lane: int = 0) -> Matmul:
        """A matmul of int8 weights; see ``Matmul``."""
        return Matmul(self.context, weights, rows, lane=lane)

    def matmul(
        self,
        weights: Sequence[Weight],
        rows: int,
        convert: OutputConversion | None = None,
        *,
        a: np.ndarray | None = None,
        outputs: Sequence[np.ndarray] | None = None,
        reuse: WeightReuse | None = None,
    ) -> Matmul:
        """See ``Matmul``."""
        return Matmul(self.context, weights, rows, convert, a=a, outputs=outputs, reuse=reuse)

    def chain(self, tasks: Sequence[ChainTask], *, core: int = 0) -> Chain:
        """Independent matmuls as one submit on one core; see ``Chain``."""
        return Chain(self.context, tasks, core=core)

    def round_robin(self, chains: Sequence[Chain], *, cores: int | None = None) -> RoundRobinChains:
        """Chains dealt over the cores; see ``RoundRobinChains``."""
        return RoundRobinChains(self.context, chains, cores=cores)

    def doorbell(self, *, core: int = 0) -> Doorbell:
        """A run one submits without waiting for it; see ``Doorbell``."""
        return Doorbell(self.context, core=core)

    def spread_doorbell(self, *, cores: int | None = None) -> SpreadDoorbell:
        """A run several cores share without anybody waiting for it; see ``SpreadDoorbell``."""
        return SpreadDoorbell(self.context, cores=cores)

    def compile(
        self,
        weights: Weight | Sequence[Weight],
        a: np.ndarray,
        outputs: Sequence[np.ndarray] | None = None,
        *,
        core: int = 0,
    ) -> PrecompiledProgram:
        """One row of int8 against weights, captured for cheap runs; see ``PrecompiledProgram``."""
        several = [weights] if isinstance(weights, Weight) else weights
        return PrecompiledProgram(self.context, several, a, outputs, core=core)

    def load_grouped(
        self, name: str, codes: np.ndarray, scales: np.ndarray, group: int, *, activation_bits: int = 4
    ) -> GroupedWeight:
        """Codes with a scale per output and group of K; see ``grouped.load_grouped``."""
        self._ready_to_load(name, imported=False)
        with self.domain_switching.use(0):
            weight = load_grouped(self.context, name, codes, scales, group, activation_bits=activation_bits)
        self._publish()
        return weight

    def grouped_matmul(self, weight: GroupedWeight, rows: int, *, core: int = 0) -> GroupedMatmul:
        """See ``GroupedMatmul``."""
        return GroupedMatmul(self.context, weight, rows, core=core)

    def load_sliced(self, name: str, weights: np.ndarray) -> SlicedWeight:
        """An int8 matrix [n, k] of any width for the linked path; see ``sliced.load_sliced``."""
        self._ready_to_load(name, imported=False)
        with self.domain_switching.use(0):
            weight = load_sliced(self.context, name, weights)
        self._publish()
        return weight

    def sliced_matmul(self, weight: SlicedWeight, rows: int) -> SlicedMatmul:
        """See ``SlicedMatmul``."""
        return SlicedMatmul(self.context, weight, rows)

    def fresh_products(self, count: int, rows: int, k: int, n: int, name: str = "fresh") -> FreshProducts:
        """fp16 products of operands that change with every run; see ``FreshProducts``."""
        self._ready_to_load(name, imported=False)
        products = FreshProducts(self.context, count, rows, k, n, name=name)
        self._publish()
        return products

    def plan_sequence(self, steps: Sequence[SeqStep], *, core: int = 0) -> tuple[PlannedRun, ...]:
        """How operations would share submits; see ``op_sequence.plan_sequence``."""
        return plan_sequence(steps, cores=self.soc.cores, core=core)

    def run_sequence(self, steps: Sequence[SeqStep], *, core: int = 0) -> tuple[np.ndarray | None, ...]:
        """Compute operations that read each other's results; see ``op_sequence_run.run_sequence``."""
        return run_sequence(self.context, self.sdp, steps, core=core)

    def resident_kv(self, head_dim: int, max_keys: int, name: str = "kv") -> ResidentKv:
        """Keys and values of one attention head, appended to one by one; see ``ResidentKv``."""
        return ResidentKv(self.context, head_dim, max_keys, name)

    def attention(
        self, head_dim: int, max_keys: int, *, value_scale: float, core: int = 0, name: str = "attention"
    ) -> HeadAttention:
        """One head over resident keys and values, its softmax on the host; see ``HeadAttention``."""
        return HeadAttention(self.context, head_dim, max_keys, value_scale=value_scale, core=core, name=name)

    def _publish(self) -> None:
        if self._publisher:
            self._publisher.publish(self.memory, self._submitter.counters, domains=self.domain_switching)

    def domains(self) -> list[DomainUse]:
        return self.memory.domains()

    def _reap(self, domain: int) -> None:
        """Make the kernel drop overdue jobs of a domain: it looks for them at submits that do not wait."""
        formats = [format for format, where in self.context.drains if where == domain]
        marker = drain_of(self.context, FORMATS[formats[0]] if formats else INT8, domain)
        for core in range(self.soc.cores):
            if core not in self.context.unattended:
                marker.start(core)
        self.context.gate.forget()

    def reset(self) -> None:
        """Reset all cores when our runs are over: registers and tables are lost, stuck jobs are not removed.

        What was loaded and compiled stays valid: weights, programs and descriptors lie in memory. The next
        run enters as the first one did, results are primed again and tables are loaded again.

        Raises:
            LifetimeError: a doorbell runs.
            OrkError: the driver refused it.
        """
        self.context.require_ready("resetting the NPU")
        self.context.gate.reset()

    def action(self, code: uapi.ActionCode, value: int = 0) -> int:
        """Run one driver action and return its value; a reset is done as ``reset`` does it.

        Raises:
            OrkError: the driver refused it.
        """
        if code is uapi.ActionCode.ACT_RESET:
            self.reset()
            return 0
        return self._act(code, value)

    def _order_reset(self) -> None:
        self._act(uapi.ActionCode.ACT_RESET)

    def _act(self, code: uapi.ActionCode, value: int = 0) -> int:
        argument = bytearray(uapi.Action(flags=int(code), value=value))
        try:
            self._device.ioctl(uapi.RKNPU_ACTION, argument)
        except OSError as error:
            raise from_os_error(error, f"driver action {code.name}", self._device.name) from error
        return uapi.Action.from_buffer(argument).value

    def info(self) -> NpuInfo:
        """See ``read_info``."""
        return read_info(self._device.name, self.soc, self.action)

    def close(self) -> None:
        """Finish running jobs, free all buffers, close the device. A device that is gone is no error."""
        if self.context.pid != os.getpid() or not self.context.open:
            return
        for job in list(self.context.unattended.values()):
            with contextlib.suppress(OrkError):
                job.end()
        self._submitter.close()
        self.context.open = False
        with contextlib.suppress(OrkError):
            self.domain_switching.release_all()
        if self._heap is not None:
            self._heap.close()
        if self._publisher:
            self._publisher.close()
        self._device.close()

    def __enter__(self) -> Npu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
