"""The simulated board's life as a process: start it when needed, find it, stop it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.errors import BusyError, NoDeviceError, NoMemoryError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.plain_text import one_line
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.client import call_once
from orkbench_tui.sim.clock import PACES
from orkbench_tui.sim.protocol import PROTOCOL_VERSION, Operation
from orkbench_tui.version import VERSION

__all__ = [
    "BoardVariant",
    "SimStatus",
    "disk_folder",
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
_SOCKET_PATH_BYTES = 107
_LOG_TAIL_BYTES = 64 << 10


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
    release: str
    disk: Path | None
    socket_path: Path

    @property
    def current(self) -> bool:
        """Whether it is of this package's version."""
        return self.protocol == PROTOCOL_VERSION and self.version == VERSION


def folder() -> Path:
    return locations.runtime_dir() / "sim"


def socket_path() -> Path:
    return folder() / "board.sock"


def disk_folder(board: str) -> Path:
    """Where the boot disk of a board is kept, over stops and restarts."""
    return locations.state_dir() / "sim" / "disk" / board


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
        raise own_file_error(error, place, "the simulated board") from error
    length = len(os.fsencode(socket_path()))
    if length > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"the path of the simulated board's socket has {length} bytes",
            why=f"{socket_path()}; the system takes up to {_SOCKET_PATH_BYTES}",
            do="set XDG_RUNTIME_DIR to a folder with a shorter path",
        )
    return place


@contextlib.contextmanager
def _start_lock() -> Iterator[None]:
    """One starter at a time, across processes."""
    path = _make_folder() / "start.lock"
    with _opened(path, os.O_WRONLY | os.O_CREAT) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """One of the files beside the socket. Raises an error that says what is in the way of it."""
    try:
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise own_file_error(error, path, "a file of the simulated board") from error
    try:
        yield handle
    finally:
        os.close(handle)


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
    pid = _pid() or "unknown"
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
        release=str(answer.get("release", "")),
        disk=Path(str(answer["disk"])) if answer.get("disk") else None,
        socket_path=socket_path(),
    )


def start(
    pace: str = "fast", idle_s: float = 300.0, variant: BoardVariant = STOCK, *, fresh_disk: bool = False
) -> SimStatus:
    """A running board of this version: the one there is, with its own pace and variant, or a new one.

    ``fresh_disk`` gives a new one the disk it was delivered with.

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
        if fresh_disk:
            shutil.rmtree(disk_folder(variant.board), ignore_errors=True)
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
    command += ["--board", variant.board, "--disk", str(disk_folder(variant.board))]
    options.pop("board")
    command += [f"--{name.replace('_', '-')}" for name, on in options.items() if on]
    package_root = str(Path(__file__).parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    with (
        _opened(_pid_path(), os.O_RDWR | os.O_CREAT),
        _opened(log_path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as log,
    ):
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
    if not (said := _last_line()) and _full(folder()):
        raise NoMemoryError(
            "the simulated board does not start",
            why=f"no space left in {folder()}",
            do="free some, or set XDG_RUNTIME_DIR to a folder with space",
        )
    raise NoDeviceError(
        "the simulated board does not start", why=said or "it printed nothing", do=f"see {log_path()}"
    )


def _full(place: Path) -> bool:
    space = os.statvfs(place)
    return not space.f_bavail or (space.f_files > 0 and not space.f_favail)


def _last_line() -> str:
    with contextlib.suppress(OSError), log_path().open("rb") as log:
        log.seek(max(0, log_path().stat().st_size - _LOG_TAIL_BYTES))
        lines = log.read(_LOG_TAIL_BYTES).decode("utf-8", "replace").strip().splitlines()
        return one_line(lines[-1], 300) if lines else ""
    return ""


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
    with contextlib.suppress(OSError, ValueError, OverflowError):
        # 0 and below name groups of processes.
        if (pid := int(_pid())) > 0:
            os.kill(pid, signal.SIGKILL)


def _pid() -> str:
    """What the pid file holds, "" when it cannot be read."""
    with contextlib.suppress(OSError), _pid_path().open("rb") as file:
        return file.read(32).decode("ascii", "replace").strip()
    return ""


def _lives() -> bool:
    """Whether a board's process exists: it locks its pid file for as long as it does."""
    if not _pid_path().exists():
        return False
    with _opened(_pid_path(), os.O_RDONLY) as file:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise own_file_error(
                IsADirectoryError(errno.EISDIR, "no regular file"), _pid_path(), "a process number"
            )
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
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
