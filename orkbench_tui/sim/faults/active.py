"""Which faults are set on a board, with their variants. Thread-safe, and outlives reboots."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from orkbench_tui.sim.faults.catalogue import CATALOGUE, Event, Fault

__all__ = ["ActiveFaults", "parse_fault"]


def parse_fault(text: str, faults: Mapping[str, Fault] = CATALOGUE) -> tuple[Fault, str]:
    """The fault and its variant from ``NAME`` or ``NAME=VALUE``, of all there are or of one board's ``faults``.

    Raises:
        KeyError: no such fault.
        ValueError: it has no such variant.
    """
    name, _, value = text.partition("=")
    fault = faults[name]
    if not value:
        return fault, fault.values[0] if fault.values else ""
    if value not in fault.values:
        raise ValueError(value)
    return fault, value


class ActiveFaults:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def value(self, name: str) -> str:
        """The variant that is set; "" when the fault is not set or has none."""
        return self._values.get(name, "")

    def all(self) -> dict[str, str]:
        with self._lock:
            return dict(self._values)

    def set(self, name: str, value: str) -> None:
        with self._lock:
            self._values[name] = value

    def clear(self, name: str) -> bool:
        with self._lock:
            return self._values.pop(name, None) is not None

    def end(self, event: Event) -> list[str]:
        """Forget every fault the event ends; their names."""
        with self._lock:
            ended = [name for name in self._values if event in CATALOGUE[name].ended_by]
            for name in ended:
                del self._values[name]
            return ended
