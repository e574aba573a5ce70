"""A model cut short while it is read in place: one line and an exit code, no crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orkbench_tui.native.lost_file import end_on_lost_file
from tests.reference.tiny_models import write_tiny_llama

PROGRAM = """
import os, sys
from orkbench_tui.cli.model_session import open_session
from orkbench_tui.settings import Settings

with open_session(Settings.load(model=sys.argv[1], quant="f32")) as session:
    os.truncate(sys.argv[1], 0)
    session.engine.prefill([1, 2, 3])
"""


def test_a_model_cut_short_meanwhile_is_one_line(tmp_path: Path) -> None:
    file = write_tiny_llama(tmp_path / "m.gguf")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: memory that was read is gone: ") and done.stderr.count("\n") == 1


CHANGED = """
import os, shutil, sys
from orkbench_tui.cli.model_session import open_session
from orkbench_tui.settings import Settings

with open_session(Settings.load(model=sys.argv[1], quant="f32")) as session:
    if sys.argv[2] == "write":
        with open(sys.argv[1], "r+b") as out:
            out.seek(-4, 2)
            out.write(bytes(4))
    else:
        shutil.copy(sys.argv[1], sys.argv[1] + ".new")
        os.replace(sys.argv[1] + ".new", sys.argv[1])
    session.engine.prefill([1, 2, 3])
"""


@pytest.mark.parametrize("how", ["write", "rename"])
def test_a_model_written_to_meanwhile_is_told(tmp_path: Path, how: str) -> None:
    file = write_tiny_llama(tmp_path / "m.gguf")
    done = subprocess.run(
        [sys.executable, "-c", CHANGED, str(file), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("m.gguf was written to while it was read" in done.stderr) is (how == "write"), done.stderr


def test_a_line_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="600"):
        end_on_lost_file("x" * 600, 1)
