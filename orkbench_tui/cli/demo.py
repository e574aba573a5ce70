"""``ork demo``: the tour that needs no terminal and asks nothing."""

from __future__ import annotations

import typer

from orkbench_tui.cli import diagnostics, output

app = typer.Typer(add_completion=False, rich_markup_mode=None)

QUESTION = "Explain in one sentence why the sky is blue."
LONGEST_ANSWER = 96


@app.command()
def demo() -> None:
    """A tour without questions: one status page, one short answer."""
    from orkbench_tui.cli import board, run

    output.emit("# ork board status")
    board.status()
    output.emit(f'\n# ork run chat --once "{QUESTION}"')
    run.chat(once=QUESTION, temperature=0.0, max_tokens=LONGEST_ANSWER)
    diagnostics.note("live screens: ork-tui; a conversation: ork run chat; all commands: ork --help")
