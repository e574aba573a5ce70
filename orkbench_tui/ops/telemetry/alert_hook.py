"""A user's own command, run when an alert begins or ends: without a shell, seldom, never waited for."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.telemetry.alerts import Event
from orkbench_tui.plain_text import one_line

__all__ = ["Hook", "facts", "hook_words"]

_EVERY_S = 10.0
_TEXT = 500


def hook_words(text: str) -> list[str]:
    """The words of a command line.

    Raises:
        UsageError: there are none, or a quote is open.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read the alert command {text!r}", why=str(error)) from error
    if not words:
        raise UsageError("the alert command is empty", do="give a program and its words")
    return words


def facts(event: Event, hostname: str) -> dict[str, str]:
    """What the command finds in its environment. Foreign text is one printable line."""
    return {
        "ORKBENCH_ALERT": event.alert,
        "ORKBENCH_ALERT_STATE": "over" if event.over else "begun",
        "ORKBENCH_ALERT_SEVERITY": event.severity.word,
        "ORKBENCH_ALERT_TEXT": one_line(event.text, _TEXT),
        "ORKBENCH_ALERT_NEXT": event.next_step,
        "ORKBENCH_ALERT_VALUE": f"{event.value:g}",
        "ORKBENCH_ALERT_UNIX_S": f"{event.unix_s:.0f}",
        "ORKBENCH_ALERT_HOST": one_line(hostname, _TEXT),
    }


class Hook:
    """Starts the command at most once in ten seconds for each alert, and one at a time for each.

    The facts travel in the environment, so that no text of a log or a file can become a word of the command.
    """

    def __init__(
        self,
        words: list[str],
        *,
        environment: Mapping[str, str] = os.environ,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._words, self._environment, self._steady = words, environment, steady
        self._started_s: dict[tuple[str, bool], float] = {}
        self._running: dict[tuple[str, bool], subprocess.Popen[bytes]] = {}

    def run(self, event: Event, hostname: str) -> str:
        """Start it; the reason when it is not started, "" when it is."""
        key, now_s = (event.alert, event.over), self._steady()
        last_s = self._started_s.get(key)
        if last_s is not None and now_s - last_s < _EVERY_S:
            return "it ran less than 10 s ago"
        before = self._running.get(key)
        if before is not None and before.poll() is None:
            return "the one before still runs"
        self._started_s[key] = now_s
        try:
            self._running[key] = subprocess.Popen(
                self._words,
                env={**self._environment, **facts(event, hostname)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"{self._words[0]}: {error.strerror or error}"
        return ""

    def settle(self, timeout_s: float) -> None:
        """Wait a moment for commands that run, so that a program that ends does not leave them unseen."""
        deadline_s = self._steady() + timeout_s
        for program in self._running.values():
            try:
                program.wait(max(0.0, deadline_s - self._steady()))
            except subprocess.TimeoutExpired:
                continue
