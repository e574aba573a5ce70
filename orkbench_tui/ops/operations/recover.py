"""``recover``: find out whether the NPU is well, and climb the ladder one rung at a time until it is.

The rungs, least invasive first: 0 look, 1 drain, 1b power off while idle, 2 soft reset, 3 drop caches, 4 let go of
everything. It stops at the first rung after which the board is healthy, never does a rung whose effect it could not
see, and names what is left to a person: reboot and power cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.guard.board import ADDRESSES, IMPORTED, OTHER_DOMAIN, GuardedBoard, is_fault
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.engine import Outcome, run
from orkbench_tui.ops.guard.verbs import health_fault
from orkbench_tui.ops.operations.drain import drain_steps
from orkbench_tui.ops.operations.drop_caches import NODE as DROP_NODE
from orkbench_tui.ops.operations.preflight import (
    health_step,
    holders_line,
    log_readable,
    require_rknpu,
    resets_enabled,
    untestable_chip,
)
from orkbench_tui.ops.operations.reset import MAX_FAILED, failed_resets, reset_steps
from orkbench_tui.ops.operations.stuck import stuck_programs

__all__ = ["LADDER", "MAX_RUNG", "Rung", "Transcript", "ladder_plan", "recover", "recovery_document"]

MAX_RUNG = 4
COOL_DOWN_S = 2.0
HUNG_AFTER_S = 5.0
_POWER = "/sys/kernel/debug/rknpu/power"
_DELAY = "/sys/kernel/debug/rknpu/delayms"
_MEMORY_SIGNS = frozenset({"no_memory", "iova", "cma"})

# Log lines after which resets do not help: their rule and what does.
_BEYOND = {
    "npu.reset.failed": "reboot",
    "npu.iommu.switch_failed": "reboot",
    "npu.iommu.detached": "reboot",
    "npu.mem.still_mapped": "reboot",
    "npu.unbind.busy": "reboot",
    "npu.iommu.wedged": "power cycle",
    "npu.power.panic": "power cycle",
}


@dataclass(frozen=True, slots=True)
class Rung:
    """``risky`` rungs want consent. ``steps`` are () when there is nothing for the rung to do; ``not_now`` says why."""

    number: int
    name: str
    does: str
    risky: bool
    steps: Callable[[GuardedBoard, str], tuple[Step, ...]]
    checks: Callable[[GuardedBoard], tuple[Check, ...]]
    not_now: str


@dataclass(frozen=True, slots=True)
class Tried:
    """One line of the transcript. ``result`` is healthy, "no help", skipped, refused or failed."""

    rung: str
    did: str
    result: str
    text: str
    journal: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was found, what was tried, and how it ended. ``needs`` is "" or what a person must do next.

    ``untested`` is the chip where no test job is known for it, so that healthy means a load of 0 and no more.
    """

    fault: str
    tried: tuple[Tried, ...]
    healthy: bool
    needs: str
    untested: str = ""

    @property
    def changed(self) -> bool:
        return any(item.journal for item in self.tried)

    def lines(self) -> list[str]:
        if not self.fault:
            return [
                "healthy: every core computes, no load without work, no new fault line; nothing was touched"
            ]
        lines = [f"found: {self.fault}"]
        lines += [
            f"rung {item.rung}: {item.did}: {item.result}" + (f", {item.text}" if item.text else "")
            for item in self.tried
        ]
        again = f"its load is 0 again; no test job is known for the {self.untested}, so no more can be said"
        well = again if self.untested else "the board is healthy again"
        lines.append(well if self.healthy else f"not recovered; it needs: {self.needs}")
        return lines


def _power_steps(board: GuardedBoard, fault: str) -> tuple[Step, ...]:
    if board.holders() or board.text(_POWER) is None:
        return ()
    delay = board.text(_DELAY) or ""
    seconds = int(delay) / 1000 if delay.isdigit() and len(delay) < 7 else 3.0
    return (Step("power-off", _POWER, None, f"{seconds + 2:.0f}", "power loss clears the block and its MMU"),)


def _cache_steps(board: GuardedBoard, fault: str) -> tuple[Step, ...]:
    signs = fault.startswith((IMPORTED, ADDRESSES)) or _memory_trouble(board)
    if not signs or not board.files.read(DROP_NODE).ok:
        return ()
    return (Step("sync", "disks", None, "written"), Step("drop", DROP_NODE, None, "3"))


