"""Which build runs: the commit of a source tree, and the native kernels' hash."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

__all__ = ["build_commit", "kernels_sha256"]

_PACKAGE = Path(__file__).resolve().parents[2]
_HASH = re.compile(r"[0-9a-f]{40}")


def build_commit(tree: Path = _PACKAGE.parent) -> str:
    """The commit a source tree is at, twelve digits; "" for an installed package or a tree that is none."""
    git = tree / ".git"
    head = _line(git / "HEAD")
    if head.startswith("ref: "):
        name = head[5:].strip()
        head = _line(git / name) or _packed(git / "packed-refs", name)
    return head[:12] if _HASH.fullmatch(head) else ""


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")[:4096].strip()
    except OSError:
        return ""


def _packed(path: Path, name: str) -> str:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


@cache
def kernels_sha256() -> str:
    """Of the compiled kernels in use; "" where they cannot be read."""
    for path in sorted((_PACKAGE / "native").glob("_kernels*.so")):
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return ""
    return ""
