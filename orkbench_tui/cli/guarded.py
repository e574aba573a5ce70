"""From a target to the board of guarded operations, and what all their commands share: plan, ask, run, tell."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.input import typed_line
from orkbench_tui.errors import (
    BusyError,
    ExitCode,
    InconsistentError,
    OrkError,
    RefusedError,
    RolledBackError,
)

if TYPE_CHECKING:
    from orkbench_tui.cli.consent import Consent
    from orkbench_tui.driver.exclusive import DeviceLock
    from orkbench_tui.ops.guard.board import GuardedBoard
    from orkbench_tui.ops.guard.declaration import Operation, Plan
    from orkbench_tui.ops.guard.engine import Outcome
    from orkbench_tui.target import Target

__all__ = ["asker", "carry_out", "guarded", "leftovers_removed", "raise_for"]


@contextlib.contextmanager
def guarded(target_name: str | None, *, resuming: bool = False) -> Iterator[tuple[Target, GuardedBoard]]:
    """The target and its guarded board, for the block. ``resuming`` is that of ``open_target``."""
    from orkbench_tui import locations
    from orkbench_tui.cli.canary import ask_canary
    from orkbench_tui.ops.guard.board import GuardedBoard
    from orkbench_tui.ops.guard.effects import BoardEffects
    from orkbench_tui.ops.npu_orders import drop_overdue_jobs
    from orkbench_tui.settings import Settings
    from orkbench_tui.target import open_target

    with open_target(Settings.load(target=target_name), resuming=resuming) as target:
        if target.notice:
            diagnostics.note(target.notice)

        def drop_overdue() -> None:
            npu = target.open_npu(exclusive=False)
            try:
                drop_overdue_jobs(npu)
            except RefusedError:
                # A chip nobody has programs for: there is no job to push an overdue one out with.
                return
            finally:
                npu.close()

        board = GuardedBoard(
            files=target.files,
            effects=BoardEffects(
                target.writer, target.order_reset, drop_overdue, target.reboot, target.change_membership
            ),
            state=locations.state_dir(),
            lock=target.operations_lock,
            canary=lambda: ask_canary(target.label),
            timeout_ms=target.timeout_ms,
            tell=diagnostics.status if diagnostics.stderr_is_terminal() else lambda text: None,
            disk=target.disk,
            unstartable=target.unstartable,
        )
        with _interruption_told(board):
            yield target, board


def asker() -> Callable[[str], str] | None:
    """How to ask a person; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str) -> str:
        sys.stderr.write(question)
        sys.stderr.flush()
        return typed_line()

    return ask


def carry_out(operation: Operation, words: dict[str, str], consent: Consent) -> Plan:
    """Plan an operation, show it, have it confirmed and run it; the outcome decides how this ends. The plan.

    Raises:
        RefusedError, RolledBackError, InconsistentError, OrkError: see docs/exit-codes.md.
    """
    from orkbench_tui.ops.guard.confirmation import require
    from orkbench_tui.ops.guard.engine import operations_lock, run
    from orkbench_tui.ops.guard.wording import outcome_document, plan_document, plan_lines

    with guarded(consent.target) as (opened, board):
        if consent.dry_run:
            plan = operation.plan(board, words)
            if consent.json:
                output.emit_json(f"board.{operation.name}.plan", plan_document(plan), source=board.source)
            else:
                _emit(plan_lines(plan))
            return plan
        with contextlib.closing(_alone(operation, lambda: operations_lock(board))):
            if operation.holds_npu:
                opened.hold_npu()
            plan = operation.plan(board, words)
            if not consent.json:
                _emit(plan_lines(plan))
            outcome = None
            if not plan.refusals and not _only_waits(plan):
                require(plan, yes=consent.yes, confirm=consent.confirm, ask=asker(), know=consent.i_know)
            if plan.steps or plan.refusals:
                outcome = run(board, plan)
            after = operation.plan(board, words).facts if outcome else plan.facts
        if consent.json:
            document = {
                "plan": plan_document(plan),
                "result": outcome_document(outcome) if outcome else None,
                "facts_after": dict(after),
            }
            output.emit_json(f"board.{operation.name}", document, source=board.source)
        elif outcome is not None and outcome.ok:
            output.emit(outcome.text)
            _emit([f"  {name}: {value}" for name, value in after])
        if outcome is not None:
            raise_for(outcome, operation.failure)
        return plan


def leftovers_removed() -> None:
    """Remove what killed commands left in the temporary folder, and say so on standard error."""
    from orkbench_tui.ops.work_folder import remove_leftovers

    for left in remove_leftovers():
        size = f"{left.size_bytes / 2**20:.1f} MiB"
        if left.removed:
            diagnostics.note(f"removed {left.path} ({size}), left by a command that was killed")
        else:
            diagnostics.warn(f"{left.path} ({size}) was left by a command that was killed; remove it as root")


@contextlib.contextmanager
def _interruption_told(board: GuardedBoard) -> Iterator[None]:
    """A signal between two steps leaves a journal without an end: say what deals with it."""
    from orkbench_tui.ops.guard.journal import readable

    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        runs, _ = readable(board.state)
        if any(run.open and run.source == board.source for run in runs):
            diagnostics.note("stopped in the middle: `ork board resume` finishes it or takes it back")
        raise


def _alone(operation: Operation, lock: Callable[[], DeviceLock]) -> DeviceLock:
    """The operations lock; where a board could be left without a kernel, another operation is a refusal.

    Raises:
        BusyError, RefusedError: another operation runs.
    """
    from orkbench_tui.ops.guard.declaration import Risk

    try:
        return lock()
    except BusyError as error:
        if operation.risk is not Risk.UNREACHABLE:
            raise
        raise RefusedError(error.what, why=error.why, do=error.do) from error


def _only_waits(plan: Plan) -> bool:
    """Whether the plan changes nothing."""
    return all(step.verb in ("released", "power-off", "healthy") for step in plan.steps)


def _emit(lines: list[str]) -> None:
    for line in lines:
        output.emit(line)


def raise_for(outcome: Outcome, failure: ExitCode) -> None:
    """Return for an outcome that is fine.

    Raises:
        RolledBackError, InconsistentError, OrkError: it is not; the last with the exit code ``failure``.
    """
    if outcome.ok:
        return
    journal = f"see `ork board journal` ({outcome.id})"
    if outcome.kind == "rolled back":
        raise RolledBackError(f"{outcome.operation} did not work", why=outcome.text, do=journal)
    if outcome.kind == "inconsistent":
        raise InconsistentError(
            f"{outcome.operation} left the board in between", why=outcome.text, do=journal
        )
    error = OrkError(f"{outcome.operation} did not work", why=outcome.text, do=journal)
    error.exit_code = failure
    raise error
