"""One sample as metrics: names, units and labels as Prometheus has them.

Base units (ratio, bytes, hertz, celsius, seconds), ``_total`` for counters that only grow within one boot,
``_info`` for facts. What is not known is absent; ``ork_source_available`` says which sources are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orkbench_tui.ops.telemetry.sample import Clock, Sample
from orkbench_tui.ops.telemetry.stillness import STUCK_S
from orkbench_tui.plain_text import one_line
from orkbench_tui.version import VERSION

__all__ = ["METRICS", "SOURCES", "Metric", "Series", "metrics", "metrics_without_board"]


@dataclass(frozen=True, slots=True)
class Metric:
    """``kind`` is gauge or counter; an info is a gauge of 1 whose labels are the facts."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: str = "gauge"


@dataclass(frozen=True, slots=True)
class Series:
    """A metric with its points: label values and number."""

    metric: Metric
    points: tuple[tuple[tuple[str, ...], float], ...] = field(default=())


_TABLE = (
    Metric("ork_up", "Whether the board's files answered."),
    Metric("ork_build_info", "Version of this program.", ("version",)),
    Metric("ork_board_info", "The board, its kernel and its NPU driver; source is board or sim.",
           ("source", "hostname", "model", "soc", "kernel", "driver", "driver_version")),
    Metric("ork_source_available", "Whether a source of readings can be read.", ("source",)),
    Metric("ork_boot_time_seconds", "When the board booted, in seconds since 1970."),
    Metric("ork_sample_timestamp_seconds", "When these readings were taken, in seconds since 1970."),
    Metric("ork_npu_core_load_ratio", "Busy share of an NPU core over the last closed second.", ("core",)),
    Metric("ork_npu_core_stuck_seconds", "How long a core has been fully busy without completing anything.", ("core",)),
    Metric("ork_npu_core_interrupts_total", "Completion interrupts of a core since boot; page faults share the line.",
           ("core",), "counter"),
    Metric("ork_npu_core_hw_seconds_total", "Time jobs had a core's hardware, from a driver that counts it.",
           ("core",), "counter"),
    Metric("ork_npu_core_hw_jobs_total", "Jobs a core finished, from a driver that counts them.", ("core",), "counter"),
    Metric("ork_npu_wedged", "1 when a core is busy and completes nothing."),
    Metric("ork_npu_powered", "Whether the NPU has power."),
    Metric("ork_npu_power_domain_on", "Whether a power domain of the NPU is on.", ("domain",)),
    Metric("ork_clock_hertz", "Current clock of npu, ddr.", ("clock",)),
    Metric("ork_clock_max_hertz", "Highest clock of npu, ddr.", ("clock",)),
    Metric("ork_clock_governor_info", "Governor of npu, ddr.", ("clock", "governor")),
    Metric("ork_ddr_load_ratio", "Busy share of the memory controller, as its governor measures it."),
    Metric("ork_cpu_core_busy_ratio", "Busy share of a CPU core since the last reading.", ("cpu", "group")),
    Metric("ork_cpu_core_clock_hertz", "Current clock of a CPU core.", ("cpu", "group")),
    Metric("ork_temperature_celsius", "Temperature of a thermal zone.", ("zone",)),
    Metric("ork_temperature_trip_celsius", "Trip points of a zone, numbered from the lowest.", ("zone", "trip", "kind")),
    Metric("ork_cooling_state", "Step of a cooling device; 0 is at rest.", ("device", "kind")),
    Metric("ork_cooling_capped", "1 when the device takes speed away.", ("device", "kind")),
    Metric("ork_memory_total_bytes", "RAM."),
    Metric("ork_memory_available_bytes", "RAM programs can still get."),
    Metric("ork_memory_free_bytes", "RAM that holds nothing."),
    Metric("ork_memory_cached_bytes", "RAM of the page cache."),
    Metric("ork_cma_total_bytes", "Contiguous memory."),
    Metric("ork_cma_free_bytes", "Contiguous memory not in use."),
    Metric("ork_swap_total_bytes", "Swap."),
    Metric("ork_swap_free_bytes", "Swap not in use."),
    Metric("ork_dma_buf_objects", "Buffers shared between devices."),
    Metric("ork_dma_buf_bytes", "Size of buffers shared between devices."),
    Metric("ork_npu_sram_total_bytes", "On-chip memory given to the NPU."),
    Metric("ork_npu_sram_used_bytes", "On-chip memory in use."),
    Metric("ork_npu_holders", "Programs that have the NPU open and are visible to this user."),
    Metric("ork_npu_domain_used_bytes", "Addresses in use in a domain, as programs of this driver report.",
           ("pid", "command", "domain")),
    Metric("ork_npu_domain_capacity_bytes", "Addresses of a domain.", ("pid", "command", "domain")),
    Metric("ork_npu_domain_largest_free_bytes", "Largest hole of a domain.", ("pid", "command", "domain")),
    Metric("ork_npu_submits_total", "Jobs a program of this driver handed in.", ("pid", "command"), "counter"),
    Metric("ork_npu_resets_total", "NPU resets in the kernel log: after a job timeout, or asked for.", ("cause",), "counter"),
    Metric("ork_npu_job_timeouts_total", "NPU jobs that timed out, from the kernel log.", (), "counter"),
    Metric("ork_npu_jobs_interrupted_total", "Waits for jobs that a signal ended, from the kernel log.", (), "counter"),
    Metric("ork_npu_domain_switch_timeouts_total", "Domain switches that timed out, from the kernel log.", (), "counter"),
    Metric("ork_npu_page_faults_total", "NPU page faults the kernel printed.", (), "counter"),
    Metric("ork_npu_iova_failures_total", "Buffers refused for want of address space.", (), "counter"),
    Metric("ork_npu_leaked_bytes_total", "Bytes the driver could not free.", (), "counter"),
    Metric("ork_kernel_oom_kills_total", "Programs ended because RAM ran out.", (), "counter"),
    Metric("ork_kernel_log_records_total", "Records of the kernel log read, counted by sequence number.", (), "counter"),
    Metric("ork_kernel_log_complete", "1 when the log reaches back to boot without a gap, so counts of it are totals."),
    Metric("ork_tasks_blocked", "Programs that wait in the kernel and cannot be killed."),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}

