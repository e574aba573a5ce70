"""Going back to what stood before: read from the journal of this boot, never from a list of defaults."""

from __future__ import annotations

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Step
from orkbench_tui.ops.guard.journal import history
from orkbench_tui.ops.guard.verbs import VERBS

__all__ = ["steps_back"]


def steps_back(board: GuardedBoard, operation: str) -> tuple[tuple[Step, ...], Check]:
    """Steps to the oldest recorded value of each subject since the last restore in this boot."""
    first: dict[str, tuple[str, str]] = {}
    for run in history(board.state):
        if (run.operation, run.source, run.boot_id, run.outcome) != (
            operation,
            board.source,
            board.boot_id,
            "done",
        ):
            continue
        if run.words.get("mode") == "restore":
            first.clear()
            continue
        for number in sorted(run.done):
            step, found = run.steps[number], run.intents[number]
            if found is not None and step.before is not None:
                first.setdefault(step.subject, (step.verb, found))
    steps = []
    for subject, (verb, value) in first.items():
        now = board.text(subject)
        if now is not None and not VERBS[verb].same(now, value):
            steps.append(Step(verb, subject, now, value))
    told = f"{len(first)} values recorded in this boot" if first else "nothing was recorded in this boot"
    return tuple(steps), Check("pass", "earlier values are known", told)
