"""Memory figures that are this program's own."""

from __future__ import annotations

import subprocess
import sys

from orkbench_tui.host_memory import peak_bytes


def test_the_peak_is_not_that_of_whoever_started_the_program() -> None:
    ballast = bytearray(b"x" * (160 << 20))
    code = "from orkbench_tui.host_memory import peak_bytes; print(peak_bytes())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = peak_bytes()
    assert own is not None and own >= len(ballast)
    assert 1 << 20 < int(child.stdout) < 80 << 20
