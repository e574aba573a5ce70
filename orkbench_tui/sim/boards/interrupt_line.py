"""A row of /proc/interrupts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["InterruptLine"]


@dataclass(frozen=True, slots=True)
class InterruptLine:
    """The kernel's number, the interrupt controller's number, the devices on it."""

    number: int
    hardware: int
    names: str
