"""The one command that is run for another board: the user's own ssh, and a stream of samples there."""

from __future__ import annotations

import re

from orkbench_tui.errors import UsageError
from orkbench_tui.settings import Settings

__all__ = ["checked_host", "watch_command"]

# A name of ~/.ssh/config, user@host, an address, ssh://user@host:port. Never an option, never a shell's word.
_HOST = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9._@:%\[\]/+-]{0,254}", re.ASCII)
_MIN_INTERVAL_S = 0.2


def checked_host(host: str) -> str:
    """
    Raises:
        UsageError: it begins with ``-``, is empty, or holds what no host has.
    """
    if host.startswith("-"):
        raise UsageError(f"--board {host!r}", why="a host does not begin with -", do="name it as for ssh")
    if not _HOST.fullmatch(host):
        raise UsageError(
            f"--board {host!r}",
            why="a host has letters, digits and . _ @ : % [ ] / + -",
            do="name it as for ssh, or give it a name in ~/.ssh/config",
        )
    return host


def watch_command(host: str, settings: Settings, interval_s: float) -> tuple[str, ...]:
    """Words for ssh: no terminal, no questions, ends by itself when the line is dead."""
    return (
        "ssh",
        "-T",
        "-o", "BatchMode=yes",
        "-o", "ConnectTimeout=10",
        "-o", "ServerAliveInterval=5",
        "-o", "ServerAliveCountMax=3",
        checked_host(host),
        "--",
        settings.remote_ork,
        "board", "watch", "--json", "--kernel-log",
        "--target", settings.remote_target,
        "--interval", f"{max(interval_s, _MIN_INTERVAL_S):g}",
    )  # fmt: skip