def _memory_trouble(board: GuardedBoard) -> bool:
    return any(item.kind in _MEMORY_SIGNS for item in board.log_after(-1))


def _reset_steps(board: GuardedBoard, fault: str) -> tuple[Step, ...]:
    return () if fault.startswith((IMPORTED, ADDRESSES, OTHER_DOMAIN)) else reset_steps(board)


def _no_checks(board: GuardedBoard) -> tuple[Check, ...]:
    return ()


def _reset_checks(board: GuardedBoard) -> tuple[Check, ...]:
    failed = failed_resets(board)
    held, beyond = holders_line(board), _beyond(board)
    return (
        Check.of(not beyond, "a reset can help", beyond and f"the kernel log says that only a {beyond} does"),
        log_readable(board),
        resets_enabled(board),
        Check.of(not held, "no program holds the NPU", held),
        Check.of(failed < MAX_FAILED, "resets have not failed repeatedly", f"{failed} failed in this boot"),
    )


def _ends_checks(board: GuardedBoard) -> tuple[Check, ...]:
    hung = _hung(board)
    return (Check.of(not hung, "programs that hold the NPU can end", hung and f"{hung} hangs in the driver"),)


def _hung(board: GuardedBoard) -> str:
    """Programs that hold the NPU and wait for a lock nobody gives back; no signal ends them. "" for none.

    Looked at twice: state D is passed through by every program that reads a disk or waits for a job.
    """
    seen = _waiting_for_a_lock(board)
    if not seen:
        return ""
    board.effects.sleep(HUNG_AFTER_S)
    still = _waiting_for_a_lock(board)
    return ", ".join(name for name in seen if name in still)


def _waiting_for_a_lock(board: GuardedBoard) -> list[str]:
    return [
        f"{item.command} (pid {item.pid})"
        for item in stuck_programs(board)
        if item.holds_npu and item.lasting
    ]


LADDER: tuple[Rung, ...] = (
    Rung(1, "1", "end the programs that hold the NPU", True, lambda b, f: drain_steps(b), _ends_checks,
         "no program holds the NPU"),
    Rung(1, "1b", "let the idle NPU lose its power", False, _power_steps, _no_checks,
         "it is held, or its power cannot be read"),
    Rung(2, "2", "soft reset", True, _reset_steps, _reset_checks,
         "every core computes, and a reset frees neither memory nor domains"),
    Rung(3, "3", "drop the page cache", False, _cache_steps, _no_checks, "neither the tests nor the log show memory trouble"),
    Rung(4, "4", "end what came back to the NPU since", True, lambda b, f: drain_steps(b), _ends_checks,
         "no program holds the NPU"),
)  # fmt: skip


def _plan_of(board: GuardedBoard, rung: Rung, fault: str) -> Plan:
    steps = rung.steps(board, fault)
    return Plan(
        RECOVER,
        board.host,
        facts=(("fault", fault),),
        checks=rung.checks(board) if steps else (),
        steps=(*steps, health_step(board)) if steps else (),
        words={"rung": rung.name},
    )


def _beyond(board: GuardedBoard) -> str:
    """What a log line of this boot says only helps now; "" when none does."""
    rules = [item.rule.id for item in board.log_after(-1) if item.rule is not None]
    said = [_BEYOND[rule] for rule in rules if rule in _BEYOND]
    return "power cycle" if "power cycle" in said else "reboot" if said else ""


def recover(
    board: GuardedBoard,
    *,
    max_rung: int,
    dry_run: bool,
    consent: Callable[[Plan], str],
) -> Transcript:
    """Climb until healthy. ``consent`` is asked before a risky rung: "" or why not.

    Hold the operations lock and the NPU's lock around it.

    Raises:
        NoDeviceError, DeniedError, RefusedError: nobody can tell whether the board is well. Nothing was changed.
    """
    require_rknpu(board)
    try:
        fault = diagnosis(board)
    except RefusedError as error:
        raise _untold(board, error) from error
    if not fault:
        return Transcript("", (), True, "")
    tried: list[Tried] = []
    for rung in LADDER:
        if rung.number > max_rung:
            break
        plan = _plan_of(board, rung, fault)
        item = _refused(plan, rung) or (
            _shown(plan, rung) if dry_run else _climbed(board, plan, rung, consent)
        )
        tried.append(item)
        if item.result == "healthy":
            return Transcript(fault, tuple(tried), True, "", untestable_chip(board))
        if item.result == "inconsistent":
            break
        if item.journal:
            board.effects.sleep(COOL_DOWN_S)
    return Transcript(fault, tuple(tried), False, _needs(board, tried, max_rung))


