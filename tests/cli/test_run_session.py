"""``ork run`` end to end: file, pack, simulated board, engine. A tiny model where any will do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui import locations
from tests.reference.tiny_models import write_tiny_llama


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "orkbench_tui.cli.main", *words]


def ork(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=120, check=False)


def data_of(*words: str) -> dict[str, Any]:
    done = ork("run", *words, "--json")
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its matmuls are too narrow for the NPU to be worth it, so they are sent there."""
    monkeypatch.setenv("ORK_DISPATCH", "all=npu")
    return write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")


def test_prompt_runs_on_the_simulated_npu_which_is_started_and_named(tiny: Path) -> None:
    done = ork("run", "complete", "hello there", "--model", str(tiny), "--max-tokens", "4", "--json")
    data = json.loads(done.stdout)["data"]
    assert "started the simulated board" in done.stderr
    assert (data["target"], data["quant"], data["model"]) == ("sim", "w8a8-rot", "tiny")
    assert data["npu"]["submits"] > 0
    assert data["npu"]["tasks"] >= data["npu"]["submits"]
    assert data["npu"]["predicted_ms"] > 0
    # The second run finds simulator and pack.
    again = ork("run", "complete", "hello", "--model", str(tiny), "--max-tokens", "2").stderr.splitlines()
    assert len(again) == 2
    assert again[0] == "[ended by --max-tokens]"


def test_same_seed_same_answer(tiny: Path) -> None:
    words = ("complete", "hello", "--model", str(tiny), "--max-tokens", "40", "--temperature", "9")
    words += ("--top-k", "0", "--top-p", "1", "--min-p", "0")
    assert data_of(*words, "--seed", "4")["text"] == data_of(*words, "--seed", "4")["text"]
    assert data_of(*words, "--seed", "4")["text"] != data_of(*words, "--seed", "5")["text"]


def test_f32_needs_no_npu(tiny: Path) -> None:
    data = data_of("complete", "hello", "--model", str(tiny), "--max-tokens", "2", "--quant", "f32")
    assert (data["target"], data["npu"]) == ("host", {"submits": 0, "tasks": 0, "predicted_ms": None})
    assert not (locations.runtime_dir() / "sim").exists()


def test_context_is_the_models_own_unless_asked_for_more(tiny: Path) -> None:
    words = ("run", "complete", "hello", "--model", str(tiny), "--quant", "f32", "--max-tokens", "1")
    assert ork(*words).returncode == 0
    done = ork(*words, "--context", "600")
    assert done.returncode == 2
    assert re.search(r"context of 600 .*512", done.stderr)


def test_no_board_when_one_is_asked_for(tiny: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command("run", "complete", "hello", "--model", str(tiny), "--target", "board"),
        env={**os.environ, "ORK_BOARD_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_cut_short_model_is_named_and_leaves_no_pack(tiny: Path) -> None:
    tiny.write_bytes(tiny.read_bytes()[:-1000])
    done = ork("run", "complete", "hello", "--model", str(tiny))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert list(locations.packs_dir().glob("*.orkpack")) == []


def test_perplexity_of_a_text(tiny: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("hello there " * 40)
    words = ("ppl", str(text), "--window", "32", "--model", str(tiny))
    data = data_of(*words)
    assert data["window"] == 32
    assert data["half_window"]["ppl"] > 1
    assert data["npu"]["submits"] > 0
    assert data["text_sha256"] in ork("run", *words).stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_in_mid_answer_frees_the_board(tiny: Path, number: int, code: int) -> None:
    words = ("run", "complete", "hello", "--model", str(tiny), "--max-tokens", "500", "--temperature", "9")
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(8)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (code, 0), errors
    assert b"Traceback" not in errors
    assert ork("run", "complete", "hello", "--model", str(tiny), "--max-tokens", "1").returncode == 0
    assert " 0 clients" in ork("sim", "status").stdout


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
def test_default_model_knows_paris_and_the_sky() -> None:
    paris = data_of("complete", "The capital of France is", "--temperature", "0", "--max-tokens", "3")
    assert "Paris" in paris["text"]
    assert paris["npu"]["submits"] > 0
    sky = ("chat", "--once", "Explain in one sentence why the sky is blue.", "--temperature", "0")
    answer = data_of(*sky)
    # Decided by the last bits of the arithmetic, which are the same on every processor.
    assert "scatter" in answer["text"].lower()
    assert answer["npu"]["submits"] > 0
    assert data_of(*sky)["text"] == answer["text"]


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
def test_killed_simulator_is_exit_3_and_the_next_run_works() -> None:
    long_prompt = ("run", "complete", "word and other words " * 380, "--max-tokens", "2")
    assert ork("run", "complete", "hello", "--max-tokens", "1").returncode == 0
    found = re.search(r"pid (\d+)", ork("sim", "status").stdout)
    assert found is not None
    process = subprocess.Popen(command(*long_prompt), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Not before it holds memory: a simulator that dies while a program connects is started again.
    while json.loads(ork("sim", "status", "--json").stdout)["data"]["npu_bytes"] == 0:
        assert process.poll() is None
    os.kill(int(found[1]), signal.SIGKILL)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert output == b""
    assert len(errors.splitlines()) == 1
    assert ork("run", "complete", "hello", "--max-tokens", "1").returncode == 0


def test_more_threads_than_big_cores_are_warned_of(tiny: Path) -> None:
    words = ("run", "complete", "hello", "--model", str(tiny), "--max-tokens", "1", "--quant", "f32")
    many = ork(*words, "--threads", "99")
    assert many.returncode == 0
    assert many.stderr.startswith("warning: GRD-26, more CPU threads than big cores: 99 threads,")
    assert "GRD-26" not in ork(*words, "--threads", "1").stderr
