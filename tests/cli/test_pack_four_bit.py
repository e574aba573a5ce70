"""4-bit packs as a user makes and runs them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.arm_engine import arm_engine
from orkbench_tui.runner.quantize.arms import ARMS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.conftest import ork
from tests.reference.tiny_models import write_tiny_llama

TOKENS = list(range(3, 43))


@pytest.fixture(autouse=True)
def on_the_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matmuls of this size would go to the CPU."""
    monkeypatch.setenv("ORK_DISPATCH", "all=npu")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    return path


def data_of(*words: str) -> dict[str, Any]:
    done = ork(*words, "--json")
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


@pytest.mark.parametrize("scheme", ["w4a8-g32-rot", "nf4-mixed"])
def test_a_four_bit_pack_answers_alone_and_computes_what_it_says(
    scheme: str, tiny: Path, tmp_path: Path
) -> None:
    plain, small = tmp_path / "plain.orkpack", tmp_path / "small.orkpack"
    data_of("pack", "build", str(tiny), "--out", str(plain))
    assert data_of("pack", "build", str(tiny), "--out", str(small), "--quant", scheme)["scheme"] == scheme
    told = ork("pack", "info", str(small)).stdout
    assert " i4_" in told and " i8" in told
    with GgufFile.open(tiny) as model, OrkPack.open(small) as pack, OrkPack.open(plain) as whole:
        pack.verify("full")
        stored = [sum(e.data_size for e in p.tensors.values() if e.K) for p in (pack, whole)]
        assert stored[0] < 0.8 * stored[1]
        counts = pack.tier_counts
        assert counts["i8"] >= 1 and sum(counts.values()) == len(pack.packed_names)
        cpu = Engine.from_pack(pack, context=64, cache_type="f32")
        logits = cpu.logits_of(TOKENS)
        with Npu(InProcessBoard().device()) as npu:
            on_npu = Engine.from_pack(pack, npu, context=64, cache_type="f32")
            np.testing.assert_array_equal(on_npu.logits_of(TOKENS), logits)
            assert npu.counters.submits > 0
        predicted = arm_engine(GgufWeights(model), ARMS[scheme], context=64).logits_of(TOKENS)
        exact = Engine.from_floats(GgufWeights(model), context=64).logits_of(TOKENS)
        off, cost = (float(np.sqrt(np.mean((x - predicted) ** 2))) for x in (logits, exact))
        # Rounding to 8 bits may fall to either side; what 4 bits cost is far more.
        assert off < 0.1 * cost
    tiny.unlink()
    answer = data_of(
        "run", "complete", "hello", "--max-tokens", "4", "--temperature", "0", "--model", str(small)
    )
    assert answer["quant"] == scheme and answer["npu"]["submits"] > 0


def test_from_text_to_pack(tiny: Path, text: Path, tmp_path: Path) -> None:
    known, out = tmp_path / "tiny.orkcal", tmp_path / "gptq.orkpack"
    words = ("--file", str(text), "--out", str(known), "--window", "64")
    facts = data_of("pack", "calibrate", str(tiny), *words)
    assert facts["tokens"] % 64 == 0 and facts["tokens"] > 0 and known.stat().st_size == facts["file_bytes"]
    build = ("pack", "build", str(tiny), "--quant", "w4a8-g32-rot")
    data_of(*build, "--out", str(out), "--calibration", str(known), "--gptq")
    with OrkPack.open(out) as pack:
        told = pack.provenance
        assert (told["quantizer"], told["crosscheck"]) == ("gptq", "none")
        assert told["calibration_sha256"] and told["tiers"] == {"int8": 1, "uniform4": 21}
    # Another calibration makes another pack, and none is overwritten by the other.
    done = ork(*build, "--out", str(out))
    assert done.returncode == 7 and "another model or scheme" in done.stderr
    done = ork(*build, "--out", str(tmp_path / "x.orkpack"), "--gptq")
    assert done.returncode == 2 and "--gptq needs Hessians" in done.stderr
    done = ork("pack", "build", str(tiny), "--out", str(tmp_path / "x.orkpack"), "--calibration", str(known))
    assert done.returncode == 2 and "every weight in 8 bits" in done.stderr
    short = ork(
        "pack", "calibrate", str(tiny), "--file", str(text), "--out", str(tmp_path / "y"), "--window", "9000"
    )
    assert short.returncode == 2 and "calibration needs a window" in short.stderr
    assert not list(tmp_path.glob("x.orkpack*")) and not list(tmp_path.glob("y*"))


