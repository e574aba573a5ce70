"""Text from logs, models and files, made safe to print.

A kernel log line, a model's answer or a file name may hold escape sequences. Shown raw they can
move the cursor, retitle the window or answer a terminal query, so control characters never reach
the terminal: they are shown as their escapes, or dropped where the text streams.
"""

from __future__ import annotations

import unicodedata

_KEEP = {"\n", "\t"}
_UNSAFE_CATEGORIES = {"Cc", "Cs"}
# Bidirectional overrides and isolates reorder what a reader sees.
_BIDI = {chr(c) for c in (0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069)}


def is_safe(char: str) -> bool:
    return char in _KEEP or (unicodedata.category(char) not in _UNSAFE_CATEGORIES and char not in _BIDI)


def printable(text: str) -> str:
    """``text`` with newlines and tabs kept and every other control character as ``\\xNN``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if is_safe(c) else (f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}") for c in text
    )


def one_line(text: str, limit: int = 400) -> str:
    """``printable`` on a single line, cut with an ellipsis at ``limit`` characters."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def streamed(text: str) -> str:
    """``text`` with control characters dropped: for model output, which arrives in pieces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if is_safe(c))
