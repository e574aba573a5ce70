"""``ork run ppl --arms``: the same tokens, compared token by token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ork
from tests.reference.tiny_models import write_tiny_llama


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog ate the rest of it. " * 20)
    return path


def test_arms_share_their_tokens_and_the_first_is_the_base(tmp_path: Path, text: Path) -> None:
    model = write_tiny_llama(tmp_path / "m.gguf", quant="Q8_0")
    pack = tmp_path / "m.orkpack"
    assert ork("pack", "build", str(model), "--out", str(pack)).returncode == 0
    words = ("run", "ppl", "--file", str(text), "--window", "64", "--model", str(model), "--screen")
    done = ork(*words, "--arms", f"f32,{pack},w8a8", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    base, rotated, plain = data["arms"]
    assert (base["quant"], rotated["quant"], plain["quant"]) == ("f32", "w8a8-rot", "w8a8")
    assert [len(arm["nll"]) for arm in data["arms"]] == [63, 63, 63] and len(base["chunks"]) == 2
    assert base["tokens"] == 2 * 63 and base["paired_half"]["mean"] == 0
    assert rotated["paired_half"]["tokens"] == 2 * 31 and rotated["paired_half"]["largest"] > 0
    assert rotated["ppl_half"] / base["ppl_half"] == pytest.approx(rotated["paired_half"]["ratio"])
    table = ork(*words, "--arms", "w8a8,w8a8-rot").stdout.splitlines()
    assert (
        table[1].startswith("arm") and table[2].startswith("w8a8 ") and "same" in table[2] and "%" in table[3]
    )


def test_one_model_keeps_its_likelihoods(tmp_path: Path, text: Path) -> None:
    model = write_tiny_llama(tmp_path / "m.gguf")
    done = ork("run", "ppl", str(text), "--window", "32", "--model", str(model), "--quant", "f32", "--json")
    data = json.loads(done.stdout)["data"]
    assert len(data["nll"]) == 31 and data["ppl_half"] == data["half_window"]["ppl"]
    assert data["tokens"] == 31 * len(data["chunks"])


@pytest.mark.parametrize("arms", ["f32", "f32,f32", "f32,", ""])
def test_too_few_arms(tmp_path: Path, text: Path, arms: str) -> None:
    done = ork("run", "ppl", str(text), "--arms", arms)
    assert done.returncode == 2 and "at least two" in done.stderr
    assert ork("run", "ppl", str(text), "--screen", "--full").returncode == 2
