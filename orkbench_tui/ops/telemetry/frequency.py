"""Clocks: devfreq (NPU, DDR) in Hz, cpufreq policies in kHz, and the lists of CPUs they serve."""

from __future__ import annotations

import re

__all__ = ["parse_cpu_list", "parse_devfreq_load", "parse_frequency_list", "parse_hz", "parse_khz"]

_NUMBER = re.compile(r"\s*([0-9]{1,15})\s*", re.ASCII)
_LOAD = re.compile(r"\s*([0-9]{1,6})@([0-9]{1,15})Hz\s*", re.ASCII)
_MAX_CPUS = 4096


def parse_hz(text: str) -> int | None:
    """A frequency in Hz; ``undefined`` and damaged text give None."""
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None


def parse_khz(text: str) -> int | None:
    """A cpufreq value in kHz, returned in Hz."""
    value = parse_hz(text)
    return None if value is None else value * 1000


def parse_devfreq_load(text: str) -> tuple[int, int] | None:
    """``14@2112000000Hz`` as (percent, Hz)."""
    found = _LOAD.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def parse_frequency_list(text: str) -> tuple[int, ...]:
    """Available frequencies as printed, ascending."""
    return tuple(
        sorted({int(word) for word in text.split() if word.isascii() and word.isdigit() and len(word) < 16})
    )


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """``0 1 2 3`` or ``0-3,6`` as CPU numbers, ascending; damaged parts are left out."""
    cpus: set[int] = set()
    for word in text.replace(",", " ").split():
        first, dash, last = word.partition("-")
        if not (first.isascii() and first.isdigit() and len(first) < 5):
            continue
        if not dash:
            cpus.add(int(first))
        elif last.isascii() and last.isdigit() and len(last) < 5:
            cpus.update(range(int(first), min(int(last), _MAX_CPUS) + 1))
    return tuple(sorted(cpus))
