"""Running a program that others wrote against the simulated board."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import NoReturn

from orkbench_tui.errors import NoDeviceError, UsageError
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.boards.catalogue import profile_of
from orkbench_tui.sim.identity import DRIVERS, NEWEST
from orkbench_tui.sim.preload.build import LIBRARY
from orkbench_tui.sim.protocol import PROTOCOL_VERSION

__all__ = ["environment", "replace_this_process"]

_ELF = b"\x7fELF"
_PROGRAM_INTERPRETER = 3


def environment(status: lifecycle.SimStatus, record: Path | None = None) -> dict[str, str]:
    """What the preload library reads, on top of this process's environment.

    Raises:
        NoDeviceError: the library was not built, or the board has no rknpu driver to answer.
    """
    if not LIBRARY.exists():
        raise NoDeviceError(
            "the preload library is missing", why=f"{LIBRARY} does not exist", do="install the package again"
        )
    profile = profile_of(status.board)
    if not status.driver:
        raise NoDeviceError(
            "no rknpu NPU on the simulated board",
            why=f"the mainline {profile.driver_there} driver owns it",
            do="`ork sim stop`, then `ork sim start` for a board with the vendor kernel",
        )
    render = profile.node
    card = f"/dev/dri/card{int(render.removeprefix('/dev/dri/renderD')) - 128}"
    extra = {
        "LD_PRELOAD": ":".join(filter(None, [str(LIBRARY), os.environ.get("LD_PRELOAD", "")])),
        "ORK_SIM_SOCKET": str(status.socket_path),
        "ORK_SIM_PROTOCOL": str(PROTOCOL_VERSION),
        "ORK_SIM_DATE": DRIVERS.get(status.driver, NEWEST).date,
        "ORK_SIM_NODES": f"{card}:{render}",
    }
    if record is not None:
        extra["ORK_SIM_RECORD"] = str(record)
    return {**os.environ, **extra}


def replace_this_process(
    program: str, arguments: list[str], status: lifecycle.SimStatus, record: Path | None = None
) -> NoReturn:
    """Become the program: its exit code, signals, input and output are its own.

    Raises:
        UsageError: nothing to run under that name; it is linked statically, so that nothing can come between
            it and the kernel; or the record cannot be written.
        NoDeviceError: as ``environment``.
    """
    found = shutil.which(program)
    if found is None:
        raise UsageError(f"cannot run {program!r}", why="no such program, or it is not executable")
    if _linked_statically(Path(found)):
        raise UsageError(
            f"cannot run {program!r} on the simulated board",
            why="it is linked statically and would go to the kernel directly",
            do="link it dynamically",
        )
    place = None
    if record is not None:
        place = record.resolve()
        if any(character in str(place) for character in '"\\') or not str(place).isprintable():
            raise UsageError(f"cannot record to {record}", do="use a name without quotes and backslashes")
        try:
            place.write_bytes(b"")
        except OSError as error:
            raise UsageError(f"cannot record to {record}", why=error.strerror or "") from error
    values = environment(status, place)
    os.execve(found, [program, *arguments], values)


def _linked_statically(path: Path) -> bool:
    """An ELF file that names no interpreter; False for scripts and for what cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:4] != _ELF or head[4] != 2:
                return False
            at, size, count = (
                struct.unpack_from("<Q", head, 32)[0],
                *struct.unpack_from("<HH", head, 54),
            )
            file.seek(at)
            table = file.read(size * count)
    except OSError:
        return False
    kinds = (
        [struct.unpack_from("<I", table, size * index)[0] for index in range(len(table) // size)]
        if size
        else []
    )
    return bool(kinds) and _PROGRAM_INTERPRETER not in kinds