def test_another_file_allocates_and_gives_no_values(tiny: Path, tmp_path: Path) -> None:
    mixed = write_tiny_llama(tmp_path / "mixed.gguf", quant="Q4_0")
    assert {row["tier"] for row in data_of("pack", "tiers", str(mixed))["counts"]} >= {"int4"}
    lines = dict(
        line.split("\t") for line in ork("pack", "tiers", str(mixed), "--emit-map").stdout.splitlines()
    )
    out = tmp_path / "x.orkpack"
    data_of(
        "pack", "build", str(tiny), "--quant", "w4a8-g32-rot", "--allocation", str(mixed), "--out", str(out)
    )
    alone = tmp_path / "alone.orkpack"
    data_of("pack", "build", str(tiny), "--quant", "w4a8-g32-rot", "--out", str(alone))
    with OrkPack.open(out) as pack, OrkPack.open(alone) as other:
        for name in pack.packed_names:
            source = "token_embd.weight" if name == "output.weight" else name
            wanted = lines.get(name, lines.get(source, "int8"))
            assert ("i8" if wanted == "int8" else "i4_uniform") == pack.tensors[name].dtype_name, name
        same = next(n for n in pack.packed_names if pack.tensors[n].dtype == other.tensors[n].dtype)
        np.testing.assert_array_equal(pack.packed(same).data, other.packed(same).data)
        assert pack.provenance["allocation_sha256"] and pack.provenance["tier_reasons"]["allocation"] > 0


def test_reside_tells_count_bytes_domains_and_time(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.orkpack"
    data_of("pack", "build", str(tiny), "--out", str(out))
    facts = data_of("pack", "reside", str(out), "--target", "sim")
    assert facts["weights"] == facts["expected"] == 22 and facts["submits"] == 0
    assert [domain["id"] for domain in facts["domains"]] == [0] and facts["seconds"] > 0
    line = ork("pack", "reside", str(out), "--target", "sim").stdout.splitlines()[0]
    assert line.startswith("loaded 22 / packed 22,") and "0 submits" in line


def test_perplexity_says_what_it_stands_on(tiny: Path, text: Path) -> None:
    words = ("run", "ppl", str(text), "--model", str(tiny), "--window", "64", "--screen")
    facts = data_of(*words)
    assert facts["packed"] == 22 and facts["loaded"] == 21 and facts["tiers"] == {"i8": 22}
    assert len(facts["pack_sha256"]) == 64 and "commit" in facts
    assert "loaded 21 / packed 22" in ork(*words).stdout
    fake = data_of(*words, "--quant", "fake:w4a4-rot")
    assert fake["quant"] == "fake:w4a4-rot" and fake["npu"] == {"submits": 0, "tasks": 0}
    arms = data_of(*words, "--arms", "f32,fake:w8a8-rot,w8a8-rot")["arms"]
    base, predicted, run = (arm["ppl_half"] for arm in arms)
    # Random weights surprise themselves: 21 nats a token.
    assert abs(math.log(run / predicted)) < 0.003 * math.log(base) and predicted != base
    done = ork(*words, "--quant", "fake:w2a2")
    assert done.returncode == 2 and "known: w8a8" in done.stderr
    done = ork(*words, "--quant", "fake:w4a4-g32-gptq")
    assert done.returncode == 2 and "needs a calibration" in done.stderr
