"""Every key, in one table: bindings, footers, help, the palette and the tests read it.

No key changes the board: operations show their plan first. Keys that tmux, screen or flow control eat are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EDITING", "ELSEWHERE", "KEYS", "ONE_BOARD", "PAGES", "Key", "PageName", "keys_for"]


@dataclass(frozen=True, slots=True)
class PageName:
    """A page: its name in code, the key that opens it, its title, and the command that says the same."""

    name: str
    key: str
    title: str
    help: str
    command: str


PAGES: tuple[PageName, ...] = (
    PageName("dashboard", "1", "dashboard", "everything at a glance", "ork board status"),
    PageName("cores", "2", "cores", "every core's load over time, and who uses the NPU", "ork board watch"),
    PageName("domains", "3", "domains", "address windows of the NPU: use, buffers, holes", "ork npu domains"),
    PageName("log", "4", "log", "the classified kernel log", "ork board log"),
    PageName("operations", "5", "operations", "what can be changed: plan, confirm, run, undo", "ork board --help"),
    PageName("models", "6", "models", "model files and weight packs", "ork model list"),
    PageName("chat", "7", "chat", "talk with a model on the NPU", "ork run chat"),
    PageName("doctor", "8", "doctor", "is this board fit for measuring", "ork board doctor"),
    PageName("bench", "9", "bench", "results, and published figures beside predictions", "ork run bench history"),
    PageName("rules", "0", "rules", "guards with their evidence, and what a change of mode costs", "ork npu guards"),
    PageName("kernel", "K", "kernel", "patches on a source tree; running and installed kernels", "ork kernel patches list"),
    PageName("settings", "e", "settings", "every setting: value, origin, range; change one", "ork config show"),
)  # fmt: skip

ONE_BOARD = "one board is shown; `ork-tui --board HOST --board HOST2` shows more"
ELSEWHERE = "not here with --board or --replay: it works on this machine's board"
"""What is said in place of a page that is not there; it fits the last line of 80 columns."""


@dataclass(frozen=True, slots=True)
class Key:
    """``keys`` are Textual key names, comma separated; ``shown`` is what people read.

    ``footer`` orders the keys of a page's last line, most useful first; 0 is not shown there.
    """

    keys: str
    action: str
    shown: str
    label: str
    help: str
    where: str = "everywhere"
    footer: int = 0


def _moves(where: str, what: str) -> tuple[Key, ...]:
    return (
        Key("up,k", "move(-1)", "k", "up", f"one {what} up", where, 3),
        Key("down,j", "move(1)", "j", "down", f"one {what} down", where, 3),
        Key("pageup,ctrl+u", "move_page(-1)", "PgUp", "page up", "one page up", where),
        Key("pagedown,ctrl+d", "move_page(1)", "PgDn", "page down", "one page down", where),
        Key("home,g", "move_end(-1)", "g", "first", f"to the first {what}", where),
        Key("end,G", "move_end(1)", "G", "last", f"to the last {what}", where),
    )


KEYS: tuple[Key, ...] = (
    Key("q", "leave", "q", "quit", "leave ork-tui; nothing on the board changes", footer=1),
    Key("ctrl+c", "leave", "ctrl+c", "quit", "the same, also while typing"),
    Key("question_mark", "show_page('help')", "?", "help", "show or hide this help", footer=2),
    *(
        Key(page.key, f"show_page('{page.name}')", page.key, page.title, page.help)
        for page in PAGES
    ),
    Key("b", "show_page('boards')", "b", "boards", "every board that --board named: load, heat, state"),
    Key("l", "show_page('log')", "l", "log", "the kernel log, as 4", footer=6),
    Key("colon,ctrl+p", "palette", ":", "commands", "every command, found by typing; so does ctrl+p", footer=3),
    Key("space", "freeze", "space", "freeze", "hold the picture while sampling goes on; in a recording stop and go", footer=4),
    Key("plus,equals_sign", "faster", "+", "faster", "sample more often"),
    Key("minus", "slower", "-", "slower", "sample less often"),
    Key("r", "sample_now", "r", "now", "take a sample at once"),
    Key("comma", "replay_step(-1)", ",", "sample before", "in a recording: one sample back, and hold"),
    Key("full_stop", "replay_step(1)", ".", "next sample", "in a recording: one sample on, and hold"),
    Key("less_than_sign", "replay_jump(-60)", "<", "minute back", "in a recording: a minute back"),
    Key("greater_than_sign", "replay_jump(60)", ">", "minute on", "in a recording: a minute on"),
    Key("left_parenthesis", "replay_end(-1)", "(", "start", "to the start of a recording"),
    Key("right_parenthesis", "replay_end(1)", ")", "end", "to the end of a recording"),
    Key("t", "theme", "t", "theme", "light or dark"),
    Key("escape", "go_back", "esc", "back", "go back; never leaves the program"),
    *_moves("cores", "row"),
    *_moves("domains", "row"),
    *_moves("log", "line"),
    Key("p", "pause", "p", "pause", "hold this log; new lines are kept and counted", "log", 1),
    Key("slash", "search", "/", "search", "only lines with this text or pattern; !text: without it", "log", 2),
    Key("s", "severity", "s", "severity", "only this bad or worse: all, notice, warning, error", "log", 2),
    Key("c", "only_class", "c", "class", "only lines of the chosen line's class, and all again", "log", 2),
    Key("n", "event(1)", "n", "next event", "to the next warning or error", "log", 1),
    Key("N", "event(-1)", "N", "event before", "to the warning or error before", "log"),
    Key("h", "noise", "h", "noise", "show or hide what healthy boards print too", "log", 2),
    *_moves("operations", "operation"),
    Key("enter", "plan", "enter", "plan", "what it would do here; nothing is changed", "operations", 1),
    Key("a", "apply", "a", "apply", "carry out the plan shown, after it is confirmed", "operations", 1),
    Key("u", "undo", "u", "undo", "the plan that puts back what stood before", "operations", 2),
    Key("v", "resume", "v", "resume", "bring an interrupted operation to an end", "operations", 2),
    Key("J", "journal", "J", "journal", "what was done before", "operations", 2),
    *_moves("models", "file"),
    Key("enter", "chat_with", "enter", "chat", "talk with the chosen model", "models", 1),
    Key("v", "verify", "v", "verify", "read the whole file and check its checksums", "models", 1),
    Key("o", "other", "o", "files or domains", "the files, or where the weights of the chosen one live", "models", 1),
    Key("i,enter", "edit", "i", "type", "write a question", "chat", 1),
    Key("x", "stop", "x", "stop", "stop the answer; esc does so while typing", "chat", 1),
    Key("c", "clear", "c", "clear", "begin a new conversation", "chat", 2),
    Key("m", "choose_model", "m", "model", "choose another model", "chat", 2),
    Key("w", "close_model", "w", "close", "let go of the model and the NPU", "chat", 2),
    Key("up,k", "scroll(-1)", "k", "up", "one line up", "chat"),
    Key("down,j", "scroll(1)", "j", "down", "one line down", "chat"),
    Key("pageup,ctrl+u", "scroll_page(-1)", "PgUp", "page up", "one page up", "chat"),
    Key("pagedown,ctrl+d", "scroll_page(1)", "PgDn", "page down", "one page down", "chat"),
    *_moves("doctor", "check"),
    Key("c", "check", "c", "check again", "read the board again, for about two seconds", "doctor", 1),
    Key("enter", "fix", "enter", "fix", "to the operation that helps", "doctor", 1),
    *_moves("bench", "row"),
    Key("o", "other", "o", "own or published", "own results, or published figures", "bench", 1),
    *_moves("rules", "row"),
    Key("o", "other", "o", "guards or modes", "guards, or what a change of mode costs", "rules", 1),
    *_moves("kernel", "patch"),
    Key("f", "tree", "f", "tree", "name the folder of a kernel's sources", "kernel", 1),
    Key("c", "check", "c", "check", "what each patch would do to the tree; nothing is changed", "kernel", 1),
    Key("x", "mark", "x", "choose", "take an optional patch along, or leave it", "kernel", 2),
    Key("a", "apply", "a", "apply", "check again, then apply what fits, after it is confirmed", "kernel", 1),
    Key("o", "other", "o", "patches or kernels", "patches, or the running and installed kernels", "kernel", 1),
    *_moves("settings", "setting"),
    Key("enter", "change", "enter", "change", "type another value; it is checked, then saved", "settings", 1),
    Key("d", "default", "d", "default", "take the setting out of the file", "settings", 1),
    *_moves("boards", "board"),
    Key("enter", "watch", "enter", "watch", "show this board on the other pages", "boards", 1),
    *_moves("help", "line"),
)  # fmt: skip

EDITING: tuple[tuple[str, str], ...] = (
    ("enter", "send or accept"),
    ("esc", "leave the line; in the chat also stop the answer"),
    ("up, down", "earlier questions, in the chat"),
    ("ctrl+u ctrl+k ctrl+w", "clear before or after the cursor, or a word"),
)
"""Keys while a line is typed; every other key is text there."""


def keys_for(where: str) -> tuple[Key, ...]:
    return tuple(key for key in KEYS if key.where == where)
