"""Plans, outcomes and journals as lines and as documents. Nothing here reads a board."""

from __future__ import annotations

import time
from typing import Any

from orkbench_tui.ops.guard.confirmation import demanded
from orkbench_tui.ops.guard.declaration import Plan, Risk, Step
from orkbench_tui.ops.guard.disk_verbs import ABSENT
from orkbench_tui.ops.guard.engine import Outcome
from orkbench_tui.ops.guard.journal import Run

__all__ = ["outcome_document", "plan_document", "plan_lines", "run_document", "run_line"]

_RISKS = {
    Risk.REVERSIBLE: "can be taken back",
    Risk.INTERRUPTS: "interrupts other programs",
    Risk.UNREACHABLE: "can make the board unreachable",
}
_SAID = {
    "sync": "write all dirty pages to the disks",
    "drop": "write {after} to {subject}",
    "terminate": "send SIGTERM to {subject}",
    "released": "wait until no program holds the NPU, at most {after} s",
    "reset": "soft reset of all cores (ACT_RESET, the open device holds power)",
    "drop-overdue": "have the kernel drop jobs past their time-out, by a small job on each core",
    "power-off": "wait until the NPU is without power, at most {after} s",
    "install": "copy {source} to {subject}, sha256 {short}",
    "tree": "copy the folder {source} to {subject}/",
    "text": "write {subject}",
    "link": "point {subject} to {after}",
    "folder": "make the folder {subject}",
    "dry-run": "run {subject} --dry-run",
    "boots": "look at {subject} through the names the boot loader uses: {after} must come up",
    "reboot": "boot the board anew",
    "unbind": "take the driver off {subject}",
    "bind": "put the driver back on {subject}",
    "group": "make {subject}: {after}",
    "healthy": "small exact matmuls on each core, from an import and in domain 1, in a fresh process; load 0, no new fault",
}


def _step(step: Step) -> str:
    said = _SAID.get(step.verb)
    if step.verb == "healthy" and step.after != "healthy":
        said = "load 0 ({after}): no test job is known for this chip"
    if said is not None:
        removed = step.verb in ("text", "link") and step.after == ABSENT
        source = step.source.rpartition("/")[2]
        text = said.format(subject=step.subject, after=step.after, source=source, short=step.after[:12])
        text = f"remove {step.subject}" if removed else text
    else:
        text = f"{step.subject}: {step.before} -> {step.after}"
    return f"{text} ({step.why})" if step.why else text


def _undo(step: Step) -> str:
    if step.before is None:
        return ""
    if step.before == ABSENT:
        return "remove it"
    if step.verb == "unbind":
        return "put the driver back"
    if step.verb == "text":
        return "write back what it holds now"
    return f"point it to {step.before}" if step.verb == "link" else f"write {step.before} back"


def plan_lines(plan: Plan) -> list[str]:
    """The plan as a person reads it before saying yes."""
    operation = plan.operation
    lines = [f"{operation.title} on {plan.host} ({_RISKS[operation.risk]})", f"  why: {operation.why}"]
    lines += [f"  {name}: {value}" for name, value in plan.facts]
    lines += [
        f"  {check.state:<4} {check.what}" + (f": {check.evidence}" if check.evidence else "")
        for check in plan.checks
    ]
    if not plan.steps:
        return [*lines, "  nothing to do"]
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"  {number}. {_step(step)}" + (f"; undo: {_undo(step)}" if _undo(step) else ""))
    lines.append(f"  verified by: {plan.verified_by or 'reading back each value'}")
    if operation.root:
        lines.append(f"  root: {operation.root}")
    if operation.lasting:
        lines.append(f"  cannot be undone: {operation.lasting}")
    return lines


def plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "operation": plan.operation.name,
        "title": plan.operation.title,
        "risk": plan.operation.risk.value,
        "host": plan.host,
        "facts": dict(plan.facts),
        "checks": [
            {"state": check.state, "what": check.what, "evidence": check.evidence} for check in plan.checks
        ],
        "steps": [
            {**step.document(), "effect": _step(step), "undo": _undo(step) or None} for step in plan.steps
        ],
        "verified_by": plan.verified_by,
        "confirm": demanded(plan),
        "root": plan.operation.root or None,
        "cannot_be_undone": plan.operation.lasting or None,
    }


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "operation": outcome.operation,
        "outcome": outcome.kind,
        "text": outcome.text,
        "journal": outcome.id,
        "steps_done": outcome.steps_done,
    }


def run_line(run: Run) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started))
    words = " ".join(run.words.values())
    what = f"{run.operation} {words}".strip()
    return f"{when}  {run.source:<5}  {what:<24}  {run.outcome or 'interrupted':<12}  {run.who}  {run.text}".rstrip()


def run_document(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "operation": run.operation,
        "words": dict(run.words),
        "host": run.host,
        "board": run.source,
        "boot_id": run.boot_id,
        "who": run.who,
        "started_unix_s": run.started,
        "outcome": run.outcome or None,
        "text": run.text,
        "steps": [
            {
                **step.document(),
                "found": run.intents.get(number),
                "begun": number in run.intents,
                "done": number in run.done,
                "undone": number in run.undone,
            }
            for number, step in enumerate(run.steps)
        ],
    }
