"""Processes that wait for the NPU or hold it, and what the load says about them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.incidents import hangs, storm_hangs
from orkbench_tui.ops.diagnosis.processes import stuck_lines
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import (
    REFUSE_KILL,
    VOID,
    make,
    name_holders,
    quotes,
    sigterm,
)
from orkbench_tui.ops.telemetry.npu_load import FULL_PCT, parse_npu_load
from orkbench_tui.plural import counted

__all__ = ["busy", "load_invalid", "stuck", "wedged_load"]

_WAITS: tuple[tuple[str, str], ...] = (
    (r"rknpu_(?:submit|job)", "waits for an NPU job; ends by itself after at most three time-outs"),
    (
        r"rknpu_iommu_domain|usleep_range",
        "waits for an address-space domain: 6 s a try, 18 s an object on exit",
    ),
    (r"mutex", "waits for a lock another thread holds"),
    (r"drm_gem_prime|dma_buf", "imports a buffer"),
    (
        r"folio|filemap|io_schedule|jbd2|blk_|nvme|mmc|wait_on_page|ext4",
        "waits for the disk, not for the NPU",
    ),
)


def _wait_meaning(wait: str) -> str:
    return next((text for pattern, text in _WAITS if re.search(pattern, wait)), "")


def stuck(evidence: Evidence) -> Iterator[Verdict]:
    held = {holder.pid for holder in evidence.holders}
    waiting = [process for process in evidence.processes if process.stuck]
    hung = evidence.of("kernel.hung_task")
    if not hung and (not waiting or bool(storm_hangs(evidence.log, evidence.facts.resets))):
        return
    disk = not hung and all("disk" in _wait_meaning(p.wait) and p.pid not in held for p in waiting)
    pids = sorted(
        {p.pid for p in waiting} | {int(item.figures["pid"][:9]) for item in hung if "pid" in item.figures}
    )
    meanings = sorted({text for p in waiting if (text := _wait_meaning(p.wait))})
    memory = evidence.memory
    cached = bool(
        disk
        and memory
        and memory.free_bytes is not None
        and memory.cached_bytes
        and memory.total_bytes
        and memory.free_bytes < memory.total_bytes // 16
    )
    if cached:
        meanings.append(
            "the page cache fills the memory: free it (`sync`, then drop_caches) before the model is loaded again"
        )
    trace = " ".join(evidence.messages[-400:]) if hung else ""
    if "rknpu_iommu_domain_get_and_switch" in trace:
        meanings.append("the trace shows the lock of the address-space domains")
    names = ", ".join(
        f"{p.pid} ({p.command.split()[0] if p.command.split() else '?'})" for p in waiting
    ) or ", ".join(f"{item.figures.get('pid')} ({item.figures.get('task')})" for item in hung[:4])
    yield make(
        "process-stuck-D",
        f"{counted(len(pids), 'process', 'processes')} in uninterruptible sleep: {names}"
        + (" (disk, not NPU)" if disk else ""),
        evidence=[*stuck_lines(evidence.processes), *quotes(hung, 3)],
        advice=(
            *meanings,
            f"pid {', '.join(map(str, pids))} cannot be killed: state D takes no signal, not even SIGKILL; wait three job time-outs and 18 s for each object, looking "
            "at /proc/PID/wchan twice",
            ""
            if disk
            else "if it still waits, save the log (`ork board bundle`) and reboot; power cycle if the shutdown hangs on it",
        ),
        refuse=(REFUSE_KILL, "start another job on the NPU", "unload or unbind the driver under it"),
        facts={"stuck_pids": pids, "waits_for": sorted({p.wait for p in waiting})},
        severity=Level.LOW if disk else None,
    )


_BUSY = r"\bEBUSY\b|device or resource busy|errno: 16\b|another (?:process|program) (?:holds|uses)|NPU is (?:busy|in use)"


_BUSY_PCT = 50


def busy(evidence: Evidence) -> Iterator[Verdict]:
    said = evidence.said(_BUSY)
    loaded = any(core.pct is not None and core.pct >= _BUSY_PCT for core in evidence.loads or ())
    holders = evidence.holders
    if not (holders and (said or loaded or len(holders) > 1)) and not said:
        return
    yield make(
        "npu-busy-other-process",
        f"the NPU is held by {name_holders(holders)}"
        if holders
        else "a program found the NPU busy; the holder is not visible",
        evidence=[f"{h.pid} {h.command} -> {h.node}" for h in holders[:6]]
        + said[:3]
        + evidence.load_text.splitlines()[:1],
        advice=(
            "wait for it, or ask its owner to stop it"
            if evidence.live
            else f"if its work may end: {sigterm(holders)}",
            "holders are found by open descriptors of the NPU's node (`sudo ork board status` sees all users), never by a "
            "program name or a fixed node name",
            "two programs on the NPU at once have frozen boards: take turns (`flock /tmp/ork-npu.lock`)",
        ),
        refuse=(
            REFUSE_KILL,
            "start a second NPU program beside it",
            "stop a process without asking its owner",
        ),
        facts={
            "holders": [{"pid": h.pid, "command": h.command, "node": h.node} for h in holders],
            "holder_pids": [h.pid for h in holders],
        },
        severity=Level.INFO if evidence.live and not said else None,
    )


def wedged_load(evidence: Evidence) -> Iterator[Verdict]:
    """A load that stays although nobody holds the NPU: the job is still on the hardware.

    On a live board one full window may be a program's that has just ended: it takes two readings.
    """
    windows = [found for line in evidence.load_text.splitlines() if (found := parse_npu_load(line))]
    if not windows or (evidence.live and len(windows) < 2):
        return
    full = [
        {core.index for core in cores if core.pct is not None and core.pct >= FULL_PCT} for cores in windows
    ]
    cores = sorted(set.intersection(*full))
    if not cores or not evidence.holders_given or evidence.holders or evidence.denied or hangs(evidence.log):
        return
    yield make(
        "npu-job-timeout",
        f"core {', '.join(map(str, cores))} shows full load and no process holds the NPU: a job is still on the hardware",
        evidence=evidence.load_text.splitlines()[:2],
        advice=(
            "wait three job time-outs, then read the load again in two windows",
            "a core still at 100 % without a holder is wedged: `ork board recover`, which resets it; save the log and reboot if that does not help",
            VOID,
        ),
        refuse=("start another job", "retry the job automatically"),
        facts={"failed_cores": cores, "holders": []},
    )


def load_invalid(evidence: Evidence) -> Iterator[Verdict]:
    raw = [core.raw_pct for core in evidence.loads or ()]
    underflow = [core.index for core in evidence.loads or () if core.pct is None]
    over = [core.index for core in evidence.loads or () if core.raw_pct > 100]
    if over:
        title = (
            f"core {', '.join(map(str, underflow))}: the driver's counter underflowed; {max(raw)} % is not a load"
            if underflow
            else f"core {', '.join(map(str, over))}: {max(raw)} % is not a load; this driver does not clamp"
        )
        yield make(
            "npu-load-invalid",
            title,
            evidence=evidence.load_text.splitlines()[:2],
            advice=(
                "a counter underflow or missing clamp of the driver: ignore the figure and take it as unknown, not as 0 and not as 100",
                "use the interrupts of each core from /proc/interrupts instead (no root needed)",
                "drivers from 0.9.7 on clamp at 100: a newer kernel ends this",
                "a value that stays after the program ended means a job never finished: look at the kernel log",
            ),
            refuse=("show or alert on the printed number", "call the NPU overloaded"),
            facts={
                "raw_pct": raw,
                "cores": [core.pct for core in evidence.loads or ()],
                "underflow_cores": underflow,
            },
        )
    elif evidence.load_text.strip() and evidence.loads is None and not evidence.errors:
        yield make(
            "npu-load-invalid",
            "the load file holds no load line this program knows",
            evidence=evidence.load_text.splitlines()[:2],
            advice=(
                "take the load as unknown",
                "send the line with `ork board bundle` so that the form can be added",
            ),
            refuse=("show a number for it",),
            facts={"cores": None},
        )
