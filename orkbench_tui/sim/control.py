"""Orders to a running simulated board: faults and restarts."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import NoDeviceError, RefusedError, UsageError
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.boards.catalogue import BOARDS
from orkbench_tui.sim.boot import rehearsal
from orkbench_tui.sim.boot.rehearsal import PATCHES
from orkbench_tui.sim.client import call_once
from orkbench_tui.sim.faults.active import parse_fault
from orkbench_tui.sim.faults.catalogue import CATALOGUE, Event, described
from orkbench_tui.sim.program_run import replace_this_process
from orkbench_tui.sim.protocol import Operation

if TYPE_CHECKING:
    from orkbench_tui.sim.record.replay import Replayed

__all__ = [
    "BOARDS",
    "clear_fault",
    "list_faults",
    "make_rehearsal",
    "power_cycle",
    "reboot",
    "replace_this_process",
    "replay",
    "set_fault",
]


def _ask(operation: Operation, payload: str = "") -> dict[str, Any]:
    try:
        return call_once(lifecycle.socket_path(), operation, payload.encode())
    except OSError as error:
        raise NoDeviceError(
            "no simulated board runs",
            why="" if error.errno in (errno.ENOENT, errno.ECONNREFUSED) else str(error.strerror or error),
            do="start it with `ork sim start`",
        ) from error


def list_faults() -> list[dict[str, Any]]:
    """Every fault with whether it is set; none is set where no board runs."""
    if lifecycle.status() is None:
        return [described(fault, None) for fault in CATALOGUE.values()]
    return list(_ask(Operation.FAULT_LIST)["faults"])


def _known(text: str) -> str:
    """The fault's name. Raises UsageError."""
    name, _, value = text.partition("=")
    try:
        fault, _ = parse_fault(text)
    except KeyError:
        raise UsageError(f"no fault {name!r}", do="`ork sim fault list` names them") from None
    except ValueError:
        raise _no_variant(name, value, CATALOGUE[name].values) from None
    return fault.name


def _no_variant(name: str, value: str, has: Iterable[str], where: str = "") -> UsageError:
    return UsageError(f"{name} has no variant {value!r}{where}", why=f"it has: {', '.join(has) or 'none'}")


def _possible(text: str, rows: list[dict[str, Any]]) -> None:
    """Whether the running board can have the fault so.

    Raises:
        RefusedError: it has no part for it.
        UsageError: it has it in no such variant.
    """
    name, _, value = text.partition("=")
    row = next(row for row in rows if row["name"] == name)
    if row["why_not"]:
        here = ", ".join(row["name"] for row in rows if not row["why_not"])
        raise RefusedError(
            f"{name} changes nothing on this board",
            why=row["why_not"],
            do=f"this one knows {here}; `ork sim stop`, then `ork sim start --board NAME` for another",
        )
    if value and value not in row["values"]:
        raise _no_variant(name, value, row["values"], " on this board")


def set_fault(text: str) -> dict[str, Any]:
    """Set ``NAME`` or ``NAME=VALUE`` on the running board; its row.

    Raises:
        UsageError: no such fault or variant.
        RefusedError: the board has no part for it, so that nothing would change.
        NoDeviceError: no board runs.
    """
    name = _known(text)
    _possible(text, _ask(Operation.FAULT_LIST)["faults"])
    rows = _ask(Operation.FAULT_SET, text)["faults"]
    return next(dict(row) for row in rows if row["name"] == name)


def clear_fault(name: str) -> dict[str, Any]:
    """Undo a fault; its row.

    Raises:
        RefusedError: only an event ends it.
        UsageError, NoDeviceError: as ``set_fault``.
    """
    name = _known(name)
    fault = CATALOGUE[name]
    if not fault.clearable and any(row["name"] == name and row["set"] for row in list_faults()):
        commands = {Event.REBOOT: "`ork sim reboot`", Event.POWER_CYCLE: "`ork sim power-cycle`"}
        raise RefusedError(
            f"{name} cannot be cleared",
            why="on a board nothing a program does ends it",
            do=" or ".join(commands[event] for event in fault.ended_by if event in commands),
        )
    rows = _ask(Operation.FAULT_CLEAR, name)["faults"]
    return next(dict(row) for row in rows if row["name"] == name)


def reboot() -> lifecycle.SimStatus:
    """Boot anew; programs that use the NPU lose it. Raises NoDeviceError."""
    return _restart(Event.REBOOT)


def power_cycle() -> lifecycle.SimStatus:
    """Cut the power and give it again. Raises NoDeviceError."""
    return _restart(Event.POWER_CYCLE)


def replay(path: Path) -> Replayed:
    """Run a record again on a board of its own. Raises as ``record.replay.replay``."""
    from orkbench_tui.sim.record.replay import replay as play

    return play(path)


def make_rehearsal(folder: Path, patches: tuple[str, ...]) -> str:
    """Make a kernel for the running board (else the default one) to rehearse with; its release.

    Raises:
        UsageError: no such patch, or the folder is there already.
    """
    running = lifecycle.status()
    unknown = [name for name in patches if name not in PATCHES]
    if unknown:
        raise UsageError(f"no patch {unknown[0]!r} to rehearse", do=f"use some of {', '.join(PATCHES)}")
    try:
        return rehearsal.make_rehearsal(folder, running.board if running else BOARDS[0], patches)
    except FileExistsError:
        raise UsageError(f"{folder} is there already", do="name a new folder") from None
    except OSError as error:
        raise UsageError(f"cannot make {folder}", why=error.strerror or str(error)) from error


def _restart(event: Event) -> lifecycle.SimStatus:
    _ask(Operation.RESTART, event.value)
    running = lifecycle.status()
    if running is None:
        raise NoDeviceError("the simulated board is gone", do="start it with `ork sim start`")
    return running
