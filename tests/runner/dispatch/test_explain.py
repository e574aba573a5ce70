"""``ork run explain``: the same decisions as the engine's, gathered and told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orkbench_tui import locations
from orkbench_tui.cli.main import run
from orkbench_tui.cli.run import app
from orkbench_tui.cli.run_explain import explanation_lines
from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.explain import explain
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.dispatch.model_file import described, pack_sources
from orkbench_tui.runner.dispatch.unit import Op, Place, Source
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_families import write_tiny_family
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama
from tests.runner.exact_npu import ExactNpu

# Wide enough that matmuls of many rows are worth a submit, and those of few are not.
SHAPE = TinyShape(layers=2, embedding=512, heads=8, kv_heads=2, feed_forward=1536)
TOKENS = np.random.default_rng(8).integers(0, VOCABULARY, 256).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain")
    pack_gguf(write_tiny_llama(path / "wide.gguf", shape=SHAPE), path / "wide.orkpack", scheme="w8a8")
    return path


def explained(*words: str) -> dict:
    result = CliRunner().invoke(app, ["explain", *words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["source"] == "host" and document["data"]["label"] == "predicted"
    return document["data"]


def places(data: dict, section: int = 0) -> dict[str, str]:
    return {row["op"]: row["where"] for row in data["sections"][section]["operations"]}


def test_a_prompt_and_a_token_of_a_model_file(folder: Path) -> None:
    data = explained(str(folder / "wide.gguf"), "-m", "prefill", "--tokens", "300")
    assert (data["mode"], data["tokens"], data["rows"]) == ("prefill", 300, 256)
    assert data["chunks"] == [256, 44] and sum(data["micro_batches"]) == 300
    layers, head = data["sections"]
    assert layers["layers"] == [0, 1] and layers["title"] == "layers 0 to 1" and head["title"] == "head"
    where = places(data)
    assert where["gate-up"] == where["down"] == "npu"
    assert where["attention"] == where["norm"] == where["rotation"] == where["gate"] == "cpu"
    gate_up = next(row for row in layers["operations"] if row["op"] == "gate-up")
    assert (gate_up["M"], gate_up["K"], gate_up["N"]) == (256, 512, [1536, 1536])
    assert gate_up["npu_us"] < gate_up["cpu_us"] and gate_up["source_type"] == "F32"
    assert places(data, 1)["head"] == "cpu" and head["operations"][-1]["M"] == 1
    assert data["once"]

    token = explained(str(folder / "wide.gguf"), "--mode", "decode", "--tokens", "700")
    assert set(places(token).values()) == {"cpu"} and not token["once"] and not token["micro_batches"]
    attention = next(row for row in token["sections"][0]["operations"] if row["op"] == "attention")
    assert attention["context"] == 700 and "times faster" in attention["why"]


def test_a_prompt_no_run_would_take_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tokens, told in (
        ("1", ""),
        ("512", ""),
        ("513", "wide was made for up to 512 tokens: a run refuses 513"),
    ):
        assert run(["run", "explain", str(folder / "wide.gguf"), "--tokens", tokens]) == 0
        said = capsys.readouterr()
        assert said.err.strip() == told
        assert "1 tokens" not in said.out and " 1 rows" not in said.out


def test_a_pack_tells_the_same_of_the_same_model(folder: Path) -> None:
    file, pack = (explained(str(folder / f"wide.{kind}"), "--tokens", "300") for kind in ("gguf", "orkpack"))
    assert pack["sections"] == file["sections"]


def test_settings_are_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORK_DISPATCH", "down=cpu,qkv=npu")
    data = explained(str(folder / "wide.gguf"), "--tokens", "20")
    assert (places(data)["down"], places(data)["qkv"]) == ("cpu", "npu")
    monkeypatch.setenv("ORK_DISPATCH", "all=npu")
    data = explained(str(folder / "wide.gguf"), "--quant", "f32")
    assert {row["rule"] for row in data["sections"][0]["operations"]} == {"no-npu"}


def test_what_overlap_is_worth_is_told_where_all_matmuls_are_on_the_npu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (str(folder / "wide.gguf"), "--tokens", "300")
    monkeypatch.setenv("ORK_DISPATCH", "all=npu")
    busy = explained(*words)["busy"]
    assert (busy["serial"]["in_flight"], busy["overlapped"]["in_flight"]) == (1, 2)
    assert busy["overlapped"]["ms"] < busy["serial"]["ms"]
    assert busy["overlapped"]["npu_cores"] > busy["serial"]["npu_cores"]
    monkeypatch.setenv("ORK_DISPATCH", "down=cpu")
    assert explained(*words)["busy"] is None
    assert explained(words[0], "--mode", "decode")["busy"] is None


def test_the_table_answers_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    result = CliRunner().invoke(app, ["explain", str(folder / "wide.gguf"), "--tokens", "300"])
    lines = result.stdout.splitlines()
    assert "a prompt of 300 tokens in chunks of 256+44" in result.stdout
    assert any(line.split()[:5] == ["gate-up", "256,", "512,", "1536+1536", "NPU"] for line in lines)
    assert "times faster there (predicted)" in result.stdout
    assert all(len(line) <= 100 for line in lines)
    assert any(line.startswith("In short: ") and "gate-up" in line for line in lines)
    norms = [line.split() for line in lines if line.split()[:1] == ["norm"]]
    assert norms[0][-1] != "same" and norms[1][-2:] == ["the", "same"]


def test_layers_that_differ_in_the_type_of_the_file_alone_are_told_once(folder: Path) -> None:
    model = described(folder / "wide.gguf")
    found = explain(model, Dispatcher({}, npu=True), "prefill", 300)
    layers, head = found.sections
    apart = tuple(
        replace(d, unit=replace(d.unit, source=Source("Q6_K", 6))) if d.unit.is_matmul else d
        for d in layers.decisions
    )
    other = replace(
        found,
        sections=(replace(layers, layers=(0, 2)), replace(layers, layers=(1, 3), decisions=apart), head),
    )
    lines = explanation_lines(other)
    assert "layers 0 to 3, each" in lines and not any(line.startswith("layers 0, 2") for line in lines)


def test_where_nothing_is_on_the_npu_one_sentence_says_so(folder: Path) -> None:
    result = CliRunner().invoke(app, ["explain", str(folder / "wide.gguf"), "-m", "decode"])
    assert "In short: everything on the CPU." in result.stdout and "(published)" in result.stdout


def scan_row(model: str, *more: str) -> dict:
    (row,) = [row for row in explained(model, *more)["sections"][0]["operations"] if row["op"] == "scan"]
    return row


def test_settings_move_what_is_around_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = str(write_tiny_family(tmp_path / "m.gguf", "mamba2"))
    assert scan_row(model)["where"] == "cpu" and "no whole tiles" in scan_row(model)["why"]
    for there, here in (("scan-in", "scan-out"), ("scan-out", "scan-in")):
        monkeypatch.setenv("ORK_DISPATCH", f"{there}=npu,{here}=cpu")
        where = places(explained(model))
        assert (where[there], where[here], where["scan"]) == ("npu", "cpu", "cpu")


def test_a_setting_moves_a_scan_of_whole_tiles_in_prompts_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(write_tiny_family(tmp_path / "m.gguf", "mamba2 of 64 heads"))
    assert scan_row(model)["where"] == "cpu" and "too small" in scan_row(model)["why"]
    monkeypatch.setenv("ORK_DISPATCH", "scan=npu")
    for tokens in ("1", "2", "300"):
        assert scan_row(model, "--tokens", tokens)["where"] == "npu"
    assert scan_row(model, "-m", "decode")["where"] == "cpu"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama with biases", "heads of 24 values are no multiple of 32"),
        ("gemma2", "its scores are capped"),
        ("granite", "codes that stay there"),
    ],
)
def test_attention_that_is_asked_for_says_why_it_goes_or_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    model = str(write_tiny_family(tmp_path / "m.gguf", name))
    monkeypatch.setenv("ORK_DISPATCH", "attention=npu")
    data = explained(model, "-m", "decode", "--tokens", "300")
    (row,) = [row for row in data["sections"][0]["operations"] if row["op"] == "attention"]
    assert words in row["why"]


def test_the_model_in_the_place_of_the_mode_is_told(folder: Path) -> None:
    result = CliRunner().invoke(app, ["explain", "-m", str(folder / "wide.gguf")])
    assert isinstance(result.exception, UsageError) and "ork run explain MODEL" in result.exception.do


@pytest.mark.parametrize(
    "words",
    [["--mode", "both"], ["--tokens", "0"], ["--tokens", "99999999"], ["no-such-model"], ["/no/such.gguf"]],
)
def test_words_that_make_no_sense(words: list[str], folder: Path) -> None:
    file = [] if words[0][0] != "-" else [str(folder / "wide.gguf")]
    result = CliRunner().invoke(app, ["explain", *file, *words])
    assert isinstance(result.exception, UsageError)


def test_other_files_are_a_typed_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model at all")
    half = (folder / "wide.orkpack").read_bytes()
    (tmp_path / "half.orkpack").write_bytes(half[: len(half) // 2])
    for name in ("text.gguf", "half.orkpack"):
        result = CliRunner().invoke(app, ["explain", str(tmp_path / name)])
        assert isinstance(result.exception, InvalidFileError), name


def test_a_name_of_the_store(own_home: Path, folder: Path) -> None:
    locations.models_dir().mkdir(parents=True)
    (locations.models_dir() / "mine.gguf").symlink_to(folder / "wide.gguf")
    assert explained("mine.gguf")["model"] == "mine"
    missing = CliRunner().invoke(app, ["explain", "smollm2-135m-instruct"])
    assert isinstance(missing.exception, UsageError) and "ork model pull" in missing.exception.do


@pytest.mark.parametrize("overrides", ["", "all=npu", "all=cpu", "gate-up=npu,down=cpu"])
@pytest.mark.parametrize("rows", [5, 40, 256])
def test_the_engine_runs_what_the_dispatcher_says_to_the_same_bits(
    folder: Path, overrides: str, rows: int
) -> None:
    with OrkPack.open(folder / "wide.orkpack") as pack:
        dispatcher = Dispatcher(parse_overrides(overrides))
        npu = ExactNpu()
        dispatch = ModelDispatch(dispatcher, pack.architecture, pack_sources(pack))
        engine = Engine.from_pack(pack, npu, dispatch=dispatch)
        logits = engine.prefill(TOKENS[:rows])
        assert logits.tobytes() == Engine.from_pack(pack).prefill(TOKENS[:rows]).tobytes()
        told = explain(described(folder / "wide.orkpack"), dispatcher, "prefill", rows)
    there = {
        decision.unit.op
        for section in told.sections
        for decision in section.decisions
        if decision.place is Place.NPU
    }
    ran = {names[0].split(".")[2] for names, _ in npu.compiled}
    ops = {"attn_q": Op.QKV, "attn_output": Op.ATTENTION_OUT, "ffn_gate": Op.GATE_UP, "ffn_down": Op.DOWN}
    assert {ops[name] for name in ran} == there
    assert {count for _, count in npu.compiled} <= {told.rows}


def test_what_never_runs_there_is_not_loaded(folder: Path) -> None:
    with OrkPack.open(folder / "wide.orkpack") as pack:
        npu = ExactNpu()
        dispatcher = Dispatcher(parse_overrides("down=cpu,qkv=cpu"))
        Engine.from_pack(pack, npu, dispatch=ModelDispatch(dispatcher, pack.architecture))
    assert {name.split(".")[2] for name in npu.loaded} == {"attn_output", "ffn_gate", "ffn_up"}


def test_with_everything_on_the_cpu_the_npu_gets_neither_weights_nor_work(folder: Path) -> None:
    with OrkPack.open(folder / "wide.orkpack") as pack:
        here, npu = Engine.from_pack(pack), ExactNpu()
        dispatcher = Dispatcher(parse_overrides("all=cpu"))
        engine = Engine.from_pack(pack, npu, dispatch=ModelDispatch(dispatcher, pack.architecture))
        np.testing.assert_array_equal(engine.logits_of(TOKENS), here.logits_of(TOKENS))
    assert npu.loaded == [] and npu.compiled == [] and npu.counters.submits == 0
