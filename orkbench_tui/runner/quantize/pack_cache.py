"""Finds the weight pack of a model, or makes it. Packs are a cache: a damaged one is made again."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orkbench_tui.errors import InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.runner.orkpack.layout import PACK_EXTENSION
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.orkpack.schemes import DEFAULT_SCHEME, scheme_named
from orkbench_tui.runner.quantize.pack_model import Progress, pack_bytes, pack_gguf
from orkbench_tui.runner.quantize.source_digest import (
    file_stamp,
    noted_sha256,
    remembered_sha256,
    write_note,
)

__all__ = ["pack_name", "packed_model", "require_intact", "require_intact_file", "require_space"]

# Raised when the same model would give other bytes; packs of older numbers are simply not found.
PACK_REVISION = 3


def pack_name(gguf_path: Path, source_sha256: bytes, scheme: str = DEFAULT_SCHEME) -> str:
    return f"{gguf_path.stem}-{source_sha256.hex()[:16]}-{scheme}-r{PACK_REVISION}{PACK_EXTENSION}"


def packed_model(
    gguf_path: Path, packs_dir: Path, progress: Progress | None = None, scheme: str = DEFAULT_SCHEME
) -> Path:
    """Path of a valid pack of ``gguf_path`` in ``packs_dir``, made in ``scheme`` if there is none.

    The second time this costs a ``stat`` and opening the pack. A damaged or unfinished pack is removed
    and made again; two processes at once make one pack. NoMemoryError where the disk is full (nothing
    is left behind), InvalidFileError for a model that cannot be packed.
    """
    if not gguf_path.exists():
        raise UsageError(f"model file {gguf_path} does not exist", do="`ork model list` shows what is here")
    if noted_sha256(gguf_path, packs_dir) is None:
        # What cannot be packed is refused before it is hashed, and before anything is written.
        pack_bytes(gguf_path)
    digest = remembered_sha256(gguf_path, packs_dir, progress)
    path = packs_dir / pack_name(gguf_path, digest, scheme)
    if _valid(path, digest, scheme):
        return path
    with _lock(path, progress):
        if _valid(path, digest, scheme):
            return path
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise own_file_error(error, path, "a weight pack") from error
        require_space(gguf_path, packs_dir, scheme=scheme)
        pack_gguf(gguf_path, path, progress, scheme=scheme, source_sha256=digest)
    return path


def _valid(path: Path, digest: bytes, scheme: str) -> bool:
    if not path.exists():
        return False
    try:
        with OrkPack.open(path) as pack:
            header = pack.header
            wanted = (
                header.source_sha256 == digest
                and header.quant_signature == scheme_named(scheme).signature
                and pack.architecture.layers > 0
            )
            if wanted:
                require_intact(pack, path.with_name(path.name + ".checked"))
            return wanted
    except (InvalidFileError, UsageError):
        return False


def require_intact(pack: OrkPack, note: Path) -> None:
    """Check every checksum of the pack, once; ``note`` remembers it while the file does not change.

    Raises:
        InvalidFileError: some part is damaged.
    """
    stamp = str(file_stamp(pack.path))
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if note.read_text(encoding="ascii") == stamp:
            return
    pack.verify("full")
    write_note(note, stamp)


def require_intact_file(pack: OrkPack, notes: Path) -> None:
    """``require_intact`` for a pack that lies anywhere; the note lies in ``notes``, named after its place."""
    name = hashlib.sha256(os.fsencode(pack.path.resolve())).hexdigest()[:32]
    require_intact(pack, notes / f"{name}.checked")


def require_space(gguf_path: Path, packs_dir: Path, already: int = 0, scheme: str = DEFAULT_SCHEME) -> None:
    """NoMemoryError where ``packs_dir`` has no room for the model's pack, ``already`` bytes of which are there."""
    needed = pack_bytes(gguf_path, scheme) - already
    there = next(
        folder for folder in (packs_dir.absolute(), *packs_dir.absolute().parents) if folder.exists()
    )
    free = shutil.disk_usage(there).free
    if free < needed:
        raise NoMemoryError(
            f"no space for the weight pack of {gguf_path.name}",
            why=f"{packs_dir} has {free >> 20} MiB free, {(needed >> 20) + 1} MiB are needed",
            do="free space or set another cache folder",
        )


@contextmanager
def _lock(path: Path, progress: Progress | None) -> Iterator[None]:
    """Hold the pack's lock file, which stays unless no pack came of it; the kernel frees it with its holder."""
    lock = path.with_name(path.name + ".lock")
    handle = _taken(lock, progress)
    try:
        yield
    except BaseException:
        if not path.exists():
            lock.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _taken(lock: Path, progress: Progress | None) -> int:
    """A descriptor that holds the lock of the file that bears the name."""
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise own_file_error(error, lock, "weight packs") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if progress is not None:
                    progress("waiting for another process that packs this model", 0, 1)
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever held it may have removed it.
            if os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
