"""A capture written down for others: redacted, with a manifest, never over anything that exists."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.ops.diagnosis.capture import Capture
from orkbench_tui.ops.diagnosis.redaction import Redactor
from orkbench_tui.version import VERSION

__all__ = ["MANIFEST", "SCHEMA", "Bundle", "make_bundle", "write_bundle"]

MANIFEST = "manifest.json"
SCHEMA = "ork.bundle/1"

Bundle = dict[str, bytes]


def make_bundle(capture: Capture, redactor: Redactor) -> Bundle:
    """File names and contents. The manifest says what was collected, refused and redacted, not the secrets."""
    texts = redactor.redact({file.name: file.text for file in capture.files})
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": f"ork {VERSION}",
        "source": capture.source,
        "files": sorted(texts),
        "unreadable": [asdict(item) for item in capture.unreadable],
        "redacted": redactor.counts,
    }
    bundle = {name: text.encode() for name, text in texts.items()}
    bundle[MANIFEST] = (json.dumps(manifest, indent=2) + "\n").encode()
    return bundle


def write_bundle(bundle: Bundle, target: Path) -> None:
    """As a folder, or as an archive where the name ends in .tar.gz or .tgz. All or nothing.

    Raises:
        RefusedError: ``target`` exists.
        InvalidFileError: it cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise RefusedError(
            f"{target} exists", why="a bundle never overwrites", do="name another file or folder"
        )
    try:
        if target.name.endswith((".tar.gz", ".tgz")):
            _archive(bundle, target)
        else:
            _folder(bundle, target)
    except FileExistsError:
        raise RefusedError(
            f"{target} exists", why="a bundle never overwrites", do="name another one"
        ) from None
    except PermissionError:
        raise
    except OSError as error:
        raise InvalidFileError(f"cannot write {target}", why=error.strerror or str(error)) from error


def _folder(bundle: Bundle, target: Path) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, data in bundle.items():
            (partial / name).write_bytes(data)
        target.mkdir(mode=0o700)
        # Onto the empty folder just made: nobody else's can be hit.
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _archive(bundle: Bundle, target: Path) -> None:
    root = target.name.removesuffix(".tar.gz").removesuffix(".tgz")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in bundle.items():
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    with target.open("xb") as file:
        try:
            file.write(buffer.getvalue())
        except BaseException:
            target.unlink(missing_ok=True)
            raise
