"""Operations: what can be done, the plan of one, its progress, its result."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orkbench_tui.ops.guard.declaration import Operation, Risk
from orkbench_tui.ops.guard.journal import Run
from orkbench_tui.ops.kernel.registry import KERNEL_OPERATIONS
from orkbench_tui.ops.operations.drop_caches import LEVELS
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = [
    "CHOICES",
    "Choice",
    "OperationsShown",
    "journal_row",
    "operations_lines",
    "operations_spoken",
    "with_progress",
]

_COUNTDOWN = re.compile(r"(waiting for .*: )\d+ s left")


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: an operation with the words that choose a form of it, and ``command``, which does the same.

    ``undo`` marks the form that puts back; ``asks`` names the word that a person must give first.
    """

    operation: Operation
    command: str
    words: Mapping[str, str] = field(default_factory=dict)
    undo: bool = False
    asks: str = ""

    @property
    def label(self) -> str:
        said = [
            f"{name} {value}" if value.isdigit() else name if value == "yes" else value
            for name, value in self.words.items()
        ]
        return " ".join([self.operation.name, *said])


# The forms of the operations that have some, each with what its command is given; every other is one row.
_FORMS: dict[str, tuple[tuple[dict[str, str], str], ...]] = {
    "drop-caches": tuple(({"level": level}, f" --level {level}") for level in LEVELS),
    "governors": (({"mode": "performance"}, " performance"), ({"mode": "restore"}, " restore")),
    "irq-affinity": (({"mode": "little"}, " little"), ({"mode": "restore"}, " restore")),
    "drain": (({}, ""), ({"wait": "only"}, " --wait")),
    "reboot": (({}, ""), ({"anyway": "yes"}, " --anyway")),
    "kernel-rollback": (({"to": "previous"}, ""), ({"to": "stock"}, " --stock")),
    "kernel-deploy": (({}, " FOLDER"),),
}
# Harmless, and still nothing puts back what they did.
_ONE_WAY = frozenset(
    operation.name
    for operation in OPERATIONS.values()
    if operation.risk is Risk.REVERSIBLE and operation.lasting
)
_ASKS = {"kernel-deploy": "from"}

CHOICES: tuple[Choice, ...] = tuple(
    Choice(
        operation,
        f"{operation.called}{given} --dry-run",
        words,
        words.get("mode") == "restore",
        _ASKS.get(operation.name, ""),
    )
    for operation in (*OPERATIONS.values(), *KERNEL_OPERATIONS.values())
    for words, given in _FORMS.get(operation.name, (({}, ""),))
)

_RISK = {
    Risk.REVERSIBLE: ("can be undone", "dim"),
    Risk.INTERRUPTS: ("interrupts others", "warning"),
    Risk.UNREACHABLE: ("board may vanish", "error"),
}
_NOT_UNDONE = ("cannot be undone", "dim")

_CONFIRM = {
    Risk.REVERSIBLE: "y",
    Risk.INTERRUPTS: "the host name",
    Risk.UNREACHABLE: "the host name and a phrase",
}


def _risk(operation: Operation) -> tuple[str, str]:
    return _NOT_UNDONE if operation.name in _ONE_WAY else _RISK[operation.risk]


@dataclass(frozen=True, slots=True)
class OperationsShown:
    """``below`` are the lines under the list, each with its role; ``heading`` names them; ``scroll`` is how far."""

    chosen: int = 0
    heading: str = "What it does"
    below: tuple[tuple[str, str], ...] = ()
    scroll: int = 0
    from_end: bool = False


