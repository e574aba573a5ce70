"""One sample of a board: what every view, stream and recording reads.

A reading that is missing is a value of its own: the field is None (or the tuple empty) and
``unavailable`` names the field, the reason and the path. Nothing missing is ever 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orkbench_tui.ops.board_identity import BoardIdentity
from orkbench_tui.ops.kernel_log.counting import LogFacts
from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.ops.telemetry.dma_bufs import DmaBufs
from orkbench_tui.ops.telemetry.domains import Publication
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.memory import Memory
from orkbench_tui.ops.telemetry.power_domains import PowerDomain
from orkbench_tui.ops.telemetry.remedies import remedy
from orkbench_tui.ops.telemetry.sram_map import SramMap
from orkbench_tui.ops.telemetry.thermal import CoolingDevice, Trip

__all__ = [
    "Clock",
    "CpuCore",
    "CpuGroup",
    "KernelLog",
    "Npu",
    "NpuCore",
    "Occupancy",
    "Resets",
    "Sample",
    "Temperature",
    "Unavailable",
]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """``reason`` is absent, denied, failed, invalid or pending (a rate needs two readings)."""

    field: str
    reason: str
    path: str = ""
    errno: str = ""

    @property
    def remedy(self) -> str:
        """What would give it a value."""
        return remedy(self.field, self.reason)


@dataclass(frozen=True, slots=True)
class NpuCore:
    """``load_pct`` is the busy share of the last closed second; ``irq_per_s`` completions a second, ``irqs`` since boot.

    ``stuck_s`` is how long it has been seen fully busy without a completion. ``hw_busy_pct`` is the share of time
    jobs had the hardware since the sample before, ``hw_jobs`` and ``hw_ns`` the totals since the driver was loaded;
    all three only from a driver that counts them.
    """

    index: int
    load_pct: int | None = None
    irq_per_s: float | None = None
    stuck_s: float = 0.0
    hw_busy_pct: float | None = None
    hw_jobs: int | None = None
    hw_ns: int | None = None
    irqs: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock domain in Hz. ``load_pct`` only where the governor measures one (DDR)."""

    hz: int | None = None
    max_hz: int | None = None
    governor: str = ""
    load_pct: int | None = None


@dataclass(frozen=True, slots=True)
class Npu:
    cores: tuple[NpuCore, ...] = ()
    clock: Clock = field(default_factory=Clock)
    powered: bool | None = None


@dataclass(frozen=True, slots=True)
class CpuCore:
    index: int
    busy_pct: float | None = None
    clock_hz: int | None = None


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """Cores of one kind, weakest group first. ``name`` is A55, A76, … or little, big, CPU."""

    name: str
    cores: tuple[CpuCore, ...]
    clocks: tuple[Clock, ...] = ()


@dataclass(frozen=True, slots=True)
class Temperature:
    zone: str
    celsius: float
    trips: tuple[Trip, ...] = ()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """NPU use of processes that run our driver (reported by it); others are not visible."""

    processes: tuple[Publication, ...] = ()
    submits_per_s: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resets:
    """NPU resets derived from the kernel log. ``lower_bound``: the log does not reach back to boot."""

    value: int
    forced: int
    lower_bound: bool
    since_unix_s: float | None
    last_unix_s: float | None
    provenance: str = "kernel-log"


@dataclass(frozen=True, slots=True)
class KernelLog:
    facts: LogFacts = field(default_factory=LogFacts)
    rows: tuple[LogRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """``source`` is board, sim or replay, ``source_detail`` a simulated board's pace; ``unix_s`` the wall clock at the reading, ``mono_s`` a steady clock."""

    source: str
    unix_s: float
    mono_s: float
    uptime_s: float | None
    identity: BoardIdentity
    npu: Npu
    cpu: tuple[CpuGroup, ...]
    memory: Memory | None
    ddr: Clock | None
    temperatures: tuple[Temperature, ...]
    occupancy: Occupancy
    resets: Resets | None
    holders: tuple[Holder, ...]
    log: KernelLog
    blocked_tasks: int | None = None
    unavailable: tuple[Unavailable, ...] = ()
    warnings: tuple[str, ...] = ()
    source_detail: str = ""
    cooling: tuple[CoolingDevice, ...] = ()
    power_domains: tuple[PowerDomain, ...] = ()
    dma_bufs: DmaBufs | None = None
    sram: SramMap | None = None

    def reason(self, field_name: str) -> Unavailable | None:
        """Why ``field_name`` has no value, if that was recorded."""
        return next((entry for entry in self.unavailable if entry.field == field_name), None)

    def temperature(self, *zones: str) -> float | None:
        """Degrees of the first of ``zones`` that the board has."""
        found = {item.zone: item.celsius for item in self.temperatures}
        return next((found[zone] for zone in zones if zone in found), None)

    @property
    def caps(self) -> tuple[CoolingDevice, ...]:
        """Cooling devices that take speed away now."""
        return tuple(device for device in self.cooling if device.caps)

    @property
    def cores(self) -> tuple[CpuCore, ...]:
        return tuple(core for group in self.cpu for core in group.cores)
