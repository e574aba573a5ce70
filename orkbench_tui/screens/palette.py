"""How roles look. Blue, orange and grey stay apart for every kind of colour vision; state is never colour alone."""

from __future__ import annotations

from functools import cache

from rich.style import Style

__all__ = ["BACKGROUND", "FOREGROUND", "style_of"]

BACKGROUND = "#0f1419"
FOREGROUND = "#d5dce4"

_COLOUR: dict[str, str] = {
    "text": FOREGROUND,
    "dim": "#8d99a6",
    "rule": "#4a5766",
    "title": "bold #a9cdf5",
    "value": "bold #f2f6fa",
    "npu": "#4ea1f3",
    "npu_odd": "#86bdf0",
    "cpu": "#7fa9cf",
    "memory": "#9aa8b8",
    "iova": "#6f9fd8",
    "track": "#3a4653",
    "key": "bold #a9cdf5",
    "header": "#d5dce4 on #1c2733",
    "header_dim": "#94a2b1 on #1c2733",
    "name": "bold #f2f6fa on #1c2733",
    "badge": "bold #0f1419 on #a9cdf5",
    "badge_ok": "bold #0f1419 on #9fb4c9",
    "badge_warn": "bold #0f1419 on #f2a53c",
    "badge_error": "bold #0f1419 on #ff8a5c",
    "debug": "#8d99a6",
    "info": "#c3ccd6",
    "notice": "#a9cdf5",
    "warning": "#f2a53c",
    "error": "bold #ff8a5c",
    "critical": "bold #ff8a5c",
    "cursor": "#f2f6fa on #24405e",
}

_WITHOUT: dict[str, str] = {
    "title": "bold",
    "value": "bold",
    "key": "bold",
    "header": "reverse",
    "header_dim": "reverse",
    "name": "bold reverse",
    "badge": "bold",
    "badge_ok": "bold",
    "badge_warn": "bold underline",
    "badge_error": "bold underline",
    "dim": "dim",
    "rule": "dim",
    "track": "dim",
    "warning": "bold",
    "error": "bold",
    "critical": "bold",
    "cursor": "reverse",
}


@cache
def style_of(role: str, colour: bool = True) -> Style:
    """The style of a role; unknown roles look like plain text. Without colour only weight and reverse remain."""
    if not colour:
        return Style.parse(_WITHOUT.get(role, "none"))
    base = Style.parse(f"{FOREGROUND} on {BACKGROUND}")
    return base + Style.parse(_COLOUR.get(role, "none"))
