"""Every place that takes a file, given a folder, a pipe that nobody writes to, and a device without end."""

import os
import subprocess
import sys

import pytest

_PLACES = [
    ["run", "complete", "hi", "--model", "{}"],
    ["run", "complete", "hi", "--quant", "f32", "--model", "{}"],
    ["run", "ppl", "{}"],
    ["model", "show", "{}"],
    ["model", "pull", "--from", "{}"],
    ["model", "tokenize", "--file", "{}"],
    ["board", "log", "--file", "{}"],
    ["npu", "regcmd", "decode", "{}"],
    ["pack", "info", "{}"],
    ["sim", "replay", "{}"],
]
_WITH_FOLDERS = [["board", "diagnose", "{}"]]


def _refused(words, path):
    done = subprocess.run(
        [sys.executable, "-m", "orkbench_tui.cli.main", *(word.format(path) for word in words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "defect" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", _PLACES, ids=lambda words: " ".join(words[:3]))
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop"])
def test_what_is_no_file_is_refused_in_one_line(words, kind, tmp_path):
    path = tmp_path / "x.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    _refused(words, path)


@pytest.mark.parametrize("words", _WITH_FOLDERS, ids=lambda words: " ".join(words[:3]))
def test_a_pipe_among_captures(words, tmp_path):
    os.mkfifo(tmp_path / "x.log")
    _refused(words, tmp_path / "x.log")
