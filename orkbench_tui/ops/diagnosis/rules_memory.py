"""Host memory: out of memory, contiguous memory, and failures whose cause needs a second reading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.readings import bounded_int
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import VOID, make, quotes, sigterm
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted

__all__ = ["cma", "import_failed", "oom"]

_PAGE = 4096


def oom(evidence: Evidence) -> Iterator[Verdict]:
    kills = evidence.of("kernel.oom")
    details = evidence.of("kernel.oom.detail")
    if not kills and not details:
        yield from _killed(evidence)
        return
    last = kills[-1] if kills else None
    pid = bounded_int(last.figures.get("pid")) if last else None
    name = (last.figures.get("task") if last else None) or ""
    rss = next(
        (n for item in reversed(kills) if (n := bounded_int(item.figures.get("rss_kb"))) is not None), None
    )
    memory = evidence.memory
    total = memory.total_bytes if memory else None
    yield make(
        "oom-kill",
        f"the kernel ended {name or 'a program'}{f' (pid {pid})' if pid is not None else ''} because RAM ran out",
        evidence=[*quotes([*kills[:3], *details[:2]]), _memory_line(evidence)],
        advice=(
            f"{name} (pid {pid}) had {byte_size(rss * 1024)} of RAM"
            + (f" of {byte_size(total)}" if total else "")
            + " when it was ended"
            if last and rss is not None
            else f"{name} (pid {pid}) was ended"
            if last
            else "",
            "use a smaller model, a smaller quantization or a shorter context: weights, packs and the page cache of the model "
            "file count together",
            "do not map a GGUF and its pack at once where both exceed RAM",
            "close other programs first; swap on an SD card only hides it",
        ),
        refuse=(
            "reload the same model",
            "turn the out-of-memory killer off",
            "blame the NPU's address window",
        ),
        facts={
            "victim_pid": pid,
            "victim": name or None,
            "anon_rss_kb": rss,
            "kills": len(kills),
            "mem_total_kb": total // 1024 if total else None,
        },
    )


def _killed(evidence: Evidence) -> Iterator[Verdict]:
    """A shell's ``Killed`` without the kernel's word for it."""
    said = evidence.said(
        r"^\s*(?:\[\d+\]\S*\s+)?(?:\S+: line \d+:\s+\d+ )?Killed\b|exit(?:ed)? (?:code|status) 137|OOMKilled"
    )
    if said:
        yield make(
            "oom-kill",
            "a program was ended by SIGKILL; cause open: RAM, or somebody's kill",
            evidence=[*said[:3], _memory_line(evidence)],
            advice=(
                "read the kernel log of that minute (`sudo dmesg`): `Out of memory: Killed process` says that RAM ran out",
                "if so use a smaller model or a shorter context",
                VOID,
            ),
            refuse=("reload the same model",),
            facts={"cause": "open", "candidates": ["oom-kill"], "victim_pid": None},
        )


def _memory_line(evidence: Evidence) -> str:
    memory = evidence.memory
    if memory is None or memory.total_bytes is None:
        return ""
    return (
        f"MemTotal {byte_size(memory.total_bytes)}, MemFree {byte_size(memory.free_bytes)}, "
        f"MemAvailable {byte_size(memory.available_bytes)}, Cached {byte_size(memory.cached_bytes)}, "
        f"CmaTotal {byte_size(memory.cma_total_bytes)}, CmaFree {byte_size(memory.cma_free_bytes)}"
    )


def _cma_gone(evidence: Evidence) -> bool:
    """Contiguous memory used up while plain memory is free."""
    memory = evidence.memory
    return bool(
        memory
        and memory.cma_total_bytes
        and memory.cma_free_bytes is not None
        and memory.cma_free_bytes < 4 << 20
        and memory.total_bytes
        and (memory.free_bytes or 0) > memory.total_bytes // 16
    )


_PAGES = re.compile(r"(?:=>\s*)?(\d{1,12}) free of (\d{1,12}) total pages")


def cma(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("kernel.cma")
    said = (
        evidence.said(_FAILED)
        if not lines and _cma_gone(evidence) and not evidence.of("npu.mem.iova")
        else []
    )
    if not lines and not said:
        return
    details = evidence.of("kernel.cma.detail")
    free_kb = total_kb = None
    for item in details:
        if found := _PAGES.search(item.record.message):
            free_kb, total_kb = int(found[1]) * _PAGE // 1024, int(found[2]) * _PAGE // 1024
    memory = evidence.memory
    if memory is not None and memory.cma_total_bytes is not None:
        total_kb = memory.cma_total_bytes // 1024
        if memory.cma_free_bytes is not None:
            free_kb = memory.cma_free_bytes // 1024
    asked = [
        int(m[1]) for item in lines if (m := re.search(r"req-size: (\d{1,9}) pages", item.record.message))
    ]
    size = f"{total_kb // 1024} MiB ({total_kb} kB, {total_kb // 4} pages)" if total_kb else "of unknown size"
    non_iommu = any("non-iommu" in message for message in evidence.messages)
    yield make(
        "cma-exhausted",
        f"contiguous memory (CMA, {size}) cannot serve requests"
        + (f"; {free_kb} kB free" if free_kb is not None else ""),
        evidence=[*quotes([*lines[:3], *details[-1:]]), *said[:3], _memory_line(evidence)],
        advice=(
            f"the CMA area is {size}: display, camera, video and the NPU share it; give the kernel a larger one (cma=256M or more "
            "on the kernel command line), with a backup of the boot configuration first",
            "without IOMMU every NPU buffer needs contiguous memory: use a device tree with the NPU's IOMMU"
            if non_iommu
            else "",
            "stop what holds contiguous memory (video, camera), or free the page cache before a load",
            "plain RAM is not the limit here: MemFree says nothing about CMA",
        ),
        refuse=("change boot arguments without a backup", "blame missing RAM"),
        facts={
            "cma_total_kb": total_kb,
            "cma_free_kb": free_kb,
            "failures": len(lines),
            "largest_request_pages": max(asked, default=None),
        },
    )


_FAILED = (
    r"PRIME_FD_TO_HANDLE|failed to allocate handle|failed to malloc npu memory|failed to (?:import|convert handle)|"
    r"MEM_CREATE.*(?:fail|Cannot|errno)|rknn_(?:create_mem|mem_create).*fail|dma[-_ ]?(?:buf|heap).*(?:fail|Cannot allocate)|"
    r"Cannot allocate memory|weight_memory is NULL|can(?:'t| ?not) create weight memory|failed to submit"
)
_ERRNO = re.compile(r"errno:? ?=? ?(\d{1,3})\b")
_WORDS = {
    "Cannot allocate memory": 12,
    "Bad address": 14,
    "Too many open files in system": 23,
    "Too many open files": 24,
    "Invalid argument": 22,
}


def _errnos(lines: list[str]) -> list[int]:
    found: list[int] = []
    for line in lines:
        if number := _ERRNO.search(line):
            found.append(int(number[1]))
        else:
            found += [value for word, value in _WORDS.items() if word in line][:1]
    return sorted(set(found))


def import_failed(evidence: Evidence) -> Iterator[Verdict]:
    """Failures to make, import or submit that no better class explains (see ``ranking``)."""
    said = evidence.said(_FAILED)
    lines = evidence.of("npu.mem.pages", "kernel.pages", "npu.iommu.table", "npu.mem.sync")
    lines += [item for item in evidence.of("npu.mem.map") if item.figures.get("ret") != "-98"]
    limit = evidence.said(r"errno:? ?=? ?(?:23|24)\b|Too many open files|EMFILE|ENFILE")
    if not said and not lines and not limit:
        yield from _full_cache(evidence)
        return
    errnos = _errnos([*said, *limit])
    memory = evidence.memory
    facts: dict[str, Any] = {
        "errnos": errnos,
        "failures": len(said) + len(lines),
        "failed_bytes": _bytes(evidence),
    }
    shown = [*said[:3], *quotes(lines, 3), _memory_line(evidence)]
    refuse = (
        "report the model as loaded",
        "trust the answer or its speed figure",
        "blame missing RAM without a reading",
    )
    if limit:
        handle = next((m[1] for line in limit if (m := re.search(r"handle\((\d{1,9})\)", line))), None)
        yield make(
            "import-no-memory",
            "buffers could not be imported: the limit of open files was reached"
            + (f" at {handle}" if handle else ""),
            evidence=limit[:3],
            advice=(
                "each imported buffer is an open file: raise the limit of this shell with `ulimit -n 65536`, of a service with "
                "LimitNOFILE=65536",
                "errno 23 is the limit of the whole system: see /proc/sys/fs/file-max",
                VOID,
            ),
            refuse=refuse,
            facts={**facts, "limit": "open files"},
        )
        return
    size = facts["failed_bytes"] or 0
    cached = bool(
        memory
        and memory.free_bytes is not None
        and memory.cached_bytes is not None
        and memory.total_bytes
        and memory.free_bytes < max(memory.total_bytes // 16, size)
        and memory.cached_bytes > memory.total_bytes // 4
    )
    short = bool(
        memory
        and memory.available_bytes is not None
        and memory.total_bytes
        and memory.available_bytes < max(memory.total_bytes // 16, size)
    )
    if cached or short:
        why = "the page cache holds the memory" if cached else "RAM is used up"
        advice = (
            "free the page cache before the load: `sync`, then `echo 1 | sudo tee /proc/sys/vm/drop_caches` "
            "(nothing is lost, the next read of a model file is slower)"
            if cached
            else "close other programs or use a smaller model",
            sigterm(evidence.holders) if evidence.holders else "",
            "imports need free pages now, not pages that could be freed: watch MemFree, not MemAvailable",
            VOID,
        )
        yield make(
            "import-no-memory",
            f"a buffer could not be made or imported: {why} ({byte_size(memory.free_bytes if memory else None)} free)",
            evidence=shown,
            advice=advice,
            refuse=refuse,
            facts={**facts, "mem_free_kb": _kb(memory.free_bytes if memory else None)},
        )
        return
    if said and all("submit" in line.lower() for line in said) and not lines:
        yield make(
            "npu-job-timeout",
            f"{counted(len(said), 'submit')} failed; cause open without the kernel log",
            evidence=shown,
            advice=(
                "read the kernel log of the same minute (`ork board log`, `sudo dmesg`): a time-out, a failed domain switch and a "
                "wrong program look alike from the runtime",
                "`ork board bundle FILE.tar.gz` collects what is needed",
                VOID,
            ),
            refuse=("retry the job automatically", "trust the answer or its speed figure"),
            facts={**facts, "cause": "open", "candidates": ["domain-switch-timeout", "driver-too-old"]},
        )
        return
    yield make(
        "import-no-memory",
        "a buffer could not be made or imported; cause open: one errno has several causes",
        evidence=shown,
        advice=(
            "take a second reading before changing anything: the kernel log (`failed to allocate IOVA` is a full 4 GiB window, "
            "`cma_alloc` contiguous memory), /proc/meminfo (MemFree, CmaFree) and the driver version",
            "`ork board bundle FILE.tar.gz` collects all three; then `ork board diagnose FILE.tar.gz`",
            f"errno {', '.join(map(str, errnos))} alone does not tell them apart" if errnos else "",
            sigterm(evidence.holders) if evidence.holders else "",
            VOID,
        ),
        refuse=refuse,
        facts={**facts, "cause": "open", "candidates": ["iova-exhausted", "cma-exhausted", "driver-too-old"]},
    )


def _full_cache(evidence: Evidence) -> Iterator[Verdict]:
    """Nothing failed yet, and the next big import will."""
    memory = evidence.memory
    if memory is None or memory.free_bytes is None or not memory.cached_bytes or not memory.total_bytes:
        return
    if memory.free_bytes < memory.total_bytes // 32 and memory.cached_bytes > memory.total_bytes // 2:
        yield make(
            "import-no-memory",
            f"the page cache fills the memory ({byte_size(memory.free_bytes)} free): the next big import may fail",
            evidence=[_memory_line(evidence)],
            advice=("before a model is loaded: `sync`, then `echo 1 | sudo tee /proc/sys/vm/drop_caches`",),
            refuse=("drop caches while something is timed",),
            facts={"mem_free_kb": _kb(memory.free_bytes), "failures": 0},
            severity=Level.INFO,
        )


def _kb(value: int | None) -> int | None:
    return None if value is None else value // 1024


def _bytes(evidence: Evidence) -> int | None:
    for item in evidence.of("npu.mem.dma_map", "npu.mem.pages"):
        if (size := bounded_int(item.figures.get("bytes"))) is not None:
            return size
    for line in evidence.output:
        if found := re.search(r"(?i)(?:malloc|alloc|import).*\bsize:? ?=? ?(\d{1,19})\b", line[:4096]):
            return int(found[1])
    return None
