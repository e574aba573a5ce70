"""Board files to samples: one batch of reads, pure parsers, and what has to be remembered between two.

Remembered: the last ``/proc/stat`` and interrupt counts (for rates), the kernel log read so far, the paths
found, and the list of holders, which is scanned seldom because it walks every process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orkbench_tui.errors import NoDeviceError
from orkbench_tui.ops.board_identity import BoardIdentity, read_identity
from orkbench_tui.ops.files import Access, BoardFiles, detail_of
from orkbench_tui.ops.kernel_log.tracker import LogTracker
from orkbench_tui.ops.telemetry.board_paths import BoardPaths, find_paths
from orkbench_tui.ops.telemetry.cpu import StatReading, busy_percent, parse_proc_stat
from orkbench_tui.ops.telemetry.cpu_groups import group_cores
from orkbench_tui.ops.telemetry.domains import Publication, read_publications
from orkbench_tui.ops.telemetry.frequency import (
    parse_devfreq_load,
    parse_frequency_list,
    parse_hz,
    parse_khz,
)
from orkbench_tui.ops.telemetry.gaps import Gaps
from orkbench_tui.ops.telemetry.holders import Holder, HungHolders, find_holders
from orkbench_tui.ops.telemetry.hw_time import CoreTime, busy_share, parse_hw_time
from orkbench_tui.ops.telemetry.interrupts import NpuInterrupt, parse_npu_interrupts
from orkbench_tui.ops.telemetry.memory import Memory, parse_meminfo
from orkbench_tui.ops.telemetry.npu_load import parse_npu_load
from orkbench_tui.ops.telemetry.sample import (
    Clock,
    CpuGroup,
    KernelLog,
    Npu,
    NpuCore,
    Occupancy,
    Resets,
    Sample,
    Temperature,
)
from orkbench_tui.ops.telemetry.slow_sources import (
    SlowSources,
    cooling_devices,
    dma_bufs,
    power_domains,
    sram_map,
)
from orkbench_tui.ops.telemetry.stillness import Stillness
from orkbench_tui.ops.telemetry.thermal import parse_millicelsius

__all__ = ["Collector"]

STAT, MEMINFO, UPTIME = "/proc/stat", "/proc/meminfo", "/proc/uptime"
INTERRUPTS, BOOT_ID = "/proc/interrupts", "/proc/sys/kernel/random/boot_id"
LOADS = ("/sys/kernel/debug/rknpu/load", "/proc/rknpu/load")
POWERS = ("/sys/kernel/debug/rknpu/power", "/proc/rknpu/power")
TIMES = ("/sys/kernel/debug/rknpu/hw_time", "/proc/rknpu/hw_time")

_FIND_AGAIN_AFTER = 30
_HOLDERS_EVERY_S = 5.0


class Collector:
    """Takes samples of one board. Not for several threads at once."""

    def __init__(
        self,
        files: BoardFiles,
        occupancy_dir: Path,
        *,
        steady: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._occupancy_dir = occupancy_dir
        self._steady, self._wall = steady, wall
        self._log = LogTracker()
        self.new_records: list[bytes] = []
        """Raw records of the kernel log that the last sample was the first to see."""
        self._forget()

    def _forget(self) -> None:
        self._identity = BoardIdentity()
        self._paths = BoardPaths()
        self._age = _FIND_AGAIN_AFTER
        self._stat: StatReading | None = None
        self._interrupts: dict[int, int] = {}
        self._stillness = Stillness()
        self._slow = SlowSources()
        self._times: dict[int, CoreTime] = {}
        self._submits: dict[int, int] = {}
        self._taken_s: float | None = None
        self._holders: tuple[Holder, ...] = ()
        self._holders_s: float | None = None
        self._hung = HungHolders()
        self._log.restart()

    def sample(self) -> Sample:
        """One sample. The first has no rates; take two about 200 ms apart for CPU figures.

        Raises:
            NoDeviceError: the files do not answer at all (the simulated board stopped).
        """
        try:
            return self._sample()
        except OSError as error:
            raise NoDeviceError("the board does not answer", why=error.strerror or str(error)) from error

    def _sample(self) -> Sample:
        if self._age >= _FIND_AGAIN_AFTER:
            self._identity = read_identity(self._files)
            self._paths = find_paths(self._files)
            self._age = 0
        self._age += 1
        now_s, now_unix_s = self._steady(), self._wall()
        paths = self._wanted()
        readings = dict(zip(paths, self._files.read_many(paths), strict=True))
        if all(readings[path].access is Access.FAILED for path in (STAT, MEMINFO, UPTIME)):
            raise NoDeviceError("the board's files do not answer", why=readings[STAT].errno_name)
        boot_id = readings[BOOT_ID].line()
        if boot_id and self._identity.boot_id and boot_id != self._identity.boot_id:
            self._forget()
            return self._sample()

        gaps = Gaps(readings | self._slow.readings(self._files, self._paths, now_s))
        span_s = None if self._taken_s is None else now_s - self._taken_s
        stat = parse_proc_stat(readings[STAT].text())
        uptime_s = _first_number(readings[UPTIME].text())
        occupancy = self._occupancy(span_s)
        result = Sample(
            source=self._files.label,
            source_detail=detail_of(self._files),
            unix_s=now_unix_s,
            mono_s=now_s,
            uptime_s=uptime_s,
            identity=self._identity,
            npu=self._npu(gaps, span_s, now_s),
            cpu=self._cpu(gaps, stat),
            memory=self._memory(gaps),
            ddr=self._ddr(gaps),
            temperatures=self._temperatures(gaps),
            occupancy=occupancy,
            resets=self._resets(gaps, now_unix_s, uptime_s),
            holders=self._find_holders(now_s),
            log=KernelLog(self._log.facts(), self._log.rows),
            blocked_tasks=stat.blocked,
            cooling=cooling_devices(gaps, self._paths),
            power_domains=power_domains(gaps),
            dma_bufs=dma_bufs(gaps),
            sram=sram_map(gaps),
            unavailable=gaps.unavailable(),
            warnings=gaps.warnings(),
        )
        self._stat, self._taken_s = stat, now_s
        if any(readings[f"{zone.path}/temp"].access is Access.ABSENT for zone in self._paths.zones):
            self._age = _FIND_AGAIN_AFTER
        return result

    def _wanted(self) -> list[str]:
        paths = [STAT, MEMINFO, UPTIME, INTERRUPTS, BOOT_ID, *LOADS, *POWERS, *TIMES]
        for node in (self._paths.npu_devfreq, self._paths.ddr_devfreq):
            if node:
                names = ("cur_freq", "max_freq", "governor", "load", "available_frequencies")
                paths += [f"{node}/{name}" for name in names]
        for policy in self._paths.policies:
            paths += [f"{policy.path}/scaling_cur_freq", f"{policy.path}/scaling_governor"]
        paths += [f"{zone.path}/temp" for zone in self._paths.zones]
        return paths

    def _npu(self, gaps: Gaps, span_s: float | None, now_s: float) -> Npu:
        rates = self._interrupt_rates(gaps, span_s)
        counts = list(self._interrupts.values())
        powered = gaps.first(POWERS)
        clock = self._devfreq(gaps, "npu.clock", self._paths.npu_devfreq)
        load = gaps.first(LOADS)
        cores: tuple[NpuCore, ...]
        parsed = parse_npu_load(load.text()) if load.ok else None
        if parsed is None:
            if load.ok:
                gaps.invalid("npu.load", load.path)
            else:
                gaps.missing("npu.load", load)
            cores = tuple(
                NpuCore(index, None, rate, irqs=count)
                for index, (rate, count) in enumerate(zip(rates, counts, strict=True))
            )
        else:
            for core in parsed:
                if core.pct is None:
                    gaps.invalid(f"npu.cores[{core.index}].load_pct", load.path)
                    gaps.warn(
                        f"core {core.index}: {core.raw_pct} % is a counter underflow of the driver, not a load"
                    )
                elif core.clamped:
                    gaps.warn(
                        f"core {core.index}: driver printed {core.raw_pct} %, shown as 100 (older than 0.9.7?)"
                    )
            cores = tuple(
                NpuCore(
                    core.index,
                    core.pct,
                    rates[core.index] if core.index < len(rates) else None,
                    self._stillness.seconds(
                        core.index,
                        core.pct,
                        counts[core.index] if core.index < len(counts) else None,
                        now_s,
                    ),
                    irqs=counts[core.index] if core.index < len(counts) else None,
                )
                for core in parsed
            )
        cores = self._with_times(gaps, cores, span_s)
        return Npu(cores, clock, powered.text().strip() == "on" if powered.ok else None)

    def _with_times(
        self, gaps: Gaps, cores: tuple[NpuCore, ...], span_s: float | None
    ) -> tuple[NpuCore, ...]:
        reading = gaps.first(TIMES)
        times = gaps.value("npu.hw_time", reading.path, parse_hw_time) or ()
        before, self._times = self._times, {item.core: item for item in times}
        return tuple(
            core
            if (now := self._times.get(core.index)) is None
            else replace(
                core,
                hw_jobs=now.jobs,
                hw_ns=now.hw_ns,
                hw_busy_pct=busy_share(before.get(core.index), now, span_s),
            )
            for core in cores
        )

    def _interrupt_rates(self, gaps: Gaps, span_s: float | None) -> list[float | None]:
        reading = gaps.reading(INTERRUPTS)
        lines: tuple[NpuInterrupt, ...] = parse_npu_interrupts(reading.text()) if reading.ok else ()
        rates: list[float | None] = []
        for line in lines:
            before = self._interrupts.get(line.hwirq)
            known = before is not None and span_s and line.count >= before
            rates.append((line.count - (before or 0)) / span_s if known and span_s else None)
        self._interrupts = {line.hwirq: line.count for line in lines}
        return rates

    def _devfreq(self, gaps: Gaps, field: str, node: str) -> Clock:
        if not node:
            gaps.absent(f"{field}.hz", "/sys/class/devfreq")
            return Clock()
        current = gaps.value(f"{field}.hz", f"{node}/cur_freq", parse_hz)
        listed = parse_frequency_list(gaps.reading(f"{node}/available_frequencies").text())
        limit = parse_hz(gaps.reading(f"{node}/max_freq").text())
        load = parse_devfreq_load(gaps.reading(f"{node}/load").text())
        governor = gaps.reading(f"{node}/governor").line()
        return Clock(current, listed[-1] if listed else limit, governor, load[0] if load else None)

    def _ddr(self, gaps: Gaps) -> Clock | None:
        clock = self._devfreq(gaps, "ddr", self._paths.ddr_devfreq)
        return clock if self._paths.ddr_devfreq else None

    def _cpu(self, gaps: Gaps, stat: StatReading) -> tuple[CpuGroup, ...]:
        if not stat.cpus:
            reading = gaps.reading(STAT)
            gaps.invalid("cpu", STAT) if reading.ok else gaps.missing("cpu", reading)
        measured = busy_percent(self._stat, stat) if self._stat else {}
        busy: dict[int, float | None] = {index: measured.get(index) for index in stat.cpus}
        if busy and not measured:
            gaps.pending("cpu.busy_pct", STAT)
        clocks = {}
        for policy in self._paths.policies:
            field = f"cpu.{policy.path.rsplit('/', 1)[-1]}.hz"
            hz = gaps.value(field, f"{policy.path}/scaling_cur_freq", parse_khz)
            governor = gaps.reading(f"{policy.path}/scaling_governor").line()
            clocks[policy.path] = Clock(hz, policy.max_hz, governor)
        if not self._paths.policies:
            gaps.absent("cpu.clock_hz", "/sys/devices/system/cpu/cpufreq")
        return group_cores(busy, clocks, self._paths, self._identity.soc)

    def _memory(self, gaps: Gaps) -> Memory | None:
        reading = gaps.reading(MEMINFO)
        memory = parse_meminfo(reading.text()) if reading.ok else None
        if memory is None:
            gaps.missing("memory", reading)
        elif memory.total_bytes is None:
            gaps.invalid("memory", MEMINFO)
            return None
        elif memory.cma_total_bytes is None:
            gaps.absent("memory.cma_total_bytes", MEMINFO)
        return memory

    def _temperatures(self, gaps: Gaps) -> tuple[Temperature, ...]:
        found = []
        for zone in self._paths.zones:
            value = gaps.value(f"temperatures.{zone.name}", f"{zone.path}/temp", parse_millicelsius)
            if value is not None:
                found.append(Temperature(zone.name, value, zone.trips))
        if not self._paths.zones:
            gaps.absent("temperatures", "/sys/class/thermal")
        return tuple(found)

    def _occupancy(self, span_s: float | None) -> Occupancy:
        processes: tuple[Publication, ...] = read_publications(self._occupancy_dir, self._files.label)
        rates = {
            item.pid: (item.counters.submits - self._submits[item.pid]) / span_s
            for item in processes
            if span_s and item.pid in self._submits and item.counters.submits >= self._submits[item.pid]
        }
        self._submits = {item.pid: item.counters.submits for item in processes}
        return Occupancy(processes, rates)

    def _resets(self, gaps: Gaps, now_unix_s: float, uptime_s: float | None) -> Resets | None:
        self.new_records = self._files.kernel_log(self._log.after_sequence)
        self._log.feed(self.new_records)
        facts = self._log.facts()
        if facts.records == 0:
            reading = self._files.read("/dev/kmsg")
            if not reading.ok:
                gaps.missing("resets", reading)
                return None
        boot_unix_s = None if uptime_s is None else now_unix_s - uptime_s
        first, last = facts.first_us, facts.last_reset_us
        return Resets(
            value=facts.resets,
            forced=facts.resets_forced,
            lower_bound=facts.lower_bound,
            since_unix_s=None if boot_unix_s is None or first is None else boot_unix_s + first / 1e6,
            last_unix_s=None if boot_unix_s is None or last is None else boot_unix_s + last / 1e6,
        )

    def _find_holders(self, now_s: float) -> tuple[Holder, ...]:
        if self._holders_s is None or now_s - self._holders_s >= _HOLDERS_EVERY_S:
            found = find_holders(self._files, self._paths.nodes)
            counts = self._interrupts.values()
            self._holders = self._hung.timed(found, sum(counts) if counts else None, now_s)
            self._holders_s = now_s
        return self._holders


def _first_number(text: str) -> float | None:
    word = text.split(" ", 1)[0].strip()
    return float(word) if word.isascii() and word.replace(".", "", 1).isdigit() and len(word) < 20 else None
