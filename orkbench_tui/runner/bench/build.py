"""Which build runs: the commit of a source tree, whether it was changed since, and the native kernels' hash."""

from __future__ import annotations

import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path

__all__ = ["build_changed", "build_commit", "kernels_sha256"]

_PACKAGE = Path(__file__).resolve().parents[2]
_GIT_S = 10
_HASH = re.compile(r"[0-9a-f]{40}")


def build_commit(tree: Path = _PACKAGE.parent) -> str:
    """The commit a source tree is at, twelve digits; "" for an installed package or a tree that is none."""
    git = tree / ".git"
    head = _line(git / "HEAD")
    if head.startswith("ref: "):
        name = head[5:].strip()
        head = _line(git / name) or _packed(git / "packed-refs", name)
    return head[:12] if _HASH.fullmatch(head) else ""


@cache
def build_changed(tree: Path = _PACKAGE.parent) -> bool | None:
    """Whether the program's files differ from the commit; None where there is none, or nothing tells."""
    if not build_commit(tree):
        return None
    command = ["git", "-C", str(tree), "status", "--porcelain", "--", _PACKAGE.name]
    try:
        told = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(told.stdout.strip()) if told.returncode == 0 else None


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
