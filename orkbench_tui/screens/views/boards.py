"""Many boards, one row each: load, heat, state, when last seen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.remote.link import Condition, LinkState
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import ago, byte_size, percent
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, dimmed, foreign, line
from orkbench_tui.screens.views.section import title

__all__ = ["boards_lines", "boards_spoken"]

_HOST = (8, 24)
_TOLD = 4
_ROOM_TO_TELL = 12


def boards_lines(
    states: Sequence[LinkState],
    chosen: int,
    shown_host: str,
    now_unix_s: float,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Title, head, then rows; ``shown_host`` is the board the other pages are about."""
    room = max(1, height - 2 - (_TOLD if height >= _ROOM_TO_TELL else 0))
    wide = min(max([cell_len(state.host) for state in states], default=0), _HOST[1])
    wide = max(wide, _HOST[0])
    head = f"   {'board':<{wide}} {'NPU %':<12}{'NPU C':>6}{'RAM':>9}{'seen':>12}  state"
    first = first_shown(chosen, len(states), room)
    rows = [
        _row(state, index == chosen, state.host == shown_host, now_unix_s, wide, glyphs)
        for index, state in enumerate(states)
    ]
    live = sum(state.condition is Condition.LIVE for state in states)
    count = line((f"{live} of {len(states)} answering", "dim"))
    lines = [title("Boards", count, width, glyphs), line((head[:width], "dim")), *rows[first : first + room]]
    if not states or height < _ROOM_TO_TELL:
        return lines
    state = states[min(chosen, len(states) - 1)]
    said, role = _state(state)
    told = textwrap.wrap(f"{foreign(state.host)}: {said}", width - 2)[: _TOLD - 1]
    lines += [()] * (height - _TOLD - len(lines))
    return [*lines, title("Chosen", (), width, glyphs), *[line((f" {part}", role)) for part in told]]


def _row(state: LinkState, chosen: bool, shown: bool, now_unix_s: float, wide: int, glyphs: Glyphs) -> Line:
    sample = state.sample
    mark = f"{glyphs.cursor if chosen else ' '}{'*' if shown else ' '} "
    figures = _figures(sample)
    seen = "never" if state.seen_unix_s is None else ago(state.seen_unix_s, now_unix_s)
    if state.condition is Condition.LIVE:
        seen = "now" if state.seen_unix_s is not None and now_unix_s - state.seen_unix_s < 5 else seen
    host = foreign(state.host)[:wide]
    said, role = _state(state)
    cells = f"{host:<{wide}} {figures}{seen:>12}  "
    spans = (Span(mark, "key" if chosen else "text"), Span(cells), Span(said, role))
    # Figures of a board that does not answer are old.
    return spans if state.condition is Condition.LIVE else (spans[0], *dimmed((spans[1],)), spans[2])


def _figures(sample: Sample | None) -> str:
    if sample is None:
        return f"{'?':<12}{'?':>6}{'?':>9}"
    loads = " ".join(f"{percent(core.load_pct):>3}" for core in sample.npu.cores) or "?"
    heat = sample.temperature("npu", "soc")
    used = byte_size(sample.memory.used_bytes) if sample.memory else "?"
    return f"{loads[:12]:<12}{'?' if heat is None else f'{heat:.0f}':>6}{used:>9}"


def _state(state: LinkState) -> tuple[str, str]:
    if state.condition is Condition.UNREACHABLE:
        return f"UNREACHABLE {foreign(state.reason)}".rstrip(), "error"
    if state.condition is Condition.CONNECTING or state.sample is None:
        return "CONNECTING", "notice"
    head = headline(state.sample)
    role = (
        "error"
        if head.severity >= Severity.ERROR
        else "warning"
        if head.severity >= Severity.WARNING
        else "text"
    )
    return f"{head.word} {foreign(head.reason)}".rstrip(), role


def boards_spoken(states: Sequence[LinkState], shown_host: str, now_unix_s: float) -> list[str]:
    """One line a board; ``shown_host`` is the one the other pages are about."""
    return [_said(state, state.host == shown_host, now_unix_s) for state in states]


def _said(state: LinkState, shown: bool, now_unix_s: float) -> str:
    sample = state.sample
    parts = [_state(state)[0]]
    if sample is not None:
        loads = " ".join(percent(core.load_pct) for core in sample.npu.cores) or "?"
        heat = sample.temperature("npu", "soc")
        used = byte_size(sample.memory.used_bytes) if sample.memory else "?"
        old = "" if state.condition is Condition.LIVE else "last known: "
        parts.append(
            f"{old}NPU load {loads} percent, NPU {'?' if heat is None else f'{heat:.0f}'} C, RAM used {used}"
        )
    seen = "never" if state.seen_unix_s is None else ago(state.seen_unix_s, now_unix_s)
    parts.append(f"seen {seen}")
    return f"board {foreign(state.host)}{', shown on the other pages' if shown else ''}: {'; '.join(parts)}"
