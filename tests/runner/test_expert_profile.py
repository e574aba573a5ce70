"""The profile of models with experts: chosen by the model alone, and overridden by naming a scheme."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.runner.dispatch.dispatcher import Dispatcher
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.dispatch.unit import Op, Place
from orkbench_tui.runner.expert_profile import PROFILE, automatic_scheme, published_gain
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.models.read_architecture import architecture_of
from tests.conftest import ork
from tests.reference.tiny_experts import write_tiny_experts
from tests.reference.tiny_families import write_tiny_family
from tests.reference.tiny_models import write_tiny_llama


def choice(path: Path, held: GgmlType | None = None) -> tuple[str, str]:
    with GgufFile.open(path) as model:
        found = automatic_scheme(architecture_of(model), lambda name: held or model.tensors[name].type)
    return found.scheme, found.why


def test_experts_choose_the_scheme_and_nothing_else(tmp_path: Path) -> None:
    assert choice(write_tiny_llama(tmp_path / "dense.gguf")) == ("w8a8-rot", "")
    moe = write_tiny_experts(tmp_path / "moe.gguf")
    assert choice(moe)[0] == "nf4-mixed"
    for type_ in (GgmlType.F16, GgmlType.Q8_0, GgmlType.Q6_K):
        assert choice(moe, type_)[0] == "nf4-mixed"


@pytest.mark.parametrize("type_", [GgmlType.Q4_K, GgmlType.Q4_0, GgmlType.Q3_K])
def test_a_source_of_4_bits_is_not_rounded_twice(tmp_path: Path, type_: GgmlType) -> None:
    scheme, why = choice(write_tiny_experts(tmp_path / "moe.gguf"), type_)
    assert scheme == "w8a8-rot" and type_.name in why


def test_experts_that_stay_int8_by_shape_do_not_ask_for_their_source(tmp_path: Path) -> None:
    assert choice(write_tiny_family(tmp_path / "m.gguf", "qwen3moe"), GgmlType.Q4_K)[0] == "nf4-mixed"


def test_the_dispatcher_places_parts_as_the_profile_says(tmp_path: Path) -> None:
    """Decode all on the CPU; in prefill experts there too, and attention free to go to the NPU."""
    with GgufFile.open(write_tiny_experts(tmp_path / "moe.gguf")) as model:
        dispatch = ModelDispatch(Dispatcher({}), architecture_of(model))
    places = {part.name: (part.prefill, part.decode) for part in PROFILE}
    decode = dispatch.everything(1, 64)
    assert {decision.place for _, decision in decode} == {Place.CPU}
    assert {one for _, one in places.values()} == {"cpu"}
    experts = [d for _, d in dispatch.everything(256, 256) if d.unit.op is Op.EXPERTS]
    assert experts and {(d.place, d.rule) for d in experts} == {(Place.CPU, "experts")}
    assert places["experts"][0] == places["router"][0] == "cpu"
    # Asked for, the dense parts go; experts are not among what may be asked for.
    with GgufFile.open(tmp_path / "moe.gguf") as model:
        forced = ModelDispatch(
            Dispatcher({"attention-out": Place.NPU, "qkv": Place.NPU}), architecture_of(model)
        )
    names = forced.resident((256,))
    assert not any("_exps" in name for name in names)
    assert places["attention and dense"] == ("npu", "cpu")


def test_the_published_gain() -> None:
    assert published_gain() == pytest.approx(1.59, abs=0.01)


def test_no_setting_is_needed_and_one_word_overrides(tmp_path: Path) -> None:
    model = str(write_tiny_experts(tmp_path / "moe.gguf"))
    words = ("run", "complete", "the rain", "--max-tokens", "2", "-m", model, "--target", "sim", "--json")
    done = ork(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["quant"] == "nf4-mixed"
    assert "experts in NF4 on the CPU" in done.stderr
    named = ork(*words, "--quant", "w8a8-rot")
    assert json.loads(named.stdout)["data"]["quant"] == "w8a8-rot"
