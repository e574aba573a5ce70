"""``ork-tui`` before there is a screen: what it refuses and what it names instead."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from orkbench_tui.settings import Settings

CODE = "from orkbench_tui.cli.tui import main; main()"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def test_without_a_terminal_it_names_the_commands_that_do_without() -> None:
    answer = run()
    assert answer.returncode == 2 and answer.stdout == ""
    assert answer.stderr.count("\n") == 1 and "ork board status" in answer.stderr


@pytest.mark.parametrize(
    "words", [("--refresh", "0"), ("--refresh", "1e9"), ("--target", "moon"), ("--colour",)]
)
def test_bad_options(words: tuple[str, ...]) -> None:
    answer = run(*words)
    assert answer.returncode == 2 and "Traceback" not in answer.stderr and answer.stdout == ""


def test_help_does_not_load_the_screens() -> None:
    code = f"import sys; sys.argv = ['ork-tui', '--help']\ntry:\n    {CODE}\nfinally:\n    print('textual' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0 and answer.stdout.splitlines()[-1] == "False"


def test_a_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from orkbench_tui.cli import tui
    from orkbench_tui.errors import UsageError

    class Tty:
        @staticmethod
        def isatty() -> bool:
            return True

    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(tui.sys, name, Tty)
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(UsageError, match="ork board status"):
        tui._require_terminal()
    monkeypatch.setenv("TERM", "screen")
    tui._require_terminal()


def test_a_vanished_simulator_is_not_started_again_by_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    from orkbench_tui import target
    from orkbench_tui.cli.tui import _connector
    from orkbench_tui.errors import NoDeviceError
    from orkbench_tui.ops.files import HostFiles

    class Stopped:
        @staticmethod
        def status() -> None:
            return None

    monkeypatch.setattr(target, "simulator", lambda: Stopped)
    first = HostFiles()
    connect = _connector(Settings(), first, "sim")
    assert connect() is first
    with pytest.raises(NoDeviceError, match="ork sim start"):
        connect()
