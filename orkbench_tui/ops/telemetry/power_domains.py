"""``pm_genpd_summary``: which power domains of the NPU are on."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PowerDomain", "parse_power_domains"]

_LINE = re.compile(r"(\S{0,40}npu\S{0,40})\s+(on|off)(?:-[0-9]+)?(?:\s.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PowerDomain:
    name: str
    on: bool


def parse_power_domains(text: str) -> tuple[PowerDomain, ...] | None:
    """The NPU's domains in the order printed, none where the table has none; None for a text of another form."""
    if not text.startswith("domain"):
        return None
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return tuple(PowerDomain(match[1], match[2] == "on") for match in found if match)
