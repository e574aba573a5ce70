"""From evidence to verdicts: the table of rules, what explains what, and the order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from orkbench_tui.ops.diagnosis import (
    rules_access,
    rules_boot_layout,
    rules_clocks,
    rules_domains,
    rules_driver,
    rules_image,
    rules_jobs,
    rules_memory,
    rules_model,
    rules_model_damage,
    rules_patch,
    rules_power,
    rules_processes,
)
from orkbench_tui.ops.diagnosis.classes import rank
from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.plural import counted

__all__ = ["RULES", "diagnose", "is_healthy"]

Rule = Callable[[Evidence], Iterator[Verdict]]

RULES: tuple[Rule, ...] = (
    rules_power.power,
    rules_image.kernel_image,
    rules_boot_layout.boot_layout,
    rules_patch.patch,
    rules_model_damage.corrupt,
    rules_model.tensor_type,
    rules_model.tokenizer,
    rules_model.chat_template,
    rules_driver.missing,
    rules_access.permission,
    rules_driver.too_old,
    rules_memory.oom,
    rules_domains.page_fault,
    rules_domains.switch_timeout,
    rules_domains.unmap_leak,
    rules_domains.iova,
    rules_jobs.storm,
    rules_processes.stuck,
    rules_memory.cma,
    rules_memory.import_failed,
    rules_jobs.timeout,
    rules_processes.wedged_load,
    rules_jobs.interrupted,
    rules_power.opp,
    rules_clocks.thermal,
    rules_clocks.governor,
    rules_processes.busy,
    rules_processes.load_invalid,
    rules_jobs.soft_reset,
    rules_access.debugfs,
)

# A class on the left is not said again beside one on the right, which already accounts for its signs.
_EXPLAINED_BY: dict[str, tuple[str, ...]] = {
    "npu-soft-reset": (
        "npu-job-timeout",
        "reset-storm",
        "domain-switch-timeout",
        "iommu-page-fault",
        "power-domain-failure",
    ),
    "npu-busy-other-process": (
        "domain-switch-timeout",
        "iova-exhausted",
        "reset-storm",
        "import-no-memory",
        "process-stuck-D",
        "iommu-unmap-leak",
        "npu-job-timeout",
        "oom-kill",
        "cma-exhausted",
    ),
    "import-no-memory": (
        "iova-exhausted",
        "iommu-unmap-leak",
        "domain-switch-timeout",
        "cma-exhausted",
        "oom-kill",
        "driver-too-old",
        "driver-missing",
        "permission-denied",
    ),
    "process-stuck-D": ("reset-storm",),
    "npu-load-invalid": ("permission-denied",),
    "driver-missing": ("permission-denied", "power-domain-failure"),
    "governor-not-max": ("thermal-throttle",),
    "opp-missing": ("driver-missing",),
    "gguf-unsupported-type": ("gguf-corrupt",),
    "tokenizer-unknown": ("gguf-corrupt", "gguf-unsupported-type"),
    "chat-template-missing": ("gguf-corrupt",),
    "debugfs-unavailable": ("driver-missing",),
}


def diagnose(evidence: Evidence) -> tuple[Verdict, ...]:
    """At least one verdict, most likely cause first.

    First come causes above LOW in the order of explanation, open causes behind settled ones of the same kind of
    trouble; what is only worth knowing follows.
    """
    found: list[Verdict] = []
    for rule in RULES:
        found += rule(evidence)
    kinds = {verdict.kind for verdict in found if verdict.severity > Level.INFO}
    kept = [
        verdict
        for verdict in _one_each(found)
        if not kinds & set(_EXPLAINED_BY.get(verdict.kind, ())) or verdict.severity is Level.CRITICAL
    ]
    if not any(verdict.severity > Level.INFO for verdict in kept):
        kept.append(_healthy(evidence))
    return tuple(sorted(kept, key=_place))


def is_healthy(verdicts: Iterable[Verdict]) -> bool:
    """Whether nothing above INFO was found."""
    return all(verdict.severity is Level.INFO for verdict in verdicts)


def _one_each(found: list[Verdict]) -> list[Verdict]:
    """One verdict of each class: a settled cause before an open one, then the heaviest, then the first."""
    best: dict[str, Verdict] = {}
    for verdict in found:
        known = best.get(verdict.kind)
        if known is None or (not verdict.open_cause, verdict.severity) > (
            not known.open_cause,
            known.severity,
        ):
            best[verdict.kind] = verdict
    return list(best.values())


def _place(verdict: Verdict) -> tuple[bool, bool, bool, int]:
    healthy = verdict.kind == "healthy"
    return (
        not healthy and verdict.severity is Level.INFO,
        verdict.severity <= Level.LOW and not healthy,
        verdict.open_cause,
        rank(verdict.kind),
    )


def _healthy(evidence: Evidence) -> Verdict:
    looked = [f"{name}: {kind.value}" for name, kind in evidence.kinds]
    loads = evidence.loads
    facts: dict[str, object] = {}
    notes: list[str] = []
    unheld = evidence.holders_given and not evidence.holders and any(core.pct for core in loads or ())
    if loads is not None:
        facts["load"] = {
            "format": "single" if "Core" not in evidence.load_text else "per-core",
            "cores": [core.pct for core in loads],
        }
        notes.append(f"NPU load {', '.join(f'{core.pct} %' for core in loads)}")
    if evidence.driver_version:
        facts["driver_version"] = evidence.driver_version
    if evidence.log_given:
        noise = len(evidence.of("npu.boot.benign", "gpu.noise"))
        facts["log_lines"] = evidence.facts.records
        facts["lower_bound"] = evidence.facts.lower_bound
        notes.append(
            f"{counted(evidence.facts.records, 'log line')}, {noise} of them noise of a healthy start"
            + ("; the log does not reach back to boot" if evidence.facts.lower_bound else "")
        )
        if evidence.boots > 1:
            notes.append(f"{evidence.boots} boots in the log, the newest was judged")
    odd = evidence.said(r"\b(?:error|fail(?:ed|ure)?|cannot|abort)\b|^E ")
    if odd:
        facts["unexplained"] = odd[:4]
        notes += [f"not explained by any rule: {line}" for line in odd[:3]]
    listed = {f"/dev/dri/{e.name.rsplit('/', 1)[-1]}" for e in evidence.entries if e.kind in ("c", "")}
    node = max(sorted(evidence.npu_nodes & listed), default="")
    if evidence.unknown_files:
        notes.append(f"not understood: {', '.join(evidence.unknown_files)}")
    return make(
        "healthy",
        "nothing this program knows as wrong" if odd else "nothing wrong in what was looked at",
        evidence=[*notes, *looked[:6]],
        advice=(
            "the NPU worked within the last second and nobody holds it now: ask again in two seconds; a load that stays "
            "is a job that hangs"
            if unheld
            else "",
            f"this kernel has no /dev/rknpu: the NPU's node is {node}; use a runtime that opens DRM nodes"
            if node and any(e.path == "/dev/rknpu" for e in evidence.errors)
            else "",
            "what was not given is not known: `ork board bundle` collects everything at once",
        ),
        facts=facts,
    )
