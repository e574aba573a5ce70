"""Alerts beside a stream of samples: told, rung and handed to the user's command."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.telemetry.alerts import Event
    from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["AlertDesk"]

_SETTLE_S = 5.0


class AlertDesk:
    """``began`` is whether any alert has begun so far."""

    def __init__(self, settings: Settings, command: str | None) -> None:
        """
        Raises:
            UsageError: the command cannot be read.
        """
        from orkbench_tui.ops.telemetry.alert_hook import Hook, hook_words
        from orkbench_tui.ops.telemetry.alerts import Thresholds, Watcher

        wanted = settings.alert_command if command is None else command
        self._hook = Hook(hook_words(wanted)) if wanted or command is not None else None
        self._watcher = Watcher(
            Thresholds(
                settings.alert_temperature_c,
                settings.alert_memory_pct,
                settings.alert_cma_pct,
                settings.alert_stuck_s,
                settings.alert_hung_s,
            )
        )
        self.began = False

    def take(self, sample: Sample) -> list[Event]:
        """The alerts this sample begins or ends; the command is started for each."""
        events = self._watcher.take(sample)
        for event in events:
            self.began |= not event.over
            if self._hook and (why := self._hook.run(event, sample.identity.hostname)):
                diagnostics.note(f"alert command not started for {event.alert}: {why}")
        return events

    def document(self, events: list[Event]) -> dict[str, Any]:
        return {
            "active": list(self._watcher.active),
            "events": [{**dataclasses.asdict(event), "severity": event.severity.word} for event in events],
        }

    def tell(self, events: list[Event]) -> None:
        """One line each; the bell for those that begin."""
        from orkbench_tui.ops.telemetry.wording import clock_time

        for event in events:
            word = "over" if event.over else f"ALERT {event.severity.word}"
            said = event.text if event.over else f"{event.alert}: {event.text}; next: {event.next_step}"
            output.emit(f"{clock_time(event.unix_s)}  {word}  {said}")
        if any(not event.over for event in events):
            output.bell()

    def close(self) -> None:
        if self._hook:
            self._hook.settle(_SETTLE_S)
