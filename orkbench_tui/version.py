"""The version, in one place, and the commit it was built from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["VERSION", "build_commit"]

VERSION = "0.1.0"
_ROOT = Path(__file__).resolve().parents[1]


@cache
def build_commit() -> str:
    """Commit of the checkout this runs from, 40 hex digits; "" where it was installed from elsewhere."""
    return commit_of(_ROOT / ".git")


def commit_of(folder: Path) -> str:
    """The commit that is checked out, read from the repository's own files; "" where that is not told."""
    try:
        head = (folder / "HEAD").read_text(encoding="ascii").strip()
        if not head.startswith("ref: "):
            return head if len(head) == 40 else ""
        name = head.removeprefix("ref: ")
        own = folder / name
        if own.is_file():
            return own.read_text(encoding="ascii").strip()
        for line in (folder / "packed-refs").read_text(encoding="ascii").splitlines():
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    except (OSError, UnicodeDecodeError):
        pass
    return ""
