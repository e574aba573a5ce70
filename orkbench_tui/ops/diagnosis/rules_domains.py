"""Address space: page faults, domain switches, leaks, the 4 GiB window."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.incidents import starved
from orkbench_tui.ops.diagnosis.readings import bounded_int
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import REFUSE_KILL, VOID, make, name_holders, quotes, sigterm
from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted

__all__ = ["NPU_MMU", "iova", "page_fault", "switch_timeout", "unmap_leak"]

# The NPU's own translation units; those of display and video print the same words.
NPU_MMU = re.compile(r"^rk_iommu (?:fda[bcd]|2770|fde4|ff30|2200)[0-9a-f]{4}\.iommu: ")


def _npu_only(items: list[Classified]) -> list[Classified]:
    return [item for item in items if NPU_MMU.match(item.record.message)]


def page_fault(evidence: Evidence) -> Iterator[Verdict]:
    faults = _npu_only(evidence.of("npu.iommu.fault"))
    others = _npu_only(evidence.of("npu.iommu.bus", "npu.iommu.wedged"))
    if not faults and not _npu_only(evidence.of("npu.iommu.bus")):
        # A unit that only does not answer has no power: see rules_power.
        return
    suppressed = evidence.facts.page_faults_suppressed
    addresses = list(dict.fromkeys(item.figures.get("address", "") for item in faults))[:8]
    kinds = sorted({item.figures.get("access", "") for item in faults} - {""})
    total = len(faults) + suppressed
    title = (
        f"the NPU touched unmapped addresses: {'at least ' if suppressed else ''}{counted(total, 'page fault')}"
        if faults
        else "the NPU's address translation unit failed or did not answer"
    )
    yield make(
        "iommu-page-fault",
        title,
        evidence=quotes([*faults, *others]),
        advice=(
            f"find the buffer at {', '.join(addresses[:3])}: it was freed while a job used it, never mapped, or the job ran in "
            "another domain than its buffers"
            if addresses
            else "",
            "end the program that submitted it with SIGTERM, wait three job time-outs, then run one checked job",
            f"{suppressed} faults were not printed: the count is a lower bound" if suppressed else "",
            "after `Error during raw reset` or `FORCE_RESET` the unit has no power or is wedged: reboot"
            if others
            else "",
            "on RK356x with more than 4 GiB RAM translation tables must lie below 4 GiB: use a kernel with that fix"
            if evidence.of("npu.iommu.bus")
            else "",
            VOID,
        ),
        refuse=("retry the job automatically", REFUSE_KILL, "free buffers while jobs run"),
        facts={
            "page_faults": len(faults),
            "suppressed": suppressed,
            "lower_bound": bool(suppressed) or evidence.facts.lower_bound,
            "addresses": addresses,
            "access": kinds,
            "timeouts": evidence.facts.hangs,
        },
    )


def switch_timeout(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.iommu.switch_timeout")
    broken = evidence.of("npu.iommu.detached", "npu.iommu.switch_failed", "npu.iommu.refcount")
    starving = [item for item in evidence.of("npu.job.uncommitted") if starved(item)]
    if not lines and not broken and not starving:
        return
    ids = sorted({n for item in lines if (n := bounded_int(item.figures.get("dst"))) is not None})
    live = sorted(
        {n for item in evidence.log if (n := bounded_int(item.figures.get("live_domain"))) is not None}
    )
    leaked, leaked_bytes = evidence.facts.leaked_objects, evidence.facts.leaked_bytes
    yield make(
        "domain-switch-timeout",
        f"the switch to domain {', '.join(map(str, ids))} timed out {counted(len(lines), 'time')}: another domain stays in use"
        if lines
        else "the driver lost track of the attached address-space domain"
        if broken
        else f"{counted(len(starving), 'wait')} of jobs that never reached the NPU: another domain stays active",
        evidence=quotes([*lines[:3], *broken[:2], *evidence.of("npu.mem.leak", "npu.job.uncommitted")[:2]]),
        advice=(
            f"{sigterm(evidence.holders)}; SIGTERM, never harder, and wait up to three job time-outs and 18 s",
            "jobs reported right after a stalled switch are not the cause: they waited and never reached the NPU",
            "nobody runs, nobody lets go (load 0 and the same domain for a minute) is a leaked reference: only a reboot ends it",
            "the driver and the core disagree about the domain: stop all NPU work and reboot"
            if broken
            else "",
            f"{counted(leaked, 'buffer')} ({byte_size(leaked_bytes)}) could not be freed and stay until reboot"
            if leaked
            else "",
            "use fewer domains and one process; free buffers grouped by domain after their jobs ended",
            VOID,
        ),
        refuse=(
            REFUSE_KILL,
            "start another job",
            "reset the NPU to get rid of it: a reset does not return the reference",
        ),
        facts={
            "domain_ids": ids,
            "count": len(lines),
            "holder_pids": [holder.pid for holder in evidence.holders],
            "live_domains": live,
            "leaked_objects": leaked,
            "leaked_bytes": leaked_bytes,
        },
    )


def unmap_leak(evidence: Evidence) -> Iterator[Verdict]:
    warnings = evidence.of("npu.mem.unmap_leak")
    mapped = evidence.of("npu.mem.still_mapped")
    leaks = [] if evidence.facts.switch_timeouts else evidence.of("npu.mem.leak")
    busy = [item for item in evidence.of("npu.mem.map") if item.figures.get("ret") == "-98"]
    if not (warnings or mapped or leaks or busy):
        return
    imports = any("drm_prime_gem_destroy" in message for message in evidence.messages)
    switches = evidence.facts.switches
    yield make(
        "iommu-unmap-leak",
        f"{counted(len(warnings) or len(leaks) or len(mapped), 'mapping')} not taken back: address space leaks until reboot",
        evidence=quotes([*warnings[:3], *mapped[:2], *busy[:1], *leaks[:2]]),
        advice=(
            "reboot: leaked addresses do not come back, neither by a reset nor by restarting programs",
            "the driver records every import (PRIME) as domain 0 and unmaps it there; buffers imported while another domain was "
            "active are lost"
            if imports or switches
            else "",
            "until the kernel is patched keep to one domain (domain 0) for imports, or use buffers of the driver itself",
            "the kernel patch that records the domain of an import ends this (kernel_patches/)",
            "`failed to map SG: -98` is EADDRINUSE: an address was given out that is still mapped; stop NPU work now"
            if mapped or busy
            else "",
            VOID,
        ),
        refuse=(
            "go on with more imports",
            "blame missing RAM",
            "count the warnings of a ring that has wrapped as a total",
        ),
        facts={
            "unmap_warnings": len(warnings),
            "count": len(warnings) or len(leaks),
            "leaked_objects": len(leaks),
            "leaked_bytes": evidence.facts.leaked_bytes,
            "imports": imports,
            "still_mapped": len(mapped),
            "lower_bound": evidence.facts.lower_bound,
        },
    )


_SAID_IOVA = r"IOVA|iommu_dma_alloc_iova failed|4 ?GiB? (?:window|limit)|exceeds? (?:the )?4 ?G"


def iova(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.mem.iova")
    said = [
        line for line in evidence.said(_SAID_IOVA) if re.search(r"(?i)fail|exceed|no space|exhaust", line)
    ]
    if not lines and not said:
        return
    sizes = [
        n
        for item in evidence.of("npu.mem.dma_map")
        if (n := bounded_int(item.figures.get("bytes"))) is not None
    ]
    size = sizes[0] if sizes else _said_bytes(evidence)
    leaking = bool(evidence.facts.unmap_warnings)
    memory = evidence.memory
    free = memory.available_bytes if memory else None
    yield make(
        "iova-exhausted",
        "the 4 GiB address window of an NPU domain has no hole"
        + (f" of {byte_size(size)}" if size is not None else " of the size asked for"),
        evidence=[
            *quotes([*lines[:3], *evidence.of("npu.mem.dma_map")[:2]]),
            *said[:1],
            f"MemAvailable {byte_size(free)}: not a lack of RAM" if free and size and free > 2 * size else "",
        ],
        advice=(
            f"all programs together have 4 GiB (4096 MiB) in one domain; holders now: {name_holders(evidence.holders)}"
            if evidence.holders
            else "all programs together have 4 GiB (4096 MiB) in one domain: list the holders by open descriptors",
            f"{sigterm(evidence.holders)}, one at a time, then load again"
            if evidence.holders
            else sigterm(()),
            "put models into different domains (base_domain_id in RKLLM, domain ids in `ork npu domains`), or load less: "
            "a smaller model, a shorter context",
            "mappings leaked before (unmap warnings): only a reboot gives them back"
            if leaking
            else "if nobody holds the NPU the window leaked: reboot",
            VOID,
        ),
        refuse=(
            "blame missing RAM",
            "stop programs that do not hold the NPU, such as the display server (kill Xorg)",
            REFUSE_KILL,
        ),
        facts={
            "failed_bytes": size,
            "failures": len(lines),
            "holder_pids": [holder.pid for holder in evidence.holders],
            "leaking": leaking,
        },
    )


def _said_bytes(evidence: Evidence) -> int | None:
    for line in evidence.said(r"malloc npu memory|failed to allocate"):
        if found := re.search(r"size: ?(\d{1,19})\b", line):
            return int(found[1])
    return None
