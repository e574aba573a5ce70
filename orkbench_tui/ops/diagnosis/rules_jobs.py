"""Jobs and resets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.incidents import Hang, hangs, starved, storm_hangs
from orkbench_tui.ops.diagnosis.processes import stuck_lines
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import (
    REFUSE_KILL,
    VOID,
    make,
    quote,
    quotes,
    sigterm,
)
from orkbench_tui.plural import counted

__all__ = ["BROKEN_MULTICORE", "interrupted", "soft_reset", "storm", "timeout"]

BROKEN_MULTICORE = ("0.9.2", "0.9.3")


def _unblamed(evidence: Evidence) -> list[Hang]:
    """Hangs that no domain stall or page fault before them explains."""
    return [hang for hang in hangs(evidence.log) if not hang.after]


def _stuck_pids(evidence: Evidence) -> list[int]:
    return [process.pid for process in evidence.processes if process.stuck]


def storm(evidence: Evidence) -> Iterator[Verdict]:
    found = storm_hangs(evidence.log, evidence.facts.resets)
    if not found:
        return
    pids = _stuck_pids(evidence)
    facts = evidence.facts
    cores = sorted({core for hang in found for core in hang.cores})
    yield make(
        "reset-storm",
        f"{counted(len(found), 'job')} timed out and {counted(facts.resets, 'reset')} followed: the NPU does not recover",
        evidence=[
            *quotes([line for hang in found for line in hang.lines], 5),
            *stuck_lines(evidence.processes),
        ],
        advice=(
            "stop all NPU work: no new job until the board was rebooted",
            sigterm(evidence.holders) if evidence.holders else "",
            f"processes in state D ({', '.join(map(str, pids))}) cannot be ended; they go with the reboot"
            if pids
            else "",
            "save the evidence first: `ork board bundle FILE.tar.gz`",
            "reboot; if the shutdown hangs on a process in state D, power cycle the board",
            "afterwards go back to the int8 path and one core (`ork npu matmul --shape 64,512,512 --core 0`), then add cores one by one; "
            "int4 and grouped programs are what wedged boards before",
            "more resets do not help: two without a correct checked job mean reboot",
            VOID,
        ),
        refuse=(REFUSE_KILL, "start another job", "reset again in a loop"),
        facts={
            "timeouts": len(found),
            "resets": facts.resets,
            "resets_forced": facts.resets_forced,
            "failed_cores": cores,
            "stuck_pids": pids,
            "lower_bound": facts.lower_bound,
        },
    )


def timeout(evidence: Evidence) -> Iterator[Verdict]:
    found = _unblamed(evidence)
    if found and not storm_hangs(evidence.log, evidence.facts.resets):
        yield _timeout(evidence, found)
        return
    if found or hangs(evidence.log):
        return
    if off := evidence.of("npu.irq.off"):
        yield make(
            "npu-job-timeout",
            "the driver's interrupts are switched off: every job will time out",
            evidence=quotes(off),
            advice=("clear the module parameter bypass_irq_handler and reboot", VOID),
            refuse=("retry the job automatically",),
            facts={"timeouts": 0},
        )
    elif not (evidence.facts.switch_timeouts or any(map(starved, evidence.log))) and (
        lost := evidence.of("npu.job.abort", "npu.job.commit")
    ):
        yield make(
            "npu-job-timeout",
            f"{counted(len(lost), 'job line')} without a time-out: dropped before or after they reached the NPU, cause open",
            evidence=quotes(lost),
            advice=(
                "read the log lines before the first of these: ret -22 is a failed domain switch, a reset under way looks alike",
                "`ork board bundle FILE.tar.gz` while it happens gives the second reading",
                VOID,
            ),
            refuse=("retry the job automatically",),
            facts={"cause": "open", "candidates": ["domain-switch-timeout", "npu-soft-reset"], "timeouts": 0},
        )
    elif odd := evidence.of("npu.irq.mismatch", "npu.job.stuck"):
        yield make(
            "npu-job-timeout",
            f"{counted(len(odd), 'completion interrupt')} not the one the job asked for; a time-out usually follows",
            evidence=quotes(odd),
            advice=("check the interrupt mask of the program that submits (0x300 for matmul programs)", VOID),
            refuse=("retry the job automatically",),
            facts={"timeouts": 0, "irq_mismatches": len(odd)},
            severity=Level.WARNING,
        )


def _timeout(evidence: Evidence, found: list[Hang]) -> Verdict:
    cores = sorted({core for hang in found for core in hang.cores})
    mode = _iommu_mode(evidence)
    raws = sorted({hang.raw for hang in found if hang.raw})
    where = f" on core {', '.join(map(str, cores))}" if cores else ""
    advice: list[str] = []
    if mode is False:
        advice.append(
            "the driver runs without IOMMU: the device tree lacks the NPU's iommu node or its link; use the device tree "
            "(dtb) that belongs to this kernel, with the iommus property on the NPU node"
        )
    if evidence.driver_version in BROKEN_MULTICORE:
        advice.append(
            f"driver {evidence.driver_version} breaks work on several cores (newer is not always better): use one core, "
            "or a kernel with driver 0.9.6 or later"
        )
    for core in cores:
        advice.append(
            f"test core {core} alone with a known answer: `ork npu matmul --shape 64,512,512 --core {core}`"
        )
    if not cores:
        advice.append(
            "test each core alone with a known answer: `ork npu matmul --shape 64,512,512 --core 0`, then 1 and 2"
        )
    if any(raw not in ("0x0", "") for raw in raws):
        bus = (
            "; 0x10000 is a bus error: a bad address, or tables above 4 GiB on RK356x"
            if "0x10000" in raws
            else ""
        )
        advice.append(
            f"raw status {', '.join(raws)}: a unit finished or failed, but not the one awaited{bus}"
        )
    elif raws:
        advice.append(
            "raw status 0x0: the core never finished anything; check the program's first task and its addresses"
        )
    if evidence.of("npu.reset.bypassed"):
        advice.append(
            "resets are switched off: write on to /sys/kernel/debug/rknpu/reset, or the core stays hung"
        )
    if evidence.of("npu.reset.failed"):
        advice.append("the reset failed too: nothing is dispatched any more; reboot")
    if (evidence.driver == "rocket") or evidence.of("rocket."):
        advice.append("the mainline rocket driver resets only that core; leave the NPU clock as it is")
    advice += ["save the log, run one checked job, and only then go on", VOID]
    return make(
        "npu-job-timeout",
        f"{counted(len(found), 'NPU job')} timed out{where}",
        evidence=[*_mode_lines(evidence), *quotes([line for hang in found for line in hang.lines])],
        advice=advice,
        refuse=(
            "retry the job automatically",
            "start another job before a checked one passed",
            REFUSE_KILL,
        ),
        facts={
            "timeouts": len(found),
            "resets": evidence.facts.resets,
            "failed_cores": cores,
            "iommu_mode": mode,
            "raw_status": raws,
            "tasks_done": sorted({hang.tasks for hang in found if hang.tasks is not None}),
            "driver_version": evidence.driver_version or None,
            "lower_bound": evidence.facts.lower_bound,
        },
    )


def _mode_lines(evidence: Evidence) -> list[str]:
    return [quote(item.record) for item in evidence.of("npu.boot.mode")][-1:]


def _iommu_mode(evidence: Evidence) -> bool | None:
    lines = _mode_lines(evidence)
    return None if not lines else "non-iommu" not in lines[-1]


def interrupted(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.job.interrupted", "npu.job.abort.signal")
    if not lines:
        return
    waits = evidence.facts.interrupted or len(lines)
    yield make(
        "npu-job-interrupted",
        f"{counted(waits, 'wait')} for an NPU job interrupted by a signal: not a time-out, not a hardware fault",
        evidence=quotes(lines),
        advice=(
            "ret = -512 is ERESTARTSYS: the waiting program got a signal; find who sent it (Ctrl-C, a service manager, "
            "`timeout`, a crash of another thread)",
            "let a job end before its program is stopped: SIGTERM, then wait three time-outs",
            "drivers up to about 0.9.3 wait interruptibly; later ones finish the job first, so a newer kernel does not print this",
            VOID,
        ),
        refuse=("call it a time-out or a hardware fault", "reset the NPU because of it", REFUSE_KILL),
        facts={"ret": -512, "interrupted": waits, "timeouts": len(hangs(evidence.log))},
    )


def soft_reset(evidence: Evidence) -> Iterator[Verdict]:
    if failed := evidence.of("npu.reset.failed"):
        yield make(
            "npu-soft-reset",
            "the reset controller refused: the driver dispatches nothing any more",
            evidence=quotes(failed),
            advice=(
                "stop NPU work, save the log, reboot",
                "check the reset lines in the device tree if it comes back",
                VOID,
            ),
            refuse=("start another job", "reset again in a loop"),
            facts={"resets": evidence.facts.resets},
            severity=Level.CRITICAL,
        )
        return
    if evidence.of("npu.reset.bypassed", "npu.reset.absent") and not hangs(evidence.log):
        yield make(
            "npu-soft-reset",
            "resets do not work here: a hung job would stay hung",
            evidence=quotes(evidence.of("npu.reset.bypassed", "npu.reset.absent")),
            advice=(
                "if resets are bypassed write on to /sys/kernel/debug/rknpu/reset; if the lines are missing correct the device tree",
            ),
            refuse=("rely on a reset",),
            facts={"resets": evidence.facts.resets},
            severity=Level.WARNING,
        )
        return
    lines = evidence.of("npu.reset")
    quiet = not (
        hangs(evidence.log)
        or evidence.facts.interrupted
        or evidence.facts.aborts
        or evidence.facts.uncommitted
    )
    if not lines or not quiet or evidence.facts.switch_timeouts:
        return
    times = [item.record.ts_us for item in lines if item.record.ts_us is not None]
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    gap = gaps[len(gaps) // 2] if gaps else None
    frequent = gap is not None and gap < 5_000_000 and len(lines) >= 5
    churn = gap is not None and gap < 300_000 and len(lines) >= 5
    yield make(
        "npu-soft-reset",
        f"{counted(len(lines), 'reset')} without a job time-out: asked for by software, not a hang",
        evidence=quotes(lines, 4),
        advice=(
            "ask the program that uses the NPU: runtimes reset between precisions or at start (ACT_RESET), and the clean-up of "
            "an asynchronous job resets too",
            "compare the number of resets with what the client ordered; only more than that is a fault",
            "the num in the line is the number of reset lines of the chip, not a count of resets",
            "resets every 100 ms come from memory pressure: free the page cache before loading"
            if churn
            else "",
        ),
        refuse=("call it a hang", "reboot the board because of it"),
        facts={
            "resets": len(lines),
            "timeouts": 0,
            "median_gap_ms": None if gap is None else round(gap / 1000),
            "lower_bound": evidence.facts.lower_bound,
        },
        # Our own driver resets when it starts and between precisions: on a live board a few say nothing.
        severity=Level.INFO if evidence.live and not frequent else None,
    )
