"""The simulated board's life as a process: start it when needed, find it, stop it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.errors import BusyError, NoDeviceError, UsageError
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.client import call_once
from orkbench_tui.sim.clock import PACES
from orkbench_tui.sim.protocol import PROTOCOL_VERSION, Operation
from orkbench_tui.version import VERSION

__all__ = [
    "BoardVariant",
    "SimStatus",
    "folder",
    "log_path",
    "set_pace",
    "socket_path",
    "start",
    "status",
    "stop",
]

START_TIMEOUT_S = 15.0
SETTLE_TIMEOUT_S = 3.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class SimStatus:
    """A running simulated board. ``clients`` are processes; ``wedged`` is empty when it is well.

    ``driver`` is "" where no rknpu driver is; ``boots`` counts starts and restarts; ``faults`` maps those that
    are set to their variant.
    """

    pid: int
    version: str
    protocol: int
    uptime_s: float
    pace: str
    idle_s: float
    clients: int
    open_files: int
    jobs_done: int
    jobs_failed: int
    resets: int
    npu_bytes: int
    wedged: str
    sram: bool
    patch_import_domain: bool
    leaked_mappings: int
    board: str
    driver: str
    boots: int
    faults: dict[str, str]
    socket_path: Path

    @property
    def current(self) -> bool:
        """Whether it is of this package's version."""
        return self.protocol == PROTOCOL_VERSION and self.version == VERSION


def folder() -> Path:
    return locations.runtime_dir() / "sim"


def socket_path() -> Path:
    return folder() / "board.sock"


def log_path() -> Path:
    return folder() / "board.log"


def _make_folder() -> Path:
    """The folder, owned by us and closed to others.

    Raises:
        NoDeviceError: it cannot be made, or belongs to somebody else.
    """
    place = folder()
    try:
        for part in (place.parent, place):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
            if part.lstat().st_uid != os.getuid() or part.stat().st_uid != os.getuid():
                raise NoDeviceError("cannot start the simulated board", why=f"{part} belongs to another user")
        place.chmod(0o700)
    except OSError as error:
        raise NoDeviceError("cannot start the simulated board", why=f"{place}: {error.strerror}") from error
    return place


@contextlib.contextmanager
def _start_lock() -> Iterator[None]:
    """One starter at a time, across processes."""
    with (_make_folder() / "start.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def status() -> SimStatus | None:
    """The running board, or None. A socket left by a killed one does not count.

    Raises:
        NoDeviceError: its process exists and does not answer.
    """
    return _settled()


def _settled() -> SimStatus | None:
    """The board once it has come up or gone: a starting or ending one is silent for a moment."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while (running := _answer()) is None and _lives():
        if time.monotonic() >= deadline:
            raise _silent()
        time.sleep(_POLL_S)
    return running


def _silent() -> NoDeviceError:
    pid = _pid_path().read_text(errors="replace").strip() or "unknown"
    return NoDeviceError(
        "the simulated board does not answer",
        why=f"its process (pid {pid}) exists: stopped, or its socket {socket_path()} is gone",
        do="`ork sim stop` ends it, the next command starts a new one",
    )


def _answer() -> SimStatus | None:
    try:
        answer = call_once(socket_path(), Operation.STATUS)
    except OSError:
        return None
    return SimStatus(
        pid=int(answer.get("pid", 0)),
        version=str(answer.get("version", "unknown")),
        protocol=int(answer.get("protocol", 0)),
        uptime_s=float(answer.get("uptime_s", 0.0)),
        pace=str(answer.get("pace", "")),
        idle_s=float(answer.get("idle_s", 0.0)),
        clients=int(answer.get("clients", 0)),
        open_files=int(answer.get("open_files", 0)),
        jobs_done=int(answer.get("jobs_done", 0)),
        jobs_failed=int(answer.get("jobs_failed", 0)),
        resets=int(answer.get("resets", 0)),
        npu_bytes=int(answer.get("npu_bytes", 0)),
        wedged=str(answer.get("wedged", "")),
        sram=bool(answer.get("sram")),
        patch_import_domain=bool(answer.get("patch_import_domain")),
        leaked_mappings=int(answer.get("leaked_mappings", 0)),
        board=str(answer.get("board", "rock-5b")),
        driver=str(answer.get("driver", "")),
        boots=int(answer.get("boots", 1)),
        faults=dict(answer.get("faults", {})),
        socket_path=socket_path(),
    )


def start(pace: str = "fast", idle_s: float = 300.0, variant: BoardVariant = STOCK) -> SimStatus:
    """A running board of this version: the one there is, with its own pace and variant, or a new one.

    Raises:
        NoDeviceError: it does not come up.
        BusyError: one of another version runs and has clients.
        UsageError: no such pace.
    """
    if pace not in PACES:
        raise UsageError(f"no pace {pace!r}", do=f"use one of {', '.join(PACES)}")
    running = status()
    if running is not None and running.current:
        return running
    with _start_lock():
        running = status()
        if running is not None and not running.current:
            _replace(running)
        elif running is not None:
            return running
        return _launch(pace, idle_s, variant)


def _replace(old: SimStatus) -> None:
    if old.clients:
        raise BusyError(
            "the simulated board that runs is of another version",
            why=f"it is {old.version}, this is {VERSION}, and {old.clients} programs use it",
            do="end them, or stop it with `ork sim stop`",
        )
    stop()


def _launch(pace: str, idle_s: float, variant: BoardVariant) -> SimStatus:
    command = [sys.executable, "-m", "orkbench_tui.sim", "--socket", str(socket_path())]
    command += ["--pace", pace, "--idle-s", str(idle_s)]
    options = asdict(variant)
    command += ["--board", options.pop("board")]
    command += [f"--{name.replace('_', '-')}" for name, on in options.items() if on]
    package_root = str(Path(__file__).parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    with log_path().open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        running = _answer()
        if running is not None:
            return running
        if process.poll() is not None:
            break
        time.sleep(_POLL_S)
    process.poll()
    raise NoDeviceError("the simulated board does not start", why=_last_line(), do=f"see {log_path()}")


def _last_line() -> str:
    lines = log_path().read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def stop() -> bool:
    """End the running board; False when none runs. Clients see their device disappear.

    Raises:
        NoDeviceError: it was asked to stop and did not.
    """
    if not _lives():
        with contextlib.suppress(OSError):
            socket_path().unlink()
        return False
    try:
        call_once(socket_path(), Operation.STOP)
    except OSError:
        _kill()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        if not _lives():
            return True
        time.sleep(_POLL_S)
    raise NoDeviceError("the simulated board does not stop", why=f"it still holds {_pid_path()}")


def _pid_path() -> Path:
    return socket_path().with_suffix(".pid")


def _kill() -> None:
    """End a board that does not answer. The lock on the pid file proves the number is still its own."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(_pid_path().read_text()), signal.SIGKILL)


def _lives() -> bool:
    """Whether a board's process exists: it locks its pid file for as long as it does."""
    try:
        with _pid_path().open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def set_pace(pace: str) -> SimStatus:
    """Change the pace of the running board.

    Raises:
        NoDeviceError: none runs.
        UsageError: no such pace.
    """
    if pace not in PACES:
        raise UsageError(f"no pace {pace!r}", do=f"use one of {', '.join(PACES)}")
    try:
        call_once(socket_path(), Operation.SET_PACE, pace.encode())
    except OSError as error:
        raise NoDeviceError("no simulated board runs", do="start it with `ork sim start`") from error
    running = status()
    if running is None:
        raise NoDeviceError("the simulated board is gone", do="start it with `ork sim start`")
    return running
