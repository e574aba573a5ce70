"""Weights in NPU memory before anything runs: complete, in their domains, in order, and nothing later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.dispatch.model_file import pack_sources
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.orkpack.schemes import SCHEMES
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.runner.residence import reside
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_models import write_tiny_llama
from tests.runner.exact_npu import ExactNpu

TOKENS = list(range(3, 43))


@pytest.fixture
def pack_path(tmp_path: Path) -> Path:
    source = write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")
    pack_gguf(source, tmp_path / "tiny.orkpack", created=0)
    return tmp_path / "tiny.orkpack"


def spread(pack: OrkPack) -> dict[str, int]:
    """Layer n into domain n + 1, everything else into 0."""
    return {n: int(n.split(".")[1]) + 1 if n.startswith("blk.") else 0 for n in pack.packed_names}


def test_everything_is_loaded_domain_by_domain_and_nothing_is_submitted(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack, Npu(InProcessBoard().device()) as npu:
        wanted = spread(pack)
        resident, report = reside(pack, npu, pack.packed_names, wanted)
        assert report.submits == 0 and npu.counters.submits == 0
        assert report.weights == report.expected == len(pack.packed_names) == len(resident)
        assert [domain.id for domain in report.domains] == sorted(set(wanted.values()))
        assert {domain.id: domain.weights for domain in report.domains} == {
            number: list(wanted.values()).count(number) for number in set(wanted.values())
        }
        assert report.bytes == sum(entry.data_size for entry in pack.tensors.values() if entry.K)
        # The driver's own book agrees on where they are, and entered each domain once.
        held = {use.id: use.used_bytes for use in npu.domains() if use.used_bytes}
        for domain in report.domains:
            assert held[domain.id] >= domain.bytes
        assert npu.domain_switching.counters.total <= len(report.domains)


def test_the_order_of_the_names_does_not_matter(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        wanted, npu = spread(pack), ExactNpu()
        reside(pack, npu, list(reversed(pack.packed_names)), wanted)
        assert [npu.domains[name] for name in npu.loaded] == sorted(wanted.values())


def test_a_weight_that_comes_late_is_an_error_that_names_it(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        first, *rest = pack.packed_names
        npu = ExactNpu()
        resident, _ = reside(pack, npu, rest, {})
        late = pack.packed(first)
        with pytest.raises(RefusedError, match=first.replace(".", r"\.")):
            resident.load(first, late.tiles, 64, 64, 0)
        with pytest.raises(RefusedError, match=first.replace(".", r"\.")):
            resident[first]
        assert first not in npu.loaded
        # What is there is handed out again, and not loaded twice.
        again = pack.packed(rest[0])
        assert resident.load(rest[0], again.tiles, 64, 64, 0) is resident[rest[0]]
        assert npu.loaded.count(rest[0]) == 1


def test_an_engine_over_several_domains_computes_the_same_bits(
    pack_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OrkPack.open(pack_path) as pack:
        cpu = Engine.from_pack(pack, context=64).logits_of(TOKENS)
        monkeypatch.setattr(OrkPack, "domain_of", spread(pack))
        with Npu(InProcessBoard().device()) as npu:
            engine = Engine.from_pack(pack, npu, context=64)
            assert engine.residence is not None and engine.residence.submits == 0
            assert len(engine.residence.domains) > 1
            loaded = engine.residence.weights
            np.testing.assert_array_equal(engine.logits_of(TOKENS), cpu)
            assert npu.counters.submits > 0 and engine.residence.weights == loaded


def test_a_pass_enters_each_domain_once(pack_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrkPack, "domain_of", property(spread))
    with OrkPack.open(pack_path) as pack, Npu(InProcessBoard().device()) as npu:
        dispatch = ModelDispatch(
            Dispatcher(parse_overrides("all=npu")), pack.architecture, pack_sources(pack)
        )
        engine = Engine.from_pack(pack, npu, context=64, overlap="off", dispatch=dispatch)
        engine.prefill(TOKENS)
        assert engine.residence is not None and len(engine.residence.domains) > 1
        engine.rewind(0)
        before = npu.domain_switching.counters.total
        engine.prefill(TOKENS)
        assert 1 <= npu.domain_switching.counters.total - before <= len(engine.residence.domains)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_told_is_what_was_loaded_whatever_way_a_weight_takes(tmp_path: Path, scheme: str) -> None:
    source = write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")
    pack_gguf(source, tmp_path / "tiny.orkpack", created=0, scheme=scheme)
    with OrkPack.open(tmp_path / "tiny.orkpack") as pack:
        npu = ExactNpu()
        resident, report = reside(pack, npu, pack.packed_names, pack.domain_of)
        assert report.weights == report.expected == len(resident) == len(npu.loaded) == len(pack.packed_names)
        assert set(npu.loaded) == set(pack.packed_names)


def test_one_token_loads_nothing_and_needs_nothing_loaded(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        npu = ExactNpu()
        engine = Engine.from_pack(pack, npu, context=64)
        loaded = list(npu.loaded)
        assert engine.residence is not None and engine.residence.weights == len(loaded) > 0
        engine.prefill(TOKENS[:1])
        engine.decode(5)
        assert npu.loaded == loaded and npu.counters.submits == 0
        engine.prefill(TOKENS)
        assert npu.loaded == loaded
