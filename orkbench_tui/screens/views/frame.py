"""Top and bottom line, and what stands there when the terminal is too small."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.wording import clock_time
from orkbench_tui.screens.keys import PAGES, Key, keys_for
from orkbench_tui.screens.layout import COMPACT
from orkbench_tui.screens.text_line import Line, Span, beside, fit, foreign, line, width_of
from orkbench_tui.screens.view_state import ViewState

__all__ = ["badges", "footer_line", "header_line", "page_footer", "too_small"]


def badges(state: ViewState) -> list[tuple[str, str]]:
    """(word, role): where the figures come from, whether they are fresh, how the board is."""
    sample, found = state.sample, []
    if sample is not None:
        found.append((f"{sample.source.upper()} {sample.source_detail}".rstrip(), "badge"))
    if state.lost:
        found.append(("NO BOARD", "badge_error"))
    elif sample is None:
        found.append(("WAIT", "badge_warn"))
    elif state.stale:
        found.append(("STALE", "badge_warn"))
    if state.frozen:
        found.append(("FROZEN", "badge_warn"))
    # How the board is now is not known from an old sample.
    if sample is not None and not state.lost and not state.stale:
        head = headline(sample)
        role = "badge_ok" if head.severity < Severity.WARNING else "badge_warn"
        found.append((head.word, "badge_error" if head.severity >= Severity.ERROR else role))
    return found


def header_line(state: ViewState, width: int) -> Line:
    """Host, then as many whole names as fit (the reason for trouble first), badges, time of the sample."""
    sample, glyphs = state.sample, state.glyphs
    right: list[Span] = []
    for word, role in badges(state):
        right += [Span(" ", "header"), Span(f"[{word}]", role)]
    taken = f" {clock_time(sample.unix_s)} " if sample is not None else " "
    right.append(Span(taken, "header_dim"))
    left: list[Span] = [Span(" ork-tui ", "name")]
    if sample is None:
        left.append(Span("no board yet" if state.lost else "connecting", "header_dim"))
        return beside(left, right, width, glyphs.cut, "header")
    identity = sample.identity
    left.append(Span(foreign(identity.hostname) or "?", "header"))
    reason = "" if state.lost or state.stale else headline(sample).reason
    driver = f"{identity.driver} {identity.driver_version}".strip() or "no NPU driver"
    room = width - width_of(right) - 1
    for name in (reason, identity.model or identity.soc, driver, identity.kernel):
        span = Span(f" {glyphs.dot} {foreign(name)}", "header" if name == reason else "header_dim")
        if name and (width_of([*left, span]) <= room or name == reason):
            left.append(span)
    return beside(left, right, width, glyphs.cut, "header")


def footer_line(state: ViewState, width: int) -> Line:
    """The dashboard's keys; while something must be said (no board, a simulator was started) that."""
    # What answers a key just pressed goes first; it is gone after some seconds.
    said = state.notice or state.lost
    if said:
        return _saying(state, said, width, role="notice" if state.notice else "")
    interval = line(("+/-", "key"), (f" interval {state.interval_s:g} s ", "dim"))
    pages = (f"{PAGES[0].key}-{PAGES[8].key} {PAGES[9].key}", "pages")
    own = "" if state.own_cpu_pct is None or width < 80 else f"own cpu {state.own_cpu_pct:.1f} % "
    first = [_shown(key) for key in keys_for("everywhere") if key.footer in (1, 2)]
    rest = [_shown(key) for key in _by_footer("everywhere") if key.footer > 2]
    room = width - 2 - width_of(interval) - cell_len(own)
    spans = [Span(" "), *_keys([*first, pages, *rest], room), *interval]
    return beside(spans, line((own, "dim")), width, state.glyphs.cut)


def page_footer(state: ViewState, where: str, said: str, width: int) -> Line:
    """A page's own keys, most useful first; what the page or the app has to say stands instead of them."""
    # What answers a key just pressed goes before what the page says all the time.
    said = state.notice or said
    if said or state.lost:
        return _saying(state, said or state.lost, width, role="notice" if said else "warning")
    # The help says how to leave it in its own words.
    general = [("esc", "back"), ("q", "quit"), ("?", "help")]
    keys = _by_footer(where)
    own = [_shown(key) for key in keys if key.footer == 1]
    more = [_shown(key) for key in keys if key.footer > 1]
    work = line((f"{foreign(state.work)} ", "notice")) if state.work else ()
    shown = _keys([*own, *general[:1], *more, *general[1:]], width - 3 - width_of(work))
    spans = [Span(" "), *shown]
    return beside(spans, work, width, state.glyphs.cut)


def _saying(state: ViewState, said: str, width: int, role: str = "") -> Line:
    role = role or ("warning" if state.lost else "notice")
    mark = state.glyphs.severity[3 if role == "warning" else 2]
    leave = line(("q", "key"), (" quit ", "dim"))
    if cell_len(said) > width - 12:
        # Asides go first; brackets that are keys have no word in them.
        said = re.sub(r" \(\w[^)]*\)", "", said)
    return beside(line((f" {mark} {foreign(said)}", role)), leave, width, state.glyphs.cut)


def _by_footer(where: str) -> list[Key]:
    return sorted((key for key in keys_for(where) if key.footer), key=lambda key: key.footer)


def _shown(key: Key) -> tuple[str, str]:
    return key.shown, key.label


def _keys(keys: Sequence[tuple[str, str]], room: int) -> list[Span]:
    """As many keys with their labels as fit whole."""
    spans: list[Span] = []
    for shown, label in keys:
        both = [Span(shown, "key"), Span(f" {label}  ", "dim")]
        if width_of([*spans, *both]) > room:
            continue
        spans += both
    return spans


def too_small(width: int, height: int) -> list[Line]:
    """One line that says the size needed, whatever little room there is."""
    text = f"needs {COMPACT[0]}x{COMPACT[1]}, is {width}x{height}; q quits"
    return [fit(line((text, "warning")), width, "")] + [fit((), width)] * (height - 1)
