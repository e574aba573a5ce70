"""/proc/stat, /proc/meminfo and the other counters of the processor side, as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orkbench_tui.sim.boards.interrupt_line import InterruptLine

__all__ = ["interrupts", "meminfo", "stat"]

TICKS_PER_S = 100
_TIMER_HZ = 120

# share of each core's time the system itself takes: user, system, iowait, softirq
_LITTLE_SHARES = (0.012, 0.006, 0.001, 0.0004)
_BIG_SHARES = (0.004, 0.001, 0.0001, 0.0001)


def stat(
    uptime_ns: int,
    busy_ns: Mapping[int, int],
    npu_interrupts: Mapping[int, int],
    boot_wall_s: float,
    runnable: int,
    cores: int,
    blocked: int = 0,
) -> bytes:
    """/proc/stat; ``busy_ns`` is user time to add per core. Counters in 1/100 s.

    ``npu_interrupts`` are counts by interrupt number, ``blocked`` processes in state D.
    """
    uptime = uptime_ns * TICKS_PER_S // 1_000_000_000
    rows = []
    for core in range(cores):
        shares = _LITTLE_SHARES if core < 4 else _BIG_SHARES
        base = [int(uptime * share) for share in shares]
        user = min(base[0] + busy_ns.get(core, 0) * TICKS_PER_S // 1_000_000_000, uptime)
        system, iowait, softirq = base[1:]
        idle = max(0, uptime - user - system - iowait - softirq)
        rows.append((user, 0, system, idle, iowait, 0, softirq, 0, 0, 0))
    total = [sum(column) for column in zip(*rows, strict=True)]
    timers = uptime_ns * _TIMER_HZ * cores // 1_000_000_000
    counts = [0] * 64
    counts[13] = timers
    for number, count in npu_interrupts.items():
        counts[number] = count
    lines = [f"cpu  {' '.join(map(str, total))}"]
    lines += [f"cpu{core} {' '.join(map(str, row))}" for core, row in enumerate(rows)]
    lines += [
        f"intr {sum(counts)} {' '.join(map(str, counts))}",
        f"ctxt {timers * 2 + 3 * sum(npu_interrupts.values())}",
        f"btime {int(boot_wall_s)}",
        "processes 1841",
        f"procs_running {1 + runnable}",
        f"procs_blocked {blocked}",
        f"softirq {timers} 0 {timers // 4} 0 {timers // 40} {timers // 50} 0 0 {timers // 3} 0 {timers // 3}",
    ]
    return ("\n".join(lines) + "\n").encode()


def interrupts(
    uptime_ns: int, npu: Sequence[tuple[InterruptLine, int]], cores: int, gpu: InterruptLine | None
) -> bytes:
    """/proc/interrupts: each completed chain raises one interrupt of its core, all on CPU0."""
    timer = uptime_ns * _TIMER_HZ // 1_000_000_000
    zeros = [0] * cores
    rows = [(13, [timer] * cores, "GICv3", 26, "Level", "arch_timer")]
    rows += [
        (line.number, [count, *zeros[1:]], "GICv3", line.hardware, "Level", line.names) for line, count in npu
    ]
    if gpu is not None:
        rows += [(gpu.number, zeros, "GICv3", gpu.hardware, "Level", gpu.names)]
    lines = ["           " + "".join(f"CPU{core}       " for core in range(cores))]
    for number, counts, chip, hwirq, trigger, names in rows:
        lines.append(f"{number:3}:{_counts(counts)}     {chip} {hwirq:3} {trigger}     {names}")
    lines.append(f"IPI0:{_counts([timer // 90] * cores)[1:]}       Rescheduling interrupts")
    lines.append("Err:          0")
    return ("\n".join(lines) + "\n").encode()


def _counts(counts: Sequence[int]) -> str:
    return "".join(f" {count:10}" for count in counts)


_SYSTEM_KB = 612_000
_CACHE_KB = 1_184_000


def meminfo(total_kb: int, cma_kb: int, npu_bytes: int, client_bytes: int) -> bytes:
    """/proc/meminfo of a board of ``total_kb``, less NPU buffers and the clients' private memory."""
    used = _SYSTEM_KB + (npu_bytes + client_bytes) // 1024
    free = max(0, total_kb - used - _CACHE_KB)
    rows = {
        "MemTotal": total_kb,
        "MemFree": free,
        "MemAvailable": free + _CACHE_KB * 9 // 10,
        "Buffers": 64_204,
        "Cached": _CACHE_KB - 64_204,
        "SwapCached": 0,
        "Active": 310_440 + client_bytes // 1024,
        "Inactive": 882_004,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 144,
        "Shmem": 21_004,
        "KReclaimable": 61_220,
        "Slab": 121_144,
        "CmaTotal": cma_kb,
        "CmaFree": cma_kb - 14_024,
    }
    return "".join(f"{name + ':':<15} {value:8} kB\n" for name, value in rows.items()).encode()
