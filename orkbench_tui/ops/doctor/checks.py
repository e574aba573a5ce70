"""The preflight as a table: what a measurement wants, why, and how to get it.

A check reads and never changes anything. What cannot be read is ``unknown``, never ``ok``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orkbench_tui.ops.doctor.readings import DoctorReadings
from orkbench_tui.ops.telemetry.wording import byte_size, megahertz

__all__ = ["CHECKS", "Check", "Finding", "Outcome", "fit", "run_checks"]

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    status: str
    found: str


@dataclass(frozen=True, slots=True)
class Check:
    """``number`` is the row of the preflight table the check stands for."""

    number: int
    id: str
    group: str
    want: str
    why: str
    fix: str
    judge: Callable[[DoctorReadings], Finding]


@dataclass(frozen=True, slots=True)
class Outcome:
    check: Check
    finding: Finding
    fix: str

    def document(self) -> dict[str, Any]:
        return {
            "id": self.check.id,
            "group": self.check.group,
            "status": self.finding.status,
            "want": self.check.want,
            "found": self.finding.found or None,
            "why": self.check.why,
            "fix": self.fix or None,
        }


def _number(text: str | None) -> int | None:
    word = text.split()[0] if text and text.split() else ""
    return int(word) if re.fullmatch(r"-?[0-9]{1,15}", word) else None


def _values(readings: DoctorReadings, pattern: str) -> list[tuple[str, str]]:
    return readings.evidence.value(pattern)


def _clock(readings: DoctorReadings, node: str) -> Finding:
    now = next(
        (n for _, v in _values(readings, rf"/devfreq/{node}/cur_freq$") if (n := _number(v)) is not None),
        None,
    )
    listed = [
        n
        for _, v in _values(readings, rf"/devfreq/{node}/(?:available_frequencies|max_freq)$")
        for word in v.split()
        if (n := _number(word)) is not None
    ]
    top = max(listed, default=None)
    if now is None or top is None:
        return Finding(
            UNKNOWN, "no devfreq node" if now is None else f"{megahertz(now)} MHz, highest rate unknown"
        )
    return Finding(OK if now >= top else FAIL, f"{megahertz(now)} of {megahertz(top)} MHz")


def _governor(readings: DoctorReadings) -> Finding:
    governor = next((v for _, v in _values(readings, r"/devfreq/[0-9a-f]+\.(?:rk)?npu/governor$")), "")
    if not governor:
        return Finding(UNKNOWN, "not readable")
    return Finding(OK if governor in ("userspace", "rknpu_ondemand", "performance") else FAIL, governor)


def _cpu_clocks(readings: DoctorReadings) -> Finding:
    governors = dict(_values(readings, r"policy\d+/scaling_governor$"))
    if not governors:
        return Finding(UNKNOWN, "no cpufreq policies readable")
    low = []
    for path, governor in governors.items():
        folder = path.rsplit("/", 1)[0]
        now, top = (
            _number(readings.evidence.values.get(f"{folder}/{name}"))
            for name in ("scaling_cur_freq", "cpuinfo_max_freq")
        )
        text = f"{folder.rsplit('/', 1)[-1]} {governor}"
        if governor != "performance" or (now is not None and top is not None and now < top):
            low.append(
                text + (f" {now // 1000}/{top // 1000} MHz" if now is not None and top is not None else "")
            )
    return Finding(FAIL, ", ".join(low)) if low else Finding(OK, "all performance, at their maximum")


def _cpuidle(readings: DoctorReadings) -> Finding:
    states = dict(readings.matching(r"cpuidle/state1/disable$"))
    if not states:
        return Finding(UNKNOWN, "no cpuidle state readable")
    disabled = sum(text == "1" for text in states.values())
    return Finding(OK, f"deep idle off on {disabled} of {len(states)} CPUs (recorded)")


def _temperatures(readings: DoctorReadings) -> dict[str, float]:
    types = {path.rsplit("/", 1)[0]: text for path, text in _values(readings, r"thermal_zone\d+/type$")}
    found = {}
    for path, text in _values(readings, r"thermal_zone\d+/temp$"):
        value = _number(text)
        if value is not None:
            found[types.get(path.rsplit("/", 1)[0], path)] = value / 1000
    return found


def _heat(readings: DoctorReadings) -> Finding:
    zones = _temperatures(readings)
    if not zones:
        return Finding(UNKNOWN, "no thermal zone readable")
    name, value = max(zones.items(), key=lambda item: item[1])
    return Finding(OK if value < 60 else WARN if value < 75 else FAIL, f"{name} {value:.0f} °C")


def _throttle(readings: DoctorReadings) -> Finding:
    types = {path.rsplit("/", 1)[0]: text for path, text in _values(readings, r"cooling_device\d+/type$")}
    states = _values(readings, r"cooling_device\d+/cur_state$")
    if not states:
        return Finding(UNKNOWN, "no cooling device readable")
    active = [
        f"{types.get(path.rsplit('/', 1)[0], '?')} {text}"
        for path, text in states
        if _number(text) and "fan" not in types.get(path.rsplit("/", 1)[0], "")
    ]
    return Finding(FAIL, ", ".join(active)) if active else Finding(OK, "no clock held down")


def _cpu_set(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()) and len(part) < 10:
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _irqs(readings: DoctorReadings) -> Finding:
    if not readings.affinity:
        return Finding(UNKNOWN, "effective_affinity_list not readable")
    text = ", ".join(f"{core} on CPU {cpus}" for core, cpus in readings.affinity.items())
    own = set(readings.own_cpus or ())
    shared = own and any(_cpu_set(cpus) & own for cpus in readings.affinity.values())
    return Finding(WARN if shared else OK, text + ("; shared with this process" if shared else ""))


def _own_affinity(readings: DoctorReadings) -> Finding:
    if readings.own_cpus is None:
        return Finding(UNKNOWN, "this process does not run on the board")
    cpus = ",".join(map(str, readings.own_cpus))
    return Finding(OK if 0 not in readings.own_cpus else WARN, f"CPUs {cpus}")


def _others(readings: DoctorReadings) -> Finding:
    others = [h for h in readings.evidence.holders if h.pid != readings.own_pid]
    if others:
        return Finding(FAIL, ", ".join(f"{h.pid} ({h.command})" for h in others[:4]))
    if any(item.name == "fds.txt" for item in readings.evidence.capture.unreadable):
        return Finding(UNKNOWN, "none of this user; other users' processes are not visible")
    return Finding(OK, "nobody else")


def _idle(readings: DoctorReadings) -> Finding:
    loads = readings.loads
    if len(loads) < 2 and readings.jobs is None:
        return Finding(UNKNOWN, "neither load nor interrupts readable")
    busy = [pct for window in loads for pct in window if pct is None or pct > 5]
    text = (
        "; ".join("/".join("?" if pct is None else str(pct) for pct in window) + " %" for window in loads)
        or "load unknown"
    )
    text += f", {readings.jobs} interrupts" if readings.jobs is not None else ", interrupts unknown"
    if busy or readings.jobs:
        return Finding(FAIL, text)
    return Finding(OK if len(loads) == 2 else UNKNOWN if readings.jobs is None else OK, text)


_FAULTS = (
    "hangs",
    "aborts",
    "uncommitted",
    "switch_timeouts",
    "iova_failures",
    "page_faults",
    "unmap_warnings",
)


def _faults(readings: DoctorReadings) -> Finding:
    evidence = readings.evidence
    if not evidence.log_given:
        return Finding(UNKNOWN, "kernel log not readable")
    counts = {name: value for name in _FAULTS if (value := getattr(evidence.facts, name))}
    if counts:
        return Finding(FAIL, ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counts.items()))
    return Finding(
        OK, "none" + (" in what the log still holds" if evidence.facts.lower_bound else " since boot")
    )


def _resets(readings: DoctorReadings) -> Finding:
    if not readings.evidence.log_given:
        return Finding(UNKNOWN, "kernel log not readable")
    return Finding(OK, f"{readings.evidence.facts.resets} so far (recorded; compare after the run)")


def _page_cache(readings: DoctorReadings) -> Finding:
    memory = readings.evidence.memory
    if memory is None or memory.free_bytes is None or memory.total_bytes is None:
        return Finding(UNKNOWN, "/proc/meminfo not readable")
    text = f"{byte_size(memory.free_bytes)} free, {byte_size(memory.cached_bytes)} page cache"
    needed = min(4 << 30, memory.total_bytes // 4)
    return Finding(OK if memory.free_bytes >= needed else FAIL, text)


def _cma(readings: DoctorReadings) -> Finding:
    memory = readings.evidence.memory
    if memory is None or memory.cma_total_bytes is None or memory.cma_free_bytes is None:
        return Finding(UNKNOWN, "no CMA figures")
    text = f"{byte_size(memory.cma_free_bytes)} of {byte_size(memory.cma_total_bytes)} free"
    return Finding(OK if memory.cma_free_bytes >= 16 << 20 else WARN, text)


def _swap(readings: DoctorReadings) -> Finding:
    memory = readings.evidence.memory
    if memory is None or memory.swap_total_bytes is None or memory.swap_free_bytes is None:
        return Finding(UNKNOWN, "not readable")
    used = memory.swap_total_bytes - memory.swap_free_bytes
    if memory.swap_total_bytes == 0:
        return Finding(OK, "off")
    return Finding(WARN if used else OK, f"{byte_size(used)} of {byte_size(memory.swap_total_bytes)} used")


def _disk(readings: DoctorReadings) -> Finding:
    found = readings.matching(r"/sys/block/(?!loop|ram|zram)[^/]+/queue/read_ahead_kb$")
    if not found:
        return Finding(UNKNOWN, "no block device readable")
    return Finding(
        OK,
        ", ".join(f"{path.split('/')[3]} {text} kB read-ahead" for path, text in found[:3]) + " (recorded)",
    )


def _sram(readings: DoctorReadings) -> Finding:
    text = next(
        (
            t
            for path in ("/sys/kernel/debug/rknpu/mm", "/proc/rknpu/mm")
            if (t := readings.text(path)) is not None
        ),
        None,
    )
    if text is None:
        return Finding(UNKNOWN, "no mm node: built without SRAM, or not readable")
    found = re.search(r"total size: (\d{1,12}), used: (\d{1,12})", text)
    if found is None:
        return Finding(OK, "the NPU has no SRAM")
    return Finding(
        OK if int(found[2]) == 0 else WARN, f"{byte_size(int(found[2]))} of {byte_size(int(found[1]))} used"
    )


def _kernel(readings: DoctorReadings) -> Finding:
    evidence = readings.evidence
    build = readings.text("/proc/sys/kernel/version") or ""
    if not evidence.kernel:
        return Finding(UNKNOWN, "kernel release not readable")
    driver = (
        f"{evidence.driver or 'driver'} {evidence.driver_version}".strip()
        if evidence.driver_version
        else "driver version unknown"
    )
    return Finding(OK, f"{evidence.kernel} {build}, {driver} (recorded)")


def _other_load(readings: DoctorReadings) -> Finding:
    text = readings.text("/sys/class/devfreq/fb000000.gpu/load")
    found = re.match(r"(\d{1,3})@", text or "")
    if found is None:
        return Finding(UNKNOWN, "GPU load not readable")
    return Finding(OK if int(found[1]) <= 5 else WARN, f"GPU {found[1]} %")


def _supply(readings: DoctorReadings) -> Finding:
    low = [m for m in readings.evidence.messages if re.search(r"(?i)under-?voltage|brown-?out", m)]
    if low:
        return Finding(FAIL, low[-1][:80])
    return Finding(UNKNOWN, "no undervoltage line in the log; the supply itself has no sensor read here")


def _sampler(readings: DoctorReadings) -> Finding:
    return Finding(OK, "this program samples at most once a second and never reads debugfs freq")


def _after(text: str) -> Callable[[DoctorReadings], Finding]:
    return lambda _: Finding(UNKNOWN, text)


_PIN = "ask the owner, write down the old value, then `echo performance | sudo tee .../governor`; restore it afterwards"

CHECKS: tuple[Check, ...] = (
    Check(1, "npu.clock", "clocks", "NPU at its highest listed rate", "at the 200 MHz boot clock it is 7.6 times slower", _PIN, lambda r: _clock(r, r"[0-9a-f]+\.(?:rk)?npu")),
    Check(2, "npu.governor", "clocks", "userspace, performance or rknpu_ondemand", "other governors move the clock in mid-run", _PIN, _governor),
    Check(3, "ddr.clock", "clocks", "DDR (dmc) at its highest rate", "decode is bound by DDR bandwidth", _PIN, lambda r: _clock(r, "dmc")),
    Check(4, "cpu.clocks", "clocks", "all CPU policies performance and at their maximum", "submit and decode threads run on the CPU", _PIN, _cpu_clocks),
    Check(5, "cpu.idle", "clocks", "recorded", "waking from deep idle delays completions", "", _cpuidle),
    Check(6, "heat", "heat", "below 60 °C at the start, never 75", "from 85 °C the NPU runs at 800 MHz without a log line", "let it cool; heat sink, fan", _heat),
    Check(7, "throttle", "heat", "no cooling device active (fans aside)", "an active one holds clocks down", "cool the board before measuring", _throttle),
    Check(8, "irq.placement", "placement", "NPU interrupts away from the submit threads", "all lines default to CPU0", "write a CPU list to /proc/irq/N/smp_affinity_list (lost on reboot)", _irqs),
    Check(9, "cpu.affinity", "placement", "workload on the big cores", "little cores halve decode", "start it with `taskset -c 4-7`", _own_affinity),
    Check(10, "npu.users", "NPU", "nobody else holds the NPU", "one stream at a time; two programs have frozen boards", "ask the owner to stop it, SIGTERM", _others),
    Check(11, "npu.idle", "NPU", "load 0 in two windows, no interrupts for 2 s", "somebody's jobs would be in the figure", "find the holder, wait", _idle),
    Check(12, "faults", "NPU", "no NPU fault in the log", "a leaked domain or address window changes behaviour", "`ork board diagnose`; most need a reboot", _faults),
    Check(13, "resets", "NPU", "only the resets the workload asks for", "a reset in mid-run voids the figure", "compare after the run by sequence number", _resets),
    Check(14, "page.cache", "memory", "MemFree above the model plus 4 GiB", "imports need free pages now, whatever is available", "`sync`, then drop the page cache before loading", _page_cache),
    Check(15, "cma", "memory", "CmaFree above the largest contiguous request", "contiguous requests fail or fall back", "stop video and camera, or a larger cma= at boot", _cma),
    Check(16, "swap", "memory", "off or unused", "swapping voids every time", "close programs; `sudo swapoff -a` if RAM allows", _swap),
    Check(17, "double.residency", "memory", "model file and pack together below RAM less 2 GiB", "both mapped at once gives reset storms, not an OOM", "choose a smaller model, or map only the pack", _after("depends on the model: known when one is loaded")),
    Check(18, "disk", "storage", "recorded", "concerns load time only", "", _disk),
    Check(19, "sram", "NPU", "no SRAM used before the run", "a left-over allocation changes placement", "find the holder; else reboot", _sram),
    Check(20, "kernel", "identity", "recorded", "figures of different kernels are not comparable", "", _kernel),
    Check(21, "governor.drift", "clocks", "clocks the same after the run", "power daemons rewrite governors", "run this again after the run", _after("known after the run: compare rows 1 to 4")),
    Check(22, "gpu.video", "load", "GPU and video idle", "they share the DDR", "close browsers and players", _other_load),
    Check(23, "supply", "power", "no undervoltage", "a weak supply throttles or resets the board", "a supply of the board's rating", _supply),
    Check(24, "sampler", "load", "monitor at most once a second", "reading debugfs freq power-cycles the NPU", "", _sampler),
    Check(25, "time.base", "identity", "monotonic clock", "a clock step inside a run voids it", "", lambda _: Finding(OK, "CLOCK_MONOTONIC")),
)  # fmt: skip


_LEAVE = "leave the NPU clock alone under the mainline driver: setting it can hang the board"


def run_checks(readings: DoctorReadings) -> tuple[Outcome, ...]:
    """Every row in order; a fix only where something is to be done."""
    return tuple(_outcome(check, readings) for check in CHECKS)


def _outcome(check: Check, readings: DoctorReadings) -> Outcome:
    finding = check.judge(readings)
    fix = check.fix if finding.status in (WARN, FAIL) else ""
    if readings.evidence.mainline and check.id in ("npu.clock", "npu.governor"):
        fix = _LEAVE
    return Outcome(check, finding, fix)


def fit(outcomes: tuple[Outcome, ...]) -> bool:
    """Whether nothing that was readable failed. Unknown rows do not fail a board, and are listed as unknown."""
    return all(outcome.finding.status != FAIL for outcome in outcomes)
