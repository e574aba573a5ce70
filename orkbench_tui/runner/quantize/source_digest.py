"""The sha256 of a model file, remembered: hashing gigabytes at every start would cost seconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path

from orkbench_tui.runner.quantize.pack_model import Progress, sha256_of

_UNFINISHED = re.compile(r".*\.([0-9]{1,9})\.tmp", re.ASCII)

__all__ = ["file_stamp", "noted_sha256", "remember_sha256", "remembered_sha256", "write_note"]


def remembered_sha256(path: Path, memo_dir: Path, progress: Progress | None = None) -> bytes:
    """sha256 of ``path``, from a note in ``memo_dir`` while size, times, inode and device are unchanged."""
    digest = noted_sha256(path, memo_dir)
    return remember_sha256(path, memo_dir, progress) if digest is None else digest


def remember_sha256(path: Path, memo_dir: Path, progress: Progress | None = None) -> bytes:
    """sha256 of ``path``, read now whatever is noted, and noted."""
    stamp = file_stamp(path)
    digest = sha256_of(path, progress)
    if file_stamp(path) == stamp:
        write_note(_note(path, memo_dir), json.dumps({"stamp": stamp, "sha256": digest.hex()}))
    return digest


def noted_sha256(path: Path, memo_dir: Path) -> bytes | None:
    """sha256 of ``path`` from its note; None where there is none or the file has changed since."""
    stamp = file_stamp(path)
    note = _note(path, memo_dir)
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["stamp"] == stamp:
            digest = bytes.fromhex(known["sha256"])
            if len(digest) == 32:
                return digest
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _note(path: Path, memo_dir: Path) -> Path:
    return memo_dir / (hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32] + ".digest")


def file_stamp(path: Path) -> list[int]:
    """What changes whenever a file's content does: size, times, inode and device."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def write_note(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    # Only a shortcut is lost where this cannot be written.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove notes whose writers were killed before they were whole."""
    for path in folder.glob("*.tmp"):
        if (found := _UNFINISHED.fullmatch(path.name)) and not Path(f"/proc/{found[1]}").exists():
            path.unlink(missing_ok=True)
