"""The characters pictures are made of: eighth blocks, or plain ASCII where fonts or locales cannot."""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ASCII", "UNICODE", "Glyphs", "locale_wants_ascii"]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """``bar`` and ``plot`` run from empty to full; ``rule`` draws section lines."""

    bar: str
    plot: str
    empty: str
    rule: str
    edge: str
    dot: str
    cut: str
    times: str
    degree: str
    at_least: str
    cursor: str
    good: str
    severity: tuple[str, str, str, str, str, str]


UNICODE = Glyphs(
    bar=" ▏▎▍▌▋▊▉█",
    plot=" ▁▂▃▄▅▆▇█",
    empty="·",
    rule="─",
    edge="│",
    dot="·",
    cut="…",
    times="×",
    degree="°",
    at_least="≥",
    cursor="▶",
    good="✓",
    severity=("·", "i", "•", "▲", "✖", "✖"),
)

ASCII = Glyphs(
    bar=" ---==##",
    plot=" _.-:=*#",
    empty=".",
    rule="-",
    edge="|",
    dot="-",
    cut="~",
    times="x",
    degree=" ",
    at_least=">=",
    cursor=">",
    good="+",
    severity=(".", "i", "*", "!", "X", "X"),
)


def locale_wants_ascii(environment: Mapping[str, str] = os.environ) -> bool:
    """True on the Linux console and where the locale is not UTF-8."""
    if environment.get("TERM") == "linux":
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := environment.get(name):
            return "utf-8" not in value.lower().replace("utf8", "utf-8")
    return locale.getpreferredencoding(False).lower().replace("-", "") != "utf8"
