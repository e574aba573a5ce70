"""``ork model experts`` on a tiny mixture of experts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.expert_skew import expert_counts
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.conftest import ork
from tests.reference.tiny_families import write_tiny_family
from tests.reference.tiny_models import write_tiny_llama

TEXT = "the rain in the morning and the wind on the sea " * 20


@pytest.fixture
def moe(tmp_path: Path) -> str:
    (tmp_path / "t.txt").write_text(TEXT)
    return str(write_tiny_family(tmp_path / "moe.gguf", "qwen3moe"))


def test_figures_are_those_of_the_models_choices(moe: str, tmp_path: Path) -> None:
    text, table = str(tmp_path / "t.txt"), tmp_path / "counts.csv"
    words = (
        "model",
        "experts",
        moe,
        "--file",
        text,
        "--tokens",
        "100",
        "--quant",
        "f32",
        "--csv",
        str(table),
    )
    done = ork(*words, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    with GgufFile.open(Path(moe)) as file:
        ids = Tokenizer.from_metadata(file.metadata).encode(TEXT)[:100]
        counts = expert_counts(Engine.from_floats(GgufWeights(file)).expert_choices(ids), 8)
    assert (data["tokens"], data["experts"], data["used"], data["layers"]) == (100, 8, 3, len(counts))
    rows = list(csv.reader(table.open()))
    assert rows[0] == ["layer", "expert", "count"]
    assert [int(row[2]) for row in rows[1:]] == counts.reshape(-1).tolist()
    assert data["never_taken"] == int((counts == 0).sum())
    assert len(data["gini_by_layer"]) == len(counts)
    assert data["gini"] == pytest.approx(np.mean(data["gini_by_layer"]), abs=1e-3)
    assert [row["capacity"] for row in data["caches"]] == [1, 2, 4]
    assert data["npu_submits"]["by_token"] == 3 * 100 * 3 * len(counts)
    assert data["npu_submits"]["by_expert"] == 3 * int((counts > 0).sum())
    assert data["resident"] == {
        "weights": 3 * 8 * len(counts),
        "bytes_int8": pytest.approx(3 * 8 * len(counts) * 80 * 112, rel=0.5),
        "windows": 1,
        "refused": None,
    }
    split = data["partition"]
    assert split["resident"] == 1 and split["npu_choices"] + split["cpu_choices"] == 100 * 3 * len(counts)
    assert split["npu_choices"] == sum(
        most for most in counts.max(axis=1).tolist() if most >= split["least_rows"]
    )
    # The table is not overwritten.
    assert ork(*words).returncode == 7


def test_the_page_for_people(moe: str, tmp_path: Path) -> None:
    done = ork("model", "experts", moe, "--file", str(tmp_path / "t.txt"), "--tokens", "50", "--quant", "f32")
    assert done.returncode == 0, done.stderr
    assert "3 of 8 experts" in done.stdout
    assert "Published: " in done.stdout
    assert "predicted from a published floor" in done.stdout
    assert "in 1 window: they fit." in done.stdout and "the NPU would serve" in done.stdout


def test_what_cannot_be_profiled(moe: str, tmp_path: Path) -> None:
    dense = str(write_tiny_llama(tmp_path / "dense.gguf"))
    (tmp_path / "empty").touch()
    (tmp_path / "bytes").write_bytes(b"\xff")
    for words, code in (
        ((dense, "--file", str(tmp_path / "t.txt")), 7),
        ((moe, "--file", str(tmp_path / "empty")), 2),
        ((moe, "--file", str(tmp_path / "bytes")), 2),
        ((moe, "--tokens", "0"), 2),
        # The tiny model was made for 512 tokens.
        ((moe, "--tokens", "2049"), 2),
        ((moe, "--csv", str(tmp_path / "none" / "c.csv")), 2),
    ):
        done = ork("model", "experts", *words, "--quant", "f32")
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr


def test_a_model_without_experts_is_refused_before_it_is_packed(tmp_path: Path) -> None:
    dense = write_tiny_llama(tmp_path / "dense.gguf")
    packs = tmp_path / "cache" / "ork" / "packs"
    done = ork("model", "experts", str(dense), env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert done.returncode == 7 and "dense.gguf has no experts" in done.stderr
    assert not list(packs.glob("*.orkpack"))
