"""One answer to standard output: streamed text, or the JSON document; figures go to standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.answer_report import answer_data, end_note, left_out_note, stats_line

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Answer

__all__ = ["answer_once"]


def answer_once(
    session: ModelSession,
    schema: str,
    json: bool,
    ask: Callable[[Callable[[str], None], Callable[[], bool]], Answer],
) -> Answer:
    """One answer to standard output: streamed text, or the JSON document; figures go to standard error.

    Raises:
        KeyboardInterrupt: Ctrl-C ended it; what there is of it was shown.
    """
    from orkbench_tui.cli.quiet_terminal import QuietTerminal
    from orkbench_tui.cli.stop_switch import StopSwitch
    from orkbench_tui.cli.word_wrap import WordWrap

    streamed = False
    wrap = WordWrap()

    def show(piece: str) -> None:
        nonlocal streamed
        if not json:
            streamed = True
            output.emit(wrap.push(piece), end="")

    before = session.npu_use()
    try:
        with QuietTerminal(), StopSwitch() as halt:
            answer = ask(show, halt)
    finally:
        if streamed:
            output.emit(wrap.finish())
    use = session.npu_use().since(before)
    if json:
        output.emit_json(schema, answer_data(answer, use, session), source=session.source)
    if answer.stop_reason == "interrupted":
        raise KeyboardInterrupt
    if json:
        return answer
    if note := end_note(answer):
        diagnostics.note(note)
    if note := left_out_note(answer, 0):
        diagnostics.note(note)
    diagnostics.note(stats_line(answer, use, session.source))
    return answer