# Source -> beginnings of the fields that come from it.
SOURCES: dict[str, tuple[str, ...]] = {
    "npu_load": ("npu.load",),
    "npu_clock": ("npu.clock",),
    "npu_hw_time": ("npu.hw_time",),
    "ddr_clock": ("ddr",),
    "cpu": ("cpu",),
    "memory": ("memory",),
    "temperatures": ("temperatures",),
    "cooling": ("cooling",),
    "power_domains": ("power_domains",),
    "dma_bufs": ("dma_bufs",),
    "sram": ("sram",),
    "kernel_log": ("resets",),
}

_Point = tuple[str, tuple[str, ...], float | None]


def metrics(sample: Sample) -> list[Series]:
    """In the order of the table; metrics without a value are left out."""
    found: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for part in (_board, _npu, _clocks, _cpu, _heat, _memory, _programs, _log):
        for name, labels, value in part(sample):
            if value is not None:
                texts = tuple(one_line(label, 120) for label in labels)
                found.setdefault(name, []).append((texts, float(value)))
    return [Series(metric, tuple(found[metric.name])) for metric in _TABLE if metric.name in found]


def metrics_without_board() -> list[Series]:
    """What is said while the board does not answer."""
    return [
        Series(METRICS["ork_up"], (((), 0.0),)),
        Series(METRICS["ork_build_info"], (((VERSION,), 1.0),)),
    ]


def _board(sample: Sample) -> Iterator[_Point]:
    board = sample.identity
    yield "ork_up", (), 1.0
    yield "ork_build_info", (VERSION,), 1.0
    facts = (board.hostname, board.model, board.soc, board.kernel, board.driver, board.driver_version)
    yield "ork_board_info", (sample.source, *facts), 1.0
    missing = [gap.field for gap in sample.unavailable if gap.reason != "pending"]
    for source, fields in SOURCES.items():
        yield "ork_source_available", (source,), float(not any(name.startswith(fields) for name in missing))
    if sample.uptime_s is not None:
        yield "ork_boot_time_seconds", (), round(sample.unix_s - sample.uptime_s, 1)
    yield "ork_sample_timestamp_seconds", (), sample.unix_s
    yield "ork_tasks_blocked", (), sample.blocked_tasks


