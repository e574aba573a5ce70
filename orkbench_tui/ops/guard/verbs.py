"""The kinds of step there are: how each is done, what it finds before, how its effect is checked and undone.

A verb whose ``undo`` is None has no state to go back to; its step says ``before`` None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.guard import disk_verbs as disk
from orkbench_tui.ops.guard.board import GuardedBoard, is_fault
from orkbench_tui.ops.guard.declaration import Step
from orkbench_tui.ops.guard.groups import members, parse_groups
from orkbench_tui.ops.kernel.facts import following_boot
from orkbench_tui.ops.telemetry.frequency import parse_cpu_list

__all__ = ["DRIVER_FOLDER", "VERBS", "Verb"]

DRIVER_FOLDER = "/sys/bus/platform/drivers/RKNPU"

_LOOK_EVERY_S = 0.5
_SETTLE_TRIES = 5
_IDLE_PCT = 5
_BIND_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Verb:
    """``observe`` gives the value found before (journalled), ``check`` "" or what is wrong after.

    ``same`` tells whether two values of the subject mean the same; ``lasts``: the effect outlives a reboot;
    ``tidy`` removes what an interrupted ``act`` or ``undo`` left beside the subject.
    """

    observe: Callable[[GuardedBoard, Step], str | None]
    act: Callable[[GuardedBoard, Step], None]
    check: Callable[[GuardedBoard, Step, str | None], str]
    undo: Callable[[GuardedBoard, Step, str], None] | None = None
    same: Callable[[str, str], bool] = str.__eq__
    lasts: bool = False
    tidy: Callable[[GuardedBoard, Step], None] | None = None


def _nothing(board: GuardedBoard, step: Step) -> None:
    return None


def _fine(board: GuardedBoard, step: Step, found: str | None) -> str:
    return ""


# -- write: a node that can be read back -----------------------------------------------------------


def _value(board: GuardedBoard, step: Step) -> str | None:
    return board.text(step.subject)


def _write(board: GuardedBoard, step: Step) -> None:
    board.effects.write(step.subject, f"{step.after}\n".encode())


def _reads_back(board: GuardedBoard, step: Step, found: str | None) -> str:
    value = board.text(step.subject)
    return "" if value == step.after else f"{step.subject} reads {value!r}, not {step.after!r}"


def _write_back(board: GuardedBoard, step: Step, found: str) -> None:
    board.effects.write(step.subject, f"{found}\n".encode())


# -- irq: the list may come back in another form ---------------------------------------------------


def _same_cpus(left: str, right: str) -> bool:
    return parse_cpu_list(left) == parse_cpu_list(right)


def _irq_moved(board: GuardedBoard, step: Step, found: str | None) -> str:
    value = board.text(step.subject)
    if value is None or not _same_cpus(value, step.after):
        return f"{step.subject} reads {value!r}, not {step.after!r}"
    effective = board.text(step.subject.replace("smp_affinity_list", "effective_affinity_list"))
    if effective is not None and not set(parse_cpu_list(effective)) <= set(parse_cpu_list(step.after)):
        return f"the interrupt goes to CPU {effective}, not {step.after}"
    return ""


# -- page cache ------------------------------------------------------------------------------------


def _sync(board: GuardedBoard, step: Step) -> None:
    board.effects.sync()


# -- programs --------------------------------------------------------------------------------------


def process_start(board: GuardedBoard, pid: str) -> str:
    """When a process began, in clock ticks since boot; "" when it is gone."""
    stat = board.text(f"/proc/{pid}/stat") or ""
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _terminate(board: GuardedBoard, step: Step) -> None:
    """``subject`` is the pid, ``after`` the time it began: the number may belong to another by now."""
    if process_start(board, step.subject) == step.after:
        try:
            board.effects.terminate(int(step.subject))
        except ProcessLookupError:
            return


def _wait_released(board: GuardedBoard, step: Step) -> None:
    """``after`` is how long to wait, in seconds."""
    left = float(step.after)
    while left > 0 and (holders := board.holders()):
        names = ", ".join(f"{holder.command} ({holder.pid})" for holder in holders)
        board.tell(f"waiting for {names}: {left:.0f} s left")
        board.effects.sleep(_LOOK_EVERY_S)
        left -= _LOOK_EVERY_S
    board.tell("")


def _released(board: GuardedBoard, step: Step, found: str | None) -> str:
    holders = board.holders()
    if not holders:
        return ""
    return "still open in " + ", ".join(f"{holder.command} (pid {holder.pid})" for holder in holders)


# -- the NPU ---------------------------------------------------------------------------------------


def _log_end(board: GuardedBoard, step: Step) -> str:
    return str(board.log_end())


def _reset(board: GuardedBoard, step: Step) -> None:
    board.effects.reset_npu()


def _was_reset(board: GuardedBoard, step: Step, found: str | None) -> str:
    new = board.log_after(int(found or -1))
    if any(item.record.message.endswith("bypass soft reset") for item in new):
        return "the kernel says resets are bypassed"
    faults = [item.record.message for item in new if is_fault(item)]
    if faults:
        return faults[0]
    return "" if any(item.kind == "reset" for item in new) else "no new soft-reset line in the kernel log"


def _drop_overdue(board: GuardedBoard, step: Step) -> None:
    board.effects.drop_overdue_jobs()


def _wait_power_off(board: GuardedBoard, step: Step) -> None:
    """``after`` is how long to wait, in seconds."""
    left = float(step.after)
    while left > 0 and board.text(step.subject) != "off":
        board.tell(f"waiting for the NPU to power off: {left:.0f} s left")
        board.effects.sleep(_LOOK_EVERY_S)
        left -= _LOOK_EVERY_S
    board.tell("")


def _is_off(board: GuardedBoard, step: Step, found: str | None) -> str:
    power = board.text(step.subject)
    return "" if power == "off" else f"{step.subject} reads {power!r}"


def _load_without_work(board: GuardedBoard) -> str:
    """What the load says, "" for nothing twice in a row; it is the share of the last closed second, so it gets time."""
    quiet = 0
    for _ in range(2 * _SETTLE_TRIES):
        loads = board.loads()
        quiet = quiet + 1 if loads is None or max(loads) <= _IDLE_PCT else 0
        if quiet == 2:
            return ""
        board.effects.sleep(1.1)
    return f"load stays at {', '.join(f'{load} %' for load in board.loads() or ())} with no work"


def health_fault(board: GuardedBoard) -> str:
    """Why the board is not healthy: load without work, a wrong or missing answer, a new fault in the log; else "".

    Raises:
        NoDriverError, DeniedError, RefusedError: nothing can be computed here, so nobody can tell.
    """
    if busy := _load_without_work(board):
        return busy
    marker = board.log_end()
    answers = board.canary()
    wrong = [f"{answer.what}: {answer.fault}" for answer in answers if answer.fault]
    if wrong:
        return "; ".join(wrong)
    if busy := _load_without_work(board):
        return busy
    new = board.log_after(marker)
    faults = [item.record.message for item in new if is_fault(item)]
    if faults:
        return faults[0]
    unasked = sum(item.kind == "reset" for item in new) - sum(answer.resets for answer in answers)
    return f"{unasked} soft reset(s) during the test that it did not ask for" if unasked > 0 else ""


def _healthy(board: GuardedBoard, step: Step, found: str | None) -> str:
    try:
        return health_fault(board)
    except RefusedError:
        # A chip nobody has programs for: its load, looked at before, is all there is to see.
        return ""


# -- the boot disk ---------------------------------------------------------------------------------


def _as_planned(board: GuardedBoard, step: Step, found: str | None) -> str:
    """What stands there now is read again from the disk."""
    value = VERBS[step.verb].observe(board, step)
    return "" if value == step.after else f"{step.subject} does not hold what was written to it"


# -- the next boot ---------------------------------------------------------------------------------


def _boots(board: GuardedBoard, step: Step, found: str | None) -> str:
    """``after`` is the release that must come up next."""
    choice = following_boot(board)
    if choice.faults:
        return choice.faults[0]
    return "" if choice.release == step.after else f"{choice.release} would come up, not {step.after}"


def _reboot(board: GuardedBoard, step: Step) -> None:
    board.effects.reboot()


# -- the driver on its device ----------------------------------------------------------------------


def _bound(board: GuardedBoard, step: Step) -> str:
    """``subject`` is the device's place in the driver's folder."""
    folder, _, device = step.subject.rpartition("/")
    return "bound" if device in board.files.list(folder) else "unbound"


def _unbind(board: GuardedBoard, step: Step) -> None:
    folder, _, device = step.subject.rpartition("/")
    board.effects.write(f"{folder}/unbind", f"{device}\n".encode())


def _bind(board: GuardedBoard, step: Step, found: str | None = None) -> None:
    folder, _, device = step.subject.rpartition("/")
    board.effects.sleep(_BIND_AFTER_S)
    board.effects.write(f"{folder}/bind", f"{device}\n".encode())


def _as_bound(board: GuardedBoard, step: Step, found: str | None) -> str:
    now = _bound(board, step)
    return "" if now == step.after else f"the driver is {now}"


# -- groups ----------------------------------------------------------------------------------------


def _membership(board: GuardedBoard, step: Step) -> str | None:
    """``subject`` is a user and a group."""
    if board.disk is None:
        return None
    user, _, group = step.subject.partition(" ")
    return members(
        parse_groups(board.disk.read("/etc/group", 1 << 20).decode("utf-8", "replace")), user, group
    )


def _join(board: GuardedBoard, step: Step, found: str | None = None) -> None:
    user, _, group = step.subject.partition(" ")
    board.effects.set_membership(user, group, (step.after if found is None else found) == "member")


VERBS: dict[str, Verb] = {
    "write": Verb(_value, _write, _reads_back, _write_back),
    "irq": Verb(_value, _write, _irq_moved, _write_back, _same_cpus),
    "sync": Verb(_nothing, _sync, _fine),
    "drop": Verb(_nothing, _write, _reads_back),
    "terminate": Verb(_nothing, _terminate, _fine),
    "released": Verb(_nothing, _wait_released, _released),
    "reset": Verb(_log_end, _reset, _was_reset),
    "drop-overdue": Verb(_nothing, _drop_overdue, _fine),
    "power-off": Verb(_nothing, _wait_power_off, _is_off),
    "healthy": Verb(_nothing, _nothing, _healthy),
    "install": Verb(
        disk.observe_file, disk.install_file, _as_planned, disk.take_back_file, lasts=True, tidy=disk.tidy
    ),
    "tree": Verb(
        disk.observe_tree, disk.install_tree, _as_planned, disk.take_back_tree, lasts=True, tidy=disk.tidy
    ),
    "text": Verb(disk.observe_text, disk.set_text, _as_planned, disk.set_text, lasts=True, tidy=disk.tidy),
    "link": Verb(disk.observe_link, disk.set_link, _as_planned, disk.set_link, lasts=True, tidy=disk.tidy),
    "folder": Verb(disk.observe_folder, disk.set_folder, _as_planned, disk.take_back_folder, lasts=True),
    "dry-run": Verb(_nothing, disk.run_dry, _fine),
    "boots": Verb(_nothing, _nothing, _boots),
    "reboot": Verb(_nothing, _reboot, _fine),
    "unbind": Verb(_bound, _unbind, _as_bound, _bind),
    "bind": Verb(_nothing, _bind, _as_bound),
    "group": Verb(_membership, _join, _as_planned, _join, lasts=True),
}
