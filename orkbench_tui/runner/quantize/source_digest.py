"""The sha256 of a model file, remembered: hashing gigabytes at every start would cost seconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from orkbench_tui.runner.quantize.pack_model import Progress, sha256_of

__all__ = ["remembered_sha256"]


def remembered_sha256(path: Path, memo_dir: Path, progress: Progress | None = None) -> bytes:
    """sha256 of ``path``, from a note in ``memo_dir`` while size, times, inode and device are unchanged."""
    stamp = _stamp(path)
    note = memo_dir / (hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32] + ".digest")
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["stamp"] == stamp:
            digest = bytes.fromhex(known["sha256"])
            if len(digest) == 32:
                return digest
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256_of(path, progress)
    if _stamp(path) == stamp:
        _write(note, json.dumps({"stamp": stamp, "sha256": digest.hex()}))
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _write(path: Path, text: str) -> None:
    # Only a shortcut is lost where this cannot be written.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
