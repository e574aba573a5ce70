"""``ork board diagnose``, ``bundle`` and ``doctor``: what is wrong, what to send, fit to measure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.input import LOG_BYTES, standard_bytes
from orkbench_tui.errors import DeniedError, ExitCode, NoDeviceError, UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.diagnosis.capture import Capture
    from orkbench_tui.ops.diagnosis.evidence import ModelSupport
    from orkbench_tui.ops.doctor.readings import DoctorReadings
    from orkbench_tui.ops.files import BoardFiles

__all__ = ["register"]

_Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
_TargetName = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``ork board``."""
    app.command()(diagnose)
    app.command()(bundle)
    app.command()(doctor)


def diagnose(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Captured files, folders or archives, taken as one; - is standard input. None: this board."
        ),
    ] = None,
    json: _Json = False,
    target: _TargetName = None,
) -> None:
    """What is wrong and what to do, from everything at hand. Exit 0 healthy, 6 not, 2 nothing usable."""
    from orkbench_tui.ops.diagnosis.capture import read_capture
    from orkbench_tui.ops.diagnosis.diagnose import diagnose as judge
    from orkbench_tui.ops.diagnosis.diagnose import is_healthy
    from orkbench_tui.ops.diagnosis.evidence import gather
    from orkbench_tui.ops.diagnosis.report import diagnosis_lines, notes

    capture, unfinished = (read_capture(paths, _standard_input(paths)), []) if paths else _live(target)
    evidence = gather(capture, _model_support())
    if not evidence.usable:
        raise UsageError(
            "nothing in it that a diagnosis knows",
            why=f"not understood: {', '.join(evidence.unknown_files[:8]) or 'no files'}",
            do="give a kernel log, program output or files named as in docs/diagnosis.md",
        )
    verdicts = judge(evidence)
    if json:
        warnings = [{"id": "operation.interrupted", "msg": text} for text in unfinished]
        warnings += [{"id": "diagnosis.unread", "msg": text} for text in notes(evidence)]
        data = [verdict.document() for verdict in verdicts]
        output.emit_json("board.diagnose", data, source=capture.source, warnings=warnings)
    else:
        for text in diagnosis_lines(verdicts, evidence, unfinished):
            output.emit(text)
    if not is_healthy(verdicts):
        raise typer.Exit(ExitCode.UNHEALTHY)


def _standard_input(paths: list[Path]) -> BytesIO | None:
    """What was piped in, where one of the paths asks for it."""
    if not any(str(path) == "-" for path in paths):
        return None
    return BytesIO(standard_bytes(LOG_BYTES, do="cut it, or take the last lines with tail"))


def bundle(
    file: Annotated[Path, typer.Argument(help="Folder to make, or a name that ends in .tar.gz.")],
    json: _Json = False,
    target: _TargetName = None,
) -> None:
    """Collect what a diagnosis needs, without passwords, addresses, serials and names. Never overwrites."""
    from orkbench_tui.ops.diagnosis.bundle import make_bundle, write_bundle
    from orkbench_tui.ops.diagnosis.redaction import Redactor

    if file.exists():
        write_bundle({}, file)
    if not file.absolute().parent.is_dir():
        raise UsageError(f"no folder {file.absolute().parent}", do="make it first")
    with _board(target) as board:
        files = board.files
        capture = _collect(board)
        redactor = Redactor(
            hosts=_secrets(files, _HOST_FILES), users=_users(files), others=_secrets(files, _SERIAL_FILES)
        )
        label = files.label
    made = make_bundle(capture, redactor)
    write_bundle(made, file)
    counts = redactor.counts
    if json:
        data = {
            "path": str(file),
            "files": sorted(made),
            "redacted": counts,
            "unreadable": [{"file": u.name, "path": u.path, "reason": u.reason} for u in capture.unreadable],
        }
        output.emit_json("board.bundle", data, source=label)
        return
    output.emit(f"{file}: {len(made)} files from {label}; read them before you send them")
    output.emit(
        "replaced: "
        + (", ".join(f"{kind} {number}" for kind, number in counts.items()) or "nothing found to replace")
    )
    for item in capture.unreadable:
        output.emit(f"not read: {item.path} ({item.reason})")


def doctor(json: _Json = False, target: _TargetName = None) -> None:
    """Preflight before anything is timed: want, found, why, fix. Exit 1 when unfit."""
    from orkbench_tui.ops.doctor.checks import fit, run_checks
    from orkbench_tui.ops.doctor.report import doctor_lines

    with _board(target) as board:
        readings = board_preflight(board.files)
        label = board.files.label
    outcomes = run_checks(readings)
    if json:
        data = {"fit": fit(outcomes), "checks": [outcome.document() for outcome in outcomes]}
        output.emit_json("board.doctor", data, source=label)
    else:
        for text in doctor_lines(outcomes):
            output.emit(text)
    if not fit(outcomes):
        raise typer.Exit(ExitCode.FAILED)


