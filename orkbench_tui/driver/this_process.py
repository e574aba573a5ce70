"""How this process names itself to others that want the NPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["this_command"]

_WORD = re.compile(r"[a-z][a-z-]{0,15}")
_SHOWN = 2


def this_command(words: list[str] | None = None) -> str:
    """Program and sub-command, for example ``ork run chat``.

    Never the rest of the command line: a prompt given as an argument is nobody else's business.
    """
    program, *rest = sys.argv if words is None else words
    name = Path(program).name
    shown = ["ork" if name in ("main.py", "-m", "") else name]
    for word in rest[:_SHOWN]:
        if not _WORD.fullmatch(word):
            break
        shown.append(word)
    return " ".join(shown)