def diagnosis(board: GuardedBoard) -> str:
    """ "" for a healthy board, else the first sign that it is not; programs at work are no sign."""
    held = holders_line(board)
    if held:
        loads = board.loads()
        recent = [item.record.message for item in board.log_after(-1) if is_fault(item)]
        return (
            f"the NPU is held by {held}, so its cores cannot be tried"
            + (f"; load {', '.join(f'{load} %' for load in loads)}" if loads else "")
            + (f"; last fault: {recent[-1]}" if recent else "")
        )
    return health_fault(board)


def _untold(board: GuardedBoard, error: RefusedError) -> RefusedError:
    """The refusal of a test job, with what can be seen without one and what is left to do."""
    chip = untestable_chip(board)
    if not chip:
        return error
    loads = ", ".join(f"{load} %" for load in board.loads() or ()) or "unknown"
    faults = [item.record.message for item in board.log_after(-1) if is_fault(item)]
    return RefusedError(
        "whether the NPU is well cannot be tried, so nothing was done",
        why=f"nobody has published register programs for the {chip}, so no test job runs on it; "
        f"what can be seen: load {loads}, {f'last fault {faults[-1]!r}' if faults else 'no fault in the kernel log'}",
        do="`ork board diagnose` judges the log; if jobs fail all the same, `ork board reset` resets it without a test job",
    )


def _refused(plan: Plan, rung: Rung) -> Tried | None:
    if not plan.steps:
        return Tried(rung.name, rung.does, "skipped", rung.not_now)
    if plan.refusals:
        return Tried(rung.name, rung.does, "refused", plan.refusal)
    return None


def _shown(plan: Plan, rung: Rung) -> Tried:
    asked = "would be asked for first" if rung.risky else "would be done"
    return Tried(rung.name, rung.does, "planned", asked)


def _climbed(board: GuardedBoard, plan: Plan, rung: Rung, consent: Callable[[Plan], str]) -> Tried:
    if rung.risky and (why := consent(plan)):
        return Tried(rung.name, rung.does, "refused", why)
    board.tell(f"rung {rung.name}: {rung.does}")
    outcome: Outcome = run(board, plan)
    board.tell("")
    result = {"done": "healthy", "failed": "no help"}.get(outcome.kind, outcome.kind)
    return Tried(rung.name, rung.does, result, "" if outcome.ok else outcome.text, outcome.id)


def _needs(board: GuardedBoard, tried: Iterable[Tried], max_rung: int) -> str:
    said = _beyond(board)
    if said:
        return f"a {said}: the kernel log says that nothing less helps"
    if hung := _hung(board):
        return f"a reboot: {hung} hangs in the driver, and no signal ends it"
    refused = [item for item in tried if item.result == "refused"]
    if any(item.result == "planned" for item in tried):
        return "the rungs above, without --dry-run"
    if refused:
        return f"rung {refused[0].rung} ({refused[0].did}): {refused[0].text}"
    if max_rung < MAX_RUNG:
        return f"higher rungs: run again with --max-rung {MAX_RUNG}; after them a reboot, then a power cycle"
    return "a reboot; when the fault is there after it, a power cycle. This program does neither"


def recovery_document(transcript: Transcript) -> dict[str, Any]:
    return {
        "healthy": transcript.healthy,
        "changed": transcript.changed,
        "fault": transcript.fault or None,
        "rungs": [asdict(item) for item in transcript.tried],
        "needs": transcript.needs or None,
        "untested": transcript.untested or None,
    }


def ladder_plan(board: GuardedBoard, words: Words) -> Plan:
    """The plan of the first rung that has something to do. Raises NoDeviceError without an rknpu driver."""
    require_rknpu(board)
    fault = diagnosis(board)
    plans = [_plan_of(board, rung, fault) for rung in LADDER] if fault else []
    return next((plan for plan in plans if plan.steps), Plan(RECOVER, board.host, words=words))


RECOVER = Operation(
    name="recover",
    title="recover the NPU",
    risk=Risk.INTERRUPTS,
    why="a wedged NPU is brought back with the least that helps",
    root="dropping caches; debugfs, for rungs that look there",
    lasting="programs that were asked to end, jobs that were running, the page cache",
    plan=ladder_plan,
    holds_npu=True,
)
