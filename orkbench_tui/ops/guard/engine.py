"""Carry out a plan step by step, and finish or take back what was interrupted."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.exclusive import DeviceLock
from orkbench_tui.errors import DeniedError, OrkError, RefusedError
from orkbench_tui.ops.guard import journal as journals
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Plan, Step
from orkbench_tui.ops.guard.journal import Journal, Run
from orkbench_tui.ops.guard.verbs import VERBS

__all__ = ["Outcome", "operations_lock", "resume", "run"]

DONE, ROLLED_BACK, FAILED, INCONSISTENT, GONE = "done", "rolled back", "failed", "inconsistent", "gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``kind`` is done, "rolled back", failed (nothing to take back), inconsistent or "gone" (with a reboot)."""

    kind: str
    text: str
    id: str
    operation: str
    steps_done: int

    @property
    def ok(self) -> bool:
        return self.kind in (DONE, GONE)


def operations_lock(board: GuardedBoard) -> DeviceLock:
    """Held while an operation runs or is resumed, so that two exclude each other.

    Raises:
        BusyError: another one runs; the message names it.
    """
    return DeviceLock(board.lock, "the guard of operations")


def run(board: GuardedBoard, plan: Plan) -> Outcome:
    """Carry out a confirmed plan; hold the operations lock around planning and this.

    Raises:
        RefusedError: a check failed, or an earlier operation was interrupted. Nothing was changed.
    """
    if plan.refusals:
        raise RefusedError(plan.operation.title, why=plan.refusal, do="nothing was changed")
    open_runs = journals.interrupted(board.state, board.source)
    if open_runs:
        raise RefusedError(
            f"{open_runs[0].operation} was interrupted",
            why=f"journal {open_runs[0].id} has no end",
            do="run `ork board resume` first; nothing was changed",
        )
    journal = journals.begin(board.state, board.effects, plan, source=board.source, boot_id=board.boot_id)
    found: dict[int, str | None] = {}
    for number, step in enumerate(plan.steps):
        fault = _one(board, journal, number, step, found)
        if fault:
            return _take_back(board, journal, plan.operation.name, plan.steps, found, fault)
    text = f"{plan.operation.title}: done" + (f", {plan.verified_by}" if plan.verified_by else "")
    return _ended(journal, plan.operation.name, DONE, text, len(found))


def _one(board: GuardedBoard, journal: Journal, number: int, step: Step, found: dict[int, str | None]) -> str:
    """Do one step; "" or why it failed. ``found`` gets what stood there before."""
    verb = VERBS[step.verb]
    before = verb.observe(board, step)
    if step.before is not None and (before is None or not verb.same(before, step.before)):
        return f"{step.subject} reads {before!r}, the plan saw {step.before!r}"
    journal.write("intent", step=number, found=before)
    found[number] = before
    try:
        verb.act(board, step)
        fault = verb.check(board, step, before)
    except (OSError, OrkError) as error:
        fault = error.line() if isinstance(error, OrkError) else f"{step.subject}: {error.strerror or error}"
        if isinstance(error, DeniedError):
            fault += " (no permission)"
    if fault:
        journal.write("failed", step=number, why=fault)
    else:
        journal.write("done", step=number)
    return fault


def _take_back(
    board: GuardedBoard,
    journal: Journal,
    operation: str,
    steps: tuple[Step, ...],
    found: dict[int, str | None],
    fault: str,
) -> Outcome:
    """Undo in reverse what was begun, and say how that ended."""
    left: list[str] = []
    undone = 0
    for number in sorted(found, reverse=True):
        step = steps[number]
        verb, before = VERBS[step.verb], found[number]
        if verb.undo is None or before is None:
            continue
        problem = _undo(board, journal, number, step, before)
        undone += not problem
        left += [problem] if problem else []
    if left:
        text = f"{fault}; not taken back: {'; '.join(left)}"
        return _ended(journal, operation, INCONSISTENT, text, len(found))
    if undone:
        return _ended(journal, operation, ROLLED_BACK, f"{fault}; taken back, the board is as before", 0)
    return _ended(journal, operation, FAILED, fault, len(found))


def _undo(board: GuardedBoard, journal: Journal, number: int, step: Step, before: str) -> str:
    """Put one value back; "" or why it is not back. A value somebody else has set since is theirs."""
    verb = VERBS[step.verb]
    try:
        if verb.tidy is not None:
            verb.tidy(board, step)
        now = verb.observe(board, step)
    except (OSError, OrkError) as error:
        return f"{step.subject}: {error}"
    if now is not None and verb.same(now, before):
        journal.write("undone", step=number)
        return ""
    if now is None or not verb.same(now, step.after):
        return f"{step.subject} reads {now!r}, which is neither {before!r} nor {step.after!r}"
    journal.write("undo", step=number)
    try:
        assert verb.undo is not None
        verb.undo(board, step, before)
    except (OSError, OrkError) as error:
        return f"{step.subject}: {error}"
    now = verb.observe(board, step)
    if now is None or not verb.same(now, before):
        return f"{step.subject} reads {now!r}, not {before!r}"
    journal.write("undone", step=number)
    return ""


def _ended(journal: Journal, operation: str, kind: str, text: str, steps: int) -> Outcome:
    journal.write("end", outcome=kind, text=text)
    return Outcome(kind, text, journal.path.stem, operation, steps)


def resume(board: GuardedBoard) -> list[Outcome]:
    """Bring every interrupted run on this board to an end; an empty list when there is none.

    What was complete is closed as done, all else is taken back. Values that a reboot has reset are left alone; what
    is on the disk is taken back after a reboot too.

    Raises:
        RefusedError: a journal is of a newer version. Nothing was changed.
    """
    return [_resumed(board, run) for run in journals.interrupted(board.state, board.source)]


def _resumed(board: GuardedBoard, run: Run) -> Outcome:
    journal = Journal(run.path, board.effects)
    if run.torn:
        # The torn line was never finished, so its effect never began; a line end makes it one of its own.
        _cut(run)
    lasting = [number for number, step in enumerate(run.steps) if VERBS[step.verb].lasts]
    rebooted = run.boot_id != board.boot_id
    if rebooted and not lasting:
        text = "the board has rebooted since, nothing of it is left"
        return _ended(journal, run.operation, GONE, text, 0)
    if len(run.done) == len(run.steps) and not run.undone:
        return _ended(journal, run.operation, DONE, "was complete", len(run.done))
    found = {number: before for number, before in run.intents.items() if number not in run.undone}
    if rebooted:
        found = {number: before for number, before in found.items() if number in lasting}
    if not found and not run.undone:
        return _ended(journal, run.operation, FAILED, "interrupted before its first step", 0)
    return _take_back(board, journal, run.operation, run.steps, found, "interrupted")


def _cut(run: Run) -> None:
    """Remove the unfinished last line of a journal."""
    data = run.path.read_bytes()
    with run.path.open("r+b") as file:
        file.truncate(data.rfind(b"\n") + 1)
