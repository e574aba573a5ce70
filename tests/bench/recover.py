"""Recovery from each fault of the simulated board: ``python -m tests.bench recover``.

In a home of its own. What is healed must end healthy; what only a reboot or power cycle ends must say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEALED = ("wedge", "page-cache-full", "reset-storm", "busy-other-process")
BEYOND = ("hard-wedge", "iova-leak", "domain-switch-timeout", "import-no-memory", "process-stuck-D")


def _ork(home: str, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home, "XDG_CACHE_HOME": home}
    return subprocess.run(
        [sys.executable, "-m", "orkbench_tui.cli.main", *words],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **own},
    )


def _line(name: str, answer: subprocess.CompletedProcess[str], seconds: float) -> str:
    found: dict[str, Any] = json.loads(answer.stdout)["data"]
    rungs = ", ".join(f"{rung['rung']} {rung['result']}" for rung in found["rungs"]) or "none"
    end = "healthy" if found["healthy"] else f"needs {found['needs']}"
    return f"{name:<22} exit {answer.returncode}  {end} | rungs: {rungs} | {seconds:.0f} s | {found['fault'] or 'no fault seen'}"


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="ork") as home:
        Path(home).chmod(0o700)
        _ork(home, "sim", "start")
        try:
            for name in ("none", *HEALED, *BEYOND):
                if name != "none":
                    answer = _ork(home, "sim", "fault", "set", name)
                    if answer.returncode:
                        print(f"{name:<22} not set: {answer.stderr.strip()}")
                        continue
                began = time.monotonic()
                answer = _ork(home, "board", "recover", "--target", "sim", "--confirm", "rock-5b", "--json")
                print(
                    _line(name, answer, time.monotonic() - began) if answer.stdout else answer.stderr,
                    flush=True,
                )
                _ork(home, "sim", "power-cycle")
                _ork(home, "sim", "fault", "clear", name)
        finally:
            _ork(home, "sim", "stop")


if __name__ == "__main__":
    run()
