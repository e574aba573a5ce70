"""A user's own way to cut a board's power and give it back: for a board that answers nothing any more.

Nothing in this program starts it by itself, no rung of recovery has it, and it runs only after the board's name was
typed. The command runs on the machine one sits at, without a shell.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

from orkbench_tui.errors import RefusedError, UnhealthyError, UsageError
from orkbench_tui.plain_text import one_line

__all__ = ["power_cycle", "power_words", "require_named"]

_WAIT_S = 120.0
_TEXT = 300


def power_words(command: str, board: str) -> list[str]:
    """The words of the command, each ``{board}`` replaced by the board's name.

    Raises:
        RefusedError: no command is set.
        UsageError: it cannot be cut into words.
    """
    if not command.strip():
        raise RefusedError(
            "no power command is set",
            why="a hard wedge ends with the power alone, and this program has no switch of its own",
            do="set power_command, for example to the tool of a switchable socket; or pull the plug",
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"cannot read power_command {command!r}", why=str(error)) from error
    return [word.replace("{board}", board) for word in words]


def require_named(board: str, *, confirm: str, ask: Callable[[str], str] | None) -> None:
    """Return when the board's name was given again; ``ask`` is None without a terminal.

    Raises:
        RefusedError: it was not; nothing was run.
    """
    if confirm == board:
        return
    if confirm:
        raise RefusedError(f"--confirm {confirm!r} is not this board", why=f"it is {board!r}")
    if ask is None:
        raise RefusedError(
            "the power cycle was not confirmed",
            why="there is no terminal to ask on",
            do=f"add --confirm {shlex.quote(board)}",
        )
    if ask(f"unsaved work on {board} is lost; type {board!r} to go on: ") != board:
        raise RefusedError("the power cycle was not confirmed", why="nothing was changed")


def power_cycle(words: list[str], *, wait_s: float = _WAIT_S) -> str:
    """Run it and wait; the last line it printed.

    Raises:
        UnhealthyError: it cannot be started, takes too long, or ends with anything but 0.
    """
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=wait_s, check=False
        )
    except OSError as error:
        raise UnhealthyError(f"power command {words[0]} cannot be started", why=str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise UnhealthyError(
            f"power command {words[0]} did not end", why=f"ended after {wait_s:g} s; the power may be off"
        ) from error
    said = (done.stderr if done.returncode else done.stdout).decode("utf-8", "replace").strip().splitlines()
    last = one_line(said[-1], _TEXT) if said else ""
    if done.returncode:
        raise UnhealthyError(f"power command {words[0]} ended with {done.returncode}", why=last)
    return last
