"""Publishes what this process holds on the NPU, for other programs to show.

The stock driver exports no domain or IOVA occupancy, so each process that uses this driver writes its
own to ``<folder>/<pid>.json``. Readers drop files of processes that no longer live.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from orkbench_tui.driver.domains import Domains
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.submit import Counters

__all__ = ["Publisher", "active_elsewhere"]

INTERVAL_S = 0.5
_RECENT_S = 4 * INTERVAL_S


def active_elsewhere(folder: Path) -> bool:
    """Whether another process has run something on the NPU within the last two seconds."""
    newest = time.time() - _RECENT_S
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            pid, _, kind = entry.name.partition(".")
            if kind != "json" or not (pid.isascii() and pid.isdigit()) or int(pid) == os.getpid():
                continue
            if entry.stat(follow_symlinks=False).st_mtime >= newest and Path(f"/proc/{pid}").exists():
                return True
    return False


class Publisher:
    """Writes at most every half second; failures to write never disturb the work."""

    def __init__(self, folder: Path, *, device: str, source: str, command: str) -> None:
        self._path = folder / f"{os.getpid()}.json"
        self._head = {
            "pid": os.getpid(),
            "command": command,
            "device": device,
            "source": source,
            "started": time.time(),
        }
        self._last = float("-inf")
        _sweep(folder)

    def publish(
        self, memory: Memory, counters: Counters, *, domains: Domains | None = None, force: bool = False
    ) -> None:
        now = time.monotonic()
        if not force and now - self._last < INTERVAL_S:
            return
        self._last = now
        record = {
            **self._head,
            "domains": [asdict(use) for use in memory.domains()],
            "counters": {"submits": counters.submits, "tasks": counters.tasks, "hw_ns": counters.hw_ns},
            **({} if domains is None else _switching(domains, memory)),
        }
        temporary = self._path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_text(json.dumps(record))
            temporary.replace(self._path)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove our user's publications whose processes ended without doing so."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            pid, _, kind = entry.name.partition(".")
            if not (pid.isascii() and pid.isdigit() and len(pid) < 10 and kind in ("json", "tmp")):
                continue
            ours = entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if ours and not Path(f"/proc/{pid}").exists():
                Path(entry.path).unlink(missing_ok=True)


def _switching(domains: Domains, memory: Memory) -> dict[str, object]:
    """Which domain is active and what changing it has cost; times are this machine's."""
    switches = domains.counters
    return {
        "active_domain": domains.active,
        "switches": {
            "total": switches.total,
            "first_touch": switches.first_touch,
            "steady": switches.steady,
            "implicit": memory.implicit_switches,
            "switch_s": switches.switch_s,
            "settle_s": switches.settle_s,
            "reap_s": switches.reap_s,
        },
    }
