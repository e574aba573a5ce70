"""A kernel's configuration, as /boot/config-RELEASE and /proc/config.gz have it."""

from __future__ import annotations

import re

__all__ = ["parse_configuration"]


def parse_configuration(text: str) -> dict[str, str]:
    """Symbol without CONFIG_ to its value, ``n`` for one that is said not to be set."""
    found = dict(re.findall(r"^CONFIG_([A-Z0-9_]+)=(.+)$", text, re.MULTILINE))
    return found | dict.fromkeys(re.findall(r"^# CONFIG_([A-Z0-9_]+) is not set", text, re.MULTILINE), "n")
