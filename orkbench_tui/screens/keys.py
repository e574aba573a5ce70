"""Every key, in one table: bindings, footer, help and the tests read it.

No key changes the board. Keys that tmux, screen or flow control eat are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KEYS", "Key", "keys_for"]


@dataclass(frozen=True, slots=True)
class Key:
    """``keys`` are Textual key names, comma separated; ``shown`` is what people read."""

    keys: str
    action: str
    shown: str
    label: str
    help: str
    where: str = "everywhere"
    footer: bool = False


KEYS: tuple[Key, ...] = (
    Key("q,ctrl+c", "leave", "q", "quit", "leave ork-tui; nothing on the board changes", footer=True),
    Key("question_mark", "show_help", "?", "help", "show or hide this help", footer=True),
    Key("l", "show_log", "l", "log", "the classified kernel log, full screen", footer=True),
    Key("space", "freeze", "space", "freeze", "hold the picture; sampling goes on", footer=True),
    Key("plus,equals_sign", "faster", "+", "faster", "sample more often"),
    Key("minus", "slower", "-", "slower", "sample less often"),
    Key("r", "sample_now", "r", "now", "take a sample at once"),
    Key("escape", "go_back", "esc", "back", "go back; never leaves the program"),
    Key("up,k", "move(-1)", "k", "up", "one line up", where="log"),
    Key("down,j", "move(1)", "j", "down", "one line down", where="log"),
    Key("pageup,ctrl+u", "move_page(-1)", "PgUp", "page up", "one page up", where="log"),
    Key("pagedown,ctrl+d", "move_page(1)", "PgDn", "page down", "one page down", where="log"),
    Key("home,g", "move_end(-1)", "g", "oldest", "to the oldest line", where="log"),
    Key("end,G", "move_end(1)", "G", "newest", "to the newest line, and follow", where="log"),
    Key("up,k", "scroll_help(-1)", "k", "up", "one line up", where="help"),
    Key("down,j", "scroll_help(1)", "j", "down", "one line down", where="help"),
    Key("pageup,ctrl+u", "scroll_help_page(-1)", "PgUp", "page up", "one page up", where="help"),
    Key("pagedown,ctrl+d", "scroll_help_page(1)", "PgDn", "page down", "one page down", where="help"),
    Key("n", "noise", "n", "noise", "show or hide what healthy boards print too", where="log"),
)


def keys_for(where: str) -> tuple[Key, ...]:
    return tuple(key for key in KEYS if key.where == where)
