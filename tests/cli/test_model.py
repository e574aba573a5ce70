"""``ork model`` as a user meets it: lists, refusals, progress on standard error, JSON."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, model
from orkbench_tui.cli.progress import ProgressDisplay
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.catalogue import CATALOGUE
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference.tiny_models import TinyShape, random_weights, write_tiny_llama
from tests.runner.loopback import Served, serving

ENTRY = CATALOGUE[model.DEFAULT_MODEL]


def ork(*words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orkbench_tui.cli.main", "model", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **extra},
    )


def test_list_shows_what_is_not_here_yet() -> None:
    done = ork("list", "--json")
    row = json.loads(done.stdout)["data"]["models"][0]
    assert (row["name"], row["pulled"], row["bytes_present"]) == (ENTRY.name, False, None)
    assert row["size_bytes"] == ENTRY.size_bytes
    assert not locations.models_dir().exists()


def test_list_in_words() -> None:
    assert re.search(rf"{ENTRY.name} +not pulled, 93\.8 MiB +Apache-2\.0", ork("list").stdout)


@pytest.mark.parametrize("command", ["pull", "show"])
def test_unknown_name_offers_the_nearest(command: str) -> None:
    done = ork(command, "smollm2-135m")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean smollm2-135m-instruct" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_commands_that_take_a_path_offer_one(tmp_path: Path) -> None:
    assert "path of a .gguf file" in ork("show", "nope").stderr
    assert "path of a .gguf file" not in ork("pull", "nope").stderr
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF")
    assert f"--from {file}" in ork("pull", str(file)).stderr


def test_list_says_how_much_of_a_part_is_there() -> None:
    locations.models_dir().mkdir(parents=True)
    (locations.models_dir() / f"{ENTRY.file_name}.part").write_bytes(bytes(1 << 20))
    assert re.search(rf"{ENTRY.name} +partial, 1\.0 MiB of 93\.8 MiB +Apache-2\.0", ork("list").stdout)


def test_show_of_a_model_that_is_not_here_says_how_to_get_it() -> None:
    done = ork("show")
    assert done.returncode == 2
    assert "ork model pull" in done.stderr


def test_pull_from_something_else_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    page = tmp_path / "model.gguf"
    page.write_text("<!DOCTYPE html><title>sign in</title>")
    done = ork("pull", "--from", str(page))
    assert done.returncode == 1
    assert "an HTML page" in done.stderr
    assert [path.name for path in locations.models_dir().glob("[!.]*")] == []


def test_interrupted_pull_keeps_the_part_and_says_so() -> None:
    # A server that gives the beginning and then waits.
    body = b"GGUF" + bytes(4 << 20)
    served = Served(body + bytes(ENTRY.size_bytes - len(body)), cut_at=len(body), hold=True)
    with serving(served):
        process = subprocess.Popen(
            [sys.executable, "-m", "orkbench_tui.cli.main", "model", "pull"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "HF_ENDPOINT": served.url.rpartition("/")[0]},
        )
        part = locations.models_dir() / f"{ENTRY.file_name}.part"
        deadline = time.monotonic() + 20
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"goes on from there" in errors
    assert b"Traceback" not in errors
    assert part.exists()
    assert not (locations.models_dir() / ENTRY.file_name).exists()
    row = json.loads(ork("list", "--json").stdout)["data"]["models"][0]
    assert row["partial_bytes"] == part.stat().st_size


def test_show_describes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_llama(path)
    with GgufFile.open(path) as file:
        facts = model.describe(file)
    shown = json.loads(ork("show", str(path), "--json").stdout)["data"]
    assert shown == facts
    assert facts["architecture"] == "llama"
    assert facts["params"] == sum(weights.size for weights in random_weights(TinyShape()).values())
    assert sum(facts["tensor_types"].values()) == facts["tensors"]
    assert "architecture" in ork("show", str(path)).stdout


def test_show_of_a_page_names_it(tmp_path: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<html>")
    done = ork("show", str(page))
    assert done.returncode == InvalidFileError.exit_code
    assert "HTML" in done.stderr


def test_plain_progress_is_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(diagnostics, "note", lines.append)
    display = ProgressDisplay(terminal=False)
    for done in range(1001):
        display("download", done << 20, 1000 << 20)
    assert len(lines) == 4
    assert lines[-1].startswith("download  100%  1000.0 of 1000.0 MiB")


def test_bar_is_redrawn_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(diagnostics, "status", drawn.append)
    display = ProgressDisplay(terminal=True)
    display("packing a", 1 << 20, 2 << 20)
    display("packing b", 2 << 20, 2 << 20)
    display.close()
    display.close()
    assert drawn[0].startswith("packing a  [############............]   50%")
    assert "packing b" in drawn[1]
    assert drawn[2:] == [""]


def test_short_work_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(diagnostics, "note", lines.append)
    display = ProgressDisplay(terminal=False, patience_s=60)
    display("checking", 1, 1)
    assert lines == []


@pytest.mark.model
def test_pull_from_the_default_model_file(default_model: Path) -> None:
    done = ork("pull", "--from", str(default_model), "--json")
    data = json.loads(done.stdout)["data"]
    assert data["sha256"] == ENTRY.sha256
    assert hashlib.sha256(Path(data["path"]).read_bytes()).hexdigest() == ENTRY.sha256


@pytest.mark.parametrize("source", ["argument", "file", "stdin"])
def test_tokenize_gives_ids_and_pieces(tmp_path: Path, source: str) -> None:
    tiny = write_tiny_llama(tmp_path / "tiny.gguf")
    text = "the inn<|im_end|>"
    (tmp_path / "t.txt").write_text(text)
    words = {"argument": [text], "file": ["--file", str(tmp_path / "t.txt")], "stdin": ["-"]}[source]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "orkbench_tui.cli.main",
            "model",
            "tokenize",
            *words,
            "-m",
            str(tiny),
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        input=text,
    )
    data = json.loads(done.stdout)["data"]
    with GgufFile.open(tiny) as file:
        tokenizer = Tokenizer.from_metadata(file.metadata)
    assert data["ids"] == tokenizer.encode(text)
    assert "".join(data["pieces"]).replace("\u0120", " ") == text
    assert data["pieces"][:2] == ["t", "he"]


def test_tokenize_special_and_refusals(tmp_path: Path) -> None:
    tiny = str(write_tiny_llama(tmp_path / "tiny.gguf"))
    words = ("tokenize", "a<|im_end|>", "-m", tiny)
    assert ork(*words, "--special").stdout.splitlines()[1:] == ["      2  '<|im_end|>'", "2 tokens"]
    assert len(ork(*words).stdout.splitlines()) > 5
    assert ork("tokenize", "-m", tiny).returncode == 2
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    done = ork("tokenize", "--file", str(tmp_path / "latin.txt"), "-m", tiny)
    assert done.returncode == 2 and "not UTF-8" in done.stderr


def test_tokenize_takes_any_text_and_regular_files_only(tmp_path: Path) -> None:
    tiny = str(write_tiny_llama(tmp_path / "tiny.gguf"))
    empty = ork("tokenize", "", "-m", tiny, "--json")
    assert (empty.returncode, json.loads(empty.stdout)["data"]) == (0, {"ids": [], "pieces": []})
    (tmp_path / "empty.txt").touch()
    assert ork("tokenize", "--file", str(tmp_path / "empty.txt"), "-m", tiny).stdout == "0 tokens\n"
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate((64 << 20) + 1)
    refused = {"pipe": "pipe, socket or device", "huge": "too long", "absent": "no file"}
    for name, why in refused.items():
        done = ork("tokenize", "--file", str(tmp_path / name), "-m", tiny)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert why in done.stderr
    argument = subprocess.run(
        [
            *(part.encode() for part in (sys.executable, "-m", "orkbench_tui.cli.main", "model", "tokenize")),
            b"caf\xe9",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (argument.returncode, b"not UTF-8" in argument.stderr) == (2, True)
