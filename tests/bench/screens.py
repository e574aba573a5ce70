"""What ``ork-tui`` costs while it stays open: a quiet and a busy board, by page; first paint and memory.

On a pseudo terminal of 120x40 and the simulated board, one sample a second, as the tools of others were measured.
Busy: ``ork run ppl`` keeps the NPU at work in another process. Bytes are what the terminal gets, CPU is of one core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.screens.terminal import ROOT, Terminal

SETTLE_S, SPAN_S = 5.0, 20.0
_MAIN = "from orkbench_tui.cli.tui import main; main()"
_PAGES = {"dashboard": b"1", "cores": b"2", "domains": b"3", "log": b"4", "operations": b"5"}


def run() -> None:
    """Print one line a figure."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        environment |= {"XDG_RUNTIME_DIR": folder, "XDG_STATE_HOME": folder}
        environment.pop("COLORTERM", None)
        ork = [sys.executable, "-m", "orkbench_tui.cli.main"]
        subprocess.run([*ork, "sim", "start"], env=environment, check=True, capture_output=True)
        try:
            paints = sorted(_first_paint(environment) for _ in range(5))
            print(f"first paint  {paints[0]:.2f} s at best, {paints[2]:.2f} s in the middle of 5")
            for page, key in _PAGES.items():
                print(f"quiet {page:<11}{_watched(environment, key)}")
            with _load([*ork, "run", "ppl", "--window", "512"], environment):
                for page in ("dashboard", "cores", "domains"):
                    print(f"busy  {page:<11}{_watched(environment, _PAGES[page])}")
        finally:
            subprocess.run([*ork, "sim", "stop"], env=environment, check=False, capture_output=True)


def _open(environment: dict[str, str]) -> Terminal:
    return Terminal([sys.executable, "-c", _MAIN, "--target", "sim"], environment, 40, 120)


def _first_paint(environment: dict[str, str]) -> float:
    began = time.perf_counter()
    terminal = _open(environment)
    terminal.read_until(lambda output: b"core 2" in output)
    seconds = time.perf_counter() - began
    terminal.send(b"q")
    terminal.finish()
    return seconds


def _watched(environment: dict[str, str], key: bytes) -> str:
    terminal = _open(environment)
    terminal.read_until(lambda output: b"core 2" in output)
    terminal.send(key)
    terminal.read_until(lambda _: False, SETTLE_S)
    before, bytes_before = _cpu_s(terminal.pid), len(terminal.output)
    terminal.read_until(lambda _: False, SPAN_S)
    cpu = 100 * (_cpu_s(terminal.pid) - before) / SPAN_S
    rate = (len(terminal.output) - bytes_before) / SPAN_S
    rss = _rss_mib(terminal.pid)
    terminal.send(b"q")
    terminal.finish()
    return f"{rate:8.0f} B/s  {cpu:5.2f} % CPU  {rss:6.1f} MiB"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def _load(words: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Keeps one such program running; it is started again when it ends."""
    loop = f"while :; do {' '.join(words)} >/dev/null 2>&1 || sleep 1; done"
    process = subprocess.Popen(["sh", "-c", loop], env=environment, start_new_session=True)
    time.sleep(SETTLE_S)
    try:
        yield
    finally:
        os.killpg(process.pid, 15)
        process.wait()