def _npu(sample: Sample) -> Iterator[_Point]:
    for core in sample.npu.cores:
        label = (str(core.index),)
        yield "ork_npu_core_load_ratio", label, _ratio(core.load_pct)
        yield "ork_npu_core_stuck_seconds", label, core.stuck_s
        yield "ork_npu_core_interrupts_total", label, core.irqs
        yield "ork_npu_core_hw_seconds_total", label, None if core.hw_ns is None else core.hw_ns / 1e9
        yield "ork_npu_core_hw_jobs_total", label, core.hw_jobs
    if sample.npu.cores:
        yield "ork_npu_wedged", (), float(any(core.stuck_s >= STUCK_S for core in sample.npu.cores))
    yield "ork_npu_powered", (), _flag(sample.npu.powered)
    for domain in sample.power_domains:
        yield "ork_npu_power_domain_on", (domain.name,), float(domain.on)
    if sample.sram is not None:
        yield "ork_npu_sram_total_bytes", (), sample.sram.total_bytes
        yield "ork_npu_sram_used_bytes", (), sample.sram.used_bytes


def _clocks(sample: Sample) -> Iterator[_Point]:
    for name, clock in (("npu", sample.npu.clock), ("ddr", sample.ddr or Clock())):
        yield "ork_clock_hertz", (name,), clock.hz
        yield "ork_clock_max_hertz", (name,), clock.max_hz
        if clock.governor:
            yield "ork_clock_governor_info", (name, clock.governor), 1.0
    if sample.ddr is not None:
        yield "ork_ddr_load_ratio", (), _ratio(sample.ddr.load_pct)


def _cpu(sample: Sample) -> Iterator[_Point]:
    for group in sample.cpu:
        for core in group.cores:
            label = (str(core.index), group.name)
            yield "ork_cpu_core_busy_ratio", label, _ratio(core.busy_pct)
            yield "ork_cpu_core_clock_hertz", label, core.clock_hz


def _heat(sample: Sample) -> Iterator[_Point]:
    for item in sample.temperatures:
        yield "ork_temperature_celsius", (item.zone,), item.celsius
        for number, trip in enumerate(item.trips):
            yield "ork_temperature_trip_celsius", (item.zone, str(number), trip.kind), trip.celsius
    for device in sample.cooling:
        label = (str(device.number), device.kind)
        yield "ork_cooling_state", label, device.state
        yield "ork_cooling_capped", label, None if device.state is None else float(device.caps)


def _memory(sample: Sample) -> Iterator[_Point]:
    memory = sample.memory
    if memory is not None:
        yield "ork_memory_total_bytes", (), memory.total_bytes
        yield "ork_memory_available_bytes", (), memory.available_bytes
        yield "ork_memory_free_bytes", (), memory.free_bytes
        yield "ork_memory_cached_bytes", (), memory.cached_bytes
        yield "ork_cma_total_bytes", (), memory.cma_total_bytes
        yield "ork_cma_free_bytes", (), memory.cma_free_bytes
        yield "ork_swap_total_bytes", (), memory.swap_total_bytes
        yield "ork_swap_free_bytes", (), memory.swap_free_bytes
    if sample.dma_bufs is not None:
        yield "ork_dma_buf_objects", (), sample.dma_bufs.objects
        yield "ork_dma_buf_bytes", (), sample.dma_bufs.bytes


def _programs(sample: Sample) -> Iterator[_Point]:
    yield "ork_npu_holders", (), len({holder.pid for holder in sample.holders})
    for item in sample.occupancy.processes:
        program = (str(item.pid), item.command)
        yield "ork_npu_submits_total", program, item.counters.submits
        for domain in item.domains:
            label = (*program, str(domain.id))
            yield "ork_npu_domain_used_bytes", label, domain.used_bytes
            yield "ork_npu_domain_capacity_bytes", label, domain.capacity_bytes
            yield "ork_npu_domain_largest_free_bytes", label, domain.largest_free_bytes


def _log(sample: Sample) -> Iterable[_Point]:
    resets, facts = sample.resets, sample.log.facts
    if resets is None:
        return ()
    return (
        ("ork_npu_resets_total", ("timeout",), resets.forced),
        ("ork_npu_resets_total", ("software",), max(0, resets.value - resets.forced)),
        ("ork_npu_job_timeouts_total", (), facts.hangs),
        ("ork_npu_jobs_interrupted_total", (), facts.interrupted),
        ("ork_npu_domain_switch_timeouts_total", (), facts.switch_timeouts),
        ("ork_npu_page_faults_total", (), facts.page_faults),
        ("ork_npu_iova_failures_total", (), facts.iova_failures),
        ("ork_npu_leaked_bytes_total", (), facts.leaked_bytes),
        ("ork_kernel_oom_kills_total", (), facts.oom_kills),
        ("ork_kernel_log_records_total", (), facts.records),
        ("ork_kernel_log_complete", (), float(not facts.lower_bound)),
    )


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 4)


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)
