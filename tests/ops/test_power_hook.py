"""The user's own power command: never by itself, never through a shell, and told when it fails."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from orkbench_tui.errors import RefusedError, UnhealthyError, UsageError
from orkbench_tui.ops.power_hook import power_cycle, power_words, require_named
from tests.conftest import ork

NO_TERMINAL = {"stdin": subprocess.DEVNULL}


def test_the_board_s_name_is_a_word_and_no_part_of_a_command_line() -> None:
    assert power_words("plug --off-on '{board}' 5", "rock; rm -rf /") == [
        "plug",
        "--off-on",
        "rock; rm -rf /",
        "5",
    ]
    with pytest.raises(RefusedError, match="power_command"):
        power_words("  ", "rock")
    with pytest.raises(UsageError, match="power_command"):
        power_words("plug 'open", "rock")


def test_only_the_name_again_confirms() -> None:
    require_named("rock", confirm="rock", ask=None)
    require_named("rock", confirm="", ask=lambda question: "rock")
    for confirm, ask in (("other", None), ("", None), ("", lambda question: "y"), ("", lambda question: "")):
        with pytest.raises(RefusedError):
            require_named("rock", confirm=confirm, ask=ask)


def test_what_the_command_says_and_how_it_fails() -> None:
    python = [sys.executable, "-c"]
    assert power_cycle([*python, "print('a'); print('on again\\x1b[31m')"]).startswith("on again")
    with pytest.raises(UnhealthyError, match=r"ended with 3: .*no such socket"):
        power_cycle(
            [
                *python,
                "import sys; sys.exit('no such socket') if 0 else print('no such socket', file=sys.stderr); sys.exit(3)",
            ]
        )
    with pytest.raises(UnhealthyError, match="cannot be started"):
        power_cycle(["/no/such/tool"])
    with pytest.raises(UnhealthyError, match="did not end"):
        power_cycle([*python, "import time; time.sleep(30)"], wait_s=0.2)


def test_the_command_runs_nothing_unconfirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ork("board", "power-cycle", "rock", **NO_TERMINAL).returncode == 7
    mark = tmp_path / "cut"
    script = f"import sys, pathlib; pathlib.Path({str(mark)!r}).write_text(sys.argv[1])"
    monkeypatch.setenv("ORK_POWER_COMMAND", shlex.join([sys.executable, "-c", script, "{board}"]))
    assert ork("board", "power-cycle", "rock", "--dry-run", **NO_TERMINAL).returncode == 0
    for words in ((), ("--confirm", "other")):
        refused = ork("board", "power-cycle", "rock", *words, **NO_TERMINAL)
        assert refused.returncode == 7 and refused.stderr.count("error:") == 1
    assert not mark.exists()
    done = ork("board", "power-cycle", "rock", "--confirm", "rock", **NO_TERMINAL)
    assert done.returncode == 0 and mark.read_text() == "rock", done.stderr