def board_preflight(files: BoardFiles) -> DoctorReadings:
    """What the doctor judges, as this process sees it; takes about two seconds.

    Raises:
        NoDeviceError: the board went away.
    """
    from orkbench_tui.ops.doctor.readings import read_board

    on_board = files.label == "board"
    try:
        return read_board(
            files,
            own_cpus=tuple(sorted(os.sched_getaffinity(0))) if on_board else None,
            own_pid=os.getpid(),
            sees_all_processes=_sees_all(files),
        )
    except OSError as error:
        raise NoDeviceError("the board does not answer", why=error.strerror or str(error)) from error


_HOST_FILES = ("/proc/sys/kernel/hostname", "/etc/hostname")
_SERIAL_FILES = ("/proc/device-tree/serial-number", "/etc/machine-id")


@dataclass(slots=True)
class _Board:
    """A board's files, and what opening the NPU's node ends with ("" when it opens)."""

    files: BoardFiles
    open_error: Callable[[], str]
    operations_lock: Path


@contextmanager
def _board(target: str | None) -> Iterator[_Board]:
    """A board without an NPU is looked at all the same where it was asked for by name."""
    from orkbench_tui.cli import diagnostics
    from orkbench_tui.ops.files import HostFiles
    from orkbench_tui.target import BOARD_OPERATIONS_LOCK, board_unfinished, open_target

    settings = Settings.load(target=target)
    try:
        opened = open_target(settings)
    except NoDeviceError as error:
        if settings.target != "board" and (settings.target == "sim" or not board_unfinished()):
            raise
        diagnostics.note(error.line())
        yield _Board(HostFiles(settings.board_root), str, BOARD_OPERATIONS_LOCK)
        return
    if opened.notice:
        diagnostics.note(opened.notice)
    with opened:
        yield _Board(opened.files, opened.open_error, opened.operations_lock)


def _live(target: str | None) -> tuple[Capture, list[str]]:
    """This board, and the operations on it that were interrupted."""
    from orkbench_tui import locations
    from orkbench_tui.ops.guard.unfinished import unfinished_lines

    with _board(target) as board:
        lines = unfinished_lines(locations.state_dir(), board.files.label, board.operations_lock)
        return _collect(board), lines


def _collect(board: _Board) -> Capture:
    from orkbench_tui.ops.diagnosis.collect import collect

    files = board.files
    try:
        return collect(
            files,
            sees_all_processes=_sees_all(files),
            user=_own_id() if files.label == "board" else "",
            node_error=board.open_error(),
        )
    except PermissionError as error:
        raise DeniedError("the board's files may not be read", why=str(error)) from error
    except OSError as error:
        raise NoDeviceError("the board does not answer", why=error.strerror or str(error)) from error


def _sees_all(files: BoardFiles) -> bool:
    return files.label != "board" or os.geteuid() == 0


def _own_id() -> str:
    """What ``id`` prints for this process."""
    import grp
    import pwd

    def name(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    groups = ",".join(f"{number}({name(number)})" for number in sorted({os.getgid(), *os.getgroups()}))
    return f"uid={os.getuid()}({user}) gid={os.getgid()}({name(os.getgid())}) groups={groups}"


def _secrets(files: BoardFiles, paths: tuple[str, ...]) -> list[str]:
    return [
        text
        for r in files.read_many(list(paths))
        if r.ok and (text := r.text().strip("\0\n ")) and len(text) < 128
    ]


def _users(files: BoardFiles) -> list[str]:
    """Accounts of people: those with a number from 1000 on."""
    reading = files.read("/etc/passwd")
    rows = [line.split(":") for line in reading.text().splitlines()] if reading.ok else []
    return [row[0] for row in rows if len(row) > 2 and row[2].isdigit() and 1000 <= int(row[2][:9]) < 60000]


def _model_support() -> ModelSupport:
    from orkbench_tui.ops.diagnosis.evidence import ModelSupport
    from orkbench_tui.runner.gguf_types import REMOVED_TYPES, UNSUPPORTED_TYPES, GgmlType
    from orkbench_tui.runner.pretokenizers import PRETOKENIZERS

    readable = [kind for kind in GgmlType if kind not in UNSUPPORTED_TYPES]
    return ModelSupport(
        tokenizers=frozenset(PRETOKENIZERS),
        tokenizer_models=frozenset({"gpt2"}),
        tensor_types=frozenset(int(kind) for kind in readable),
        tensor_type_names=frozenset(kind.name for kind in readable),
        type_names={int(kind): kind.name for kind in GgmlType} | REMOVED_TYPES,
    )
