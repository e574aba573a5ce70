"""``ork board power-cycle``: the user's own power command, after the board's name was typed."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from orkbench_tui.cli import output

__all__ = ["power_cycle"]


def power_cycle(
    board: Annotated[str, typer.Argument(help="What you call the board; {board} in power_command.")],
    confirm: Annotated[str, typer.Option("--confirm", help="Do not ask; the board's name again.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command and run nothing.")] = False,
) -> None:
    """Run the setting power_command, which cuts a board's power and gives it back. Never done by itself."""
    from orkbench_tui.cli.guarded import asker
    from orkbench_tui.ops import power_hook
    from orkbench_tui.settings import Settings

    words = power_hook.power_words(Settings.load().power_command, board)
    output.emit(f"{'would run' if dry_run else 'runs'} {shlex.join(words)}")
    if dry_run:
        return
    power_hook.require_named(board, confirm=confirm, ask=asker())
    said = power_hook.power_cycle(words)
    output.emit(f"done{': ' + said if said else ''}; `ork board status` tells when the board is back")