def operations_lines(
    shown: OperationsShown, state: ViewState, width: int, height: int, unfinished: str = ""
) -> list[Line]:
    """``unfinished`` says that an operation was interrupted; "" for none."""
    glyphs = state.glyphs
    # While a plan or a result is read it gets the room; the list needs only its chosen row.
    rows = min(len(CHOICES), 4 if shown.below and height < 34 else max(4, height // 2 - 1))
    right = (
        line((f"{foreign(unfinished)} (v)", "warning"))
        if unfinished
        else line(("nothing changes before it is confirmed", "dim"))
    )
    lines = [title("Operations", right, width, glyphs)]
    start = first_shown(shown.chosen, len(CHOICES), rows)
    for index, choice in enumerate(CHOICES[start : start + rows], start):
        lines.append(_choice(choice, index == shown.chosen, state, width))
    place = line((f"{shown.chosen + 1} of {len(CHOICES)}", "dim"))
    lines.append(title(shown.heading, place, width, glyphs))
    below = _wrapped(shown.below or declaration(CHOICES[shown.chosen]), width)
    room = max(1, height - len(lines))
    last = max(0, len(below) - room)
    first = last if shown.from_end else min(shown.scroll, last)
    lines += below[first : first + room]
    if len(below) > room and not shown.from_end:
        mark = f" {first + room} of {len(below)} lines; PgDn, PgUp "
        lines[-1] = fit(line((mark, "dim")), width)
    return lines


def journal_row(run: Run) -> tuple[str, str]:
    """One run, for a page that wraps: when, where, what, how it ended; its role."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started))
    what = " ".join((run.operation, *run.words.values()))
    outcome = run.outcome or "interrupted"
    told = f", {run.text}" if run.text and outcome != "done" else ""
    role = {"done": "text", "failed": "error"}.get(outcome, "warning")
    return f"{when} {run.source}: {what}: {outcome}{told}", role


def with_progress(rows: Sequence[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """``rows`` and one more; a countdown takes the place of its own last line."""
    head = _COUNTDOWN.match(text)
    last = _COUNTDOWN.match(rows[-1][0]) if rows else None
    kept = rows[:-1] if head and last and head[1] == last[1] else rows
    return [*kept, (text, "text")]


def _choice(choice: Choice, chosen: bool, state: ViewState, width: int) -> Line:
    risk, role = _risk(choice.operation)
    name = f"{choice.label:<25}"
    root = "root" if choice.operation.root and not choice.operation.root.startswith("nothing") else ""
    spans = line(
        (f" {name}", "value"), (f"{risk:<18}", role), (f"{root:<6}", "dim"), (choice.operation.title, "text")
    )
    if not chosen:
        return spans
    return fit((Span(state.glyphs.cursor + plain(spans)[1:], "cursor"),), width, state.glyphs.cut, "cursor")


def declaration(choice: Choice) -> tuple[tuple[str, str], ...]:
    """What the declaration of an operation says, before any board is read."""
    operation = choice.operation
    rows = [(f"{operation.title}: {operation.why}", "text")]
    rows += [(f"{name}: {meaning}", "dim") for name, meaning in operation.options]
    rows.append((f"needs root: {operation.root or 'nothing'}", "text"))
    rows.append((f"cannot be undone: {operation.lasting or 'nothing, it is undone as a whole'}", "text"))
    rows.append(
        (f"confirmed by typing {_CONFIRM[operation.risk]}; enter shows the plan for this board", "text")
    )
    rows.append((f"the same without screens: {choice.command}", "dim"))
    return tuple(rows)


def _wrapped(rows: Sequence[tuple[str, str]], width: int) -> list[Line]:
    lines: list[Line] = []
    for text, role in rows:
        indent = len(text) - len(text.lstrip())
        parts = textwrap.wrap(foreign(text), max(width - 2 - indent, 10), subsequent_indent="  ") or [""]
        lines += [line((" " * (1 + indent) + part, role)) for part in parts]
    return lines


def operations_spoken(shown: OperationsShown) -> list[str]:
    said = ["Operations. Each command here shows its plan and changes nothing."]
    for choice in CHOICES:
        risk, _ = _risk(choice.operation)
        said.append(f"{choice.label}: {choice.operation.title}, {risk}; `{choice.command}`.")
    return [*said, *[text for text, _ in shown.below]]
