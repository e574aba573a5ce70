"""How roles look. Blue, orange and grey stay apart for every kind of colour vision; state is never colour alone."""

from __future__ import annotations

from functools import cache

from rich.style import Style

__all__ = ["BACKGROUND", "LOOKS", "background_of", "colours_of", "style_of"]

LOOKS = ("dark", "light", "mono")
"""``mono`` sends no colour at all: only weight, underline and reverse."""

BACKGROUND = "#0f1419"
_PAPER = "#fbfaf8"

_DARK: dict[str, str] = {
    "text": "#d5dce4",
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
    "entry": "#f2f6fa on #1c2733",
    "entry_cursor": "#0f1419 on #a9cdf5",
    "asked": "bold #a9cdf5",
    "answer": "#d5dce4",
}

_LIGHT: dict[str, str] = {
    "text": "#1f2a35",
    "dim": "#5b6875",
    "rule": "#b4bdc7",
    "title": "bold #14508f",
    "value": "bold #0b1117",
    "npu": "#1764b0",
    "npu_odd": "#4a8ccb",
    "cpu": "#4d7fae",
    "memory": "#6a7a8b",
    "iova": "#3d76b5",
    "track": "#d3d9df",
    "key": "bold #14508f",
    "header": "#1f2a35 on #e3e9f0",
    "header_dim": "#4f5c69 on #e3e9f0",
    "name": "bold #0b1117 on #e3e9f0",
    "badge": "bold #ffffff on #14508f",
    "badge_ok": "bold #ffffff on #4b5d70",
    "badge_warn": "bold #ffffff on #8f5200",
    "badge_error": "bold #ffffff on #a8330a",
    "debug": "#5b6875",
    "info": "#33404d",
    "notice": "#14508f",
    "warning": "#8f5200",
    "error": "bold #a8330a",
    "critical": "bold #a8330a",
    "cursor": "#0b1117 on #c9def5",
    "entry": "#0b1117 on #e3e9f0",
    "entry_cursor": "#ffffff on #14508f",
    "asked": "bold #14508f",
    "answer": "#1f2a35",
}

_MONO: dict[str, str] = {
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
    "entry": "underline",
    "entry_cursor": "reverse",
    "asked": "bold",
}

_ROLES = {"dark": _DARK, "light": _LIGHT}
_GROUND = {"dark": BACKGROUND, "light": _PAPER}


def background_of(look: str) -> str:
    """The colour behind everything; that of ``mono`` is never sent."""
    return _GROUND.get(look, BACKGROUND)


@cache
def style_of(role: str, look: str = "dark") -> Style:
    """The style of a role; unknown roles look like plain text."""
    if look == "mono":
        return Style.parse(_MONO.get(role, "none"))
    roles = _ROLES[look]
    base = Style.parse(f"{roles['text']} on {_GROUND[look]}")
    return base + Style.parse(roles.get(role, "none"))


def colours_of(look: str) -> dict[str, tuple[str, str]]:
    """Foreground and background of each role as ``#rrggbb``, for tests of contrast."""
    styles = {role: style_of(role, look) for role in _ROLES[look]}
    return {
        role: (style.color.name, style.bgcolor.name)
        for role, style in styles.items()
        if style.color is not None and style.bgcolor is not None
    }
