"""Scans that share their work with the NPU: near what the processor gives alone, the same bits in any cut of a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.modes import ModeKnobs
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import UnhealthyError
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.overlap.choice import OverlapSetting
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_families import TINY_FAMILIES, family_weights, write_tiny_family
from tests.reference.tiny_models import VOCABULARY, write_tiny_llama
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(8).integers(0, VOCABULARY, 300).tolist()
NAME = "mamba2 of 64 heads"


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrkPack]:
    path = tmp_path_factory.mktemp("scan") / "m.orkpack"
    pack_gguf(write_tiny_family(path.with_suffix(".gguf"), NAME), path)
    with OrkPack.open(path) as opened:
        yield opened


def engine(
    pack: OrkPack,
    npu: ExactNpu | Npu | None = None,
    settings: str = "scan=npu",
    overlap: OverlapSetting = "off",
) -> Engine:
    dispatch = ModelDispatch(Dispatcher(parse_overrides(settings)), pack.architecture)
    return Engine.from_pack(pack, npu or ExactNpu(), dispatch=dispatch, overlap=overlap)


def off(found: np.ndarray, exact: np.ndarray) -> float:
    """Rounding to halves flips some roundings to int8 after it, which is most of this."""
    return float(np.sqrt(np.mean((found - exact) ** 2)) / exact.std())


def test_a_setting_brings_a_scan_to_the_npu_and_keeps_it_away(pack: OrkPack) -> None:
    npu = ExactNpu()
    shared = engine(pack, npu).prefill(TOKENS)
    # 256 rows touch and fill four chunks of each layer and group, the other 44 touch one more.
    assert npu.half_products == 2 * 2 * (4 + 4 + 1)
    npu = ExactNpu()
    alone = engine(pack, npu, "scan=cpu").prefill(TOKENS)
    assert npu.half_products == 0
    assert alone.tobytes() == Engine.from_pack(pack).prefill(TOKENS).tobytes()
    assert 0 < off(shared, alone) < 0.03


def test_the_simulated_chip_gives_what_exact_halves_do(pack: OrkPack) -> None:
    with closing(InProcessBoard()) as board, Npu(board.device()) as npu:
        found = engine(pack, npu).prefill(TOKENS[:150])
        assert npu.counters.resets <= 1, "int8 and fp16 keep each other warm"
    expected = engine(pack).prefill(TOKENS[:150])
    assert off(found, expected) < 0.01


@pytest.mark.parametrize(("warm", "resets"), [(True, 1), (False, 1 + 2 * 2 * 2)])
def test_kept_warm_a_prompt_resets_once_and_else_at_every_change_of_precision(
    pack: OrkPack, warm: bool, resets: int
) -> None:
    """The first is from nothing; two changes a layer follow, of two layers and two programs."""
    with closing(InProcessBoard()) as board, Npu(board.device(), knobs=ModeKnobs(f16warm=warm)) as npu:
        found = engine(pack, npu, "all=npu,scan=npu").prefill(TOKENS[:300])
        assert npu.counters.resets == resets
    assert found.tobytes() == engine(pack, settings="all=npu,scan=npu").prefill(TOKENS[:300]).tobytes()


@pytest.mark.parametrize("cuts", [(1, 299), (150, 1, 149), (64, 64, 172), (63, 2, 235), (257, 43)])
def test_a_prompt_gives_the_same_bits_in_any_cut(pack: OrkPack, cuts: tuple[int, ...]) -> None:
    whole = engine(pack).prefill(TOKENS)
    session, first = engine(pack), 0
    for count in cuts:
        logits = session.prefill(TOKENS[first : first + count])
        first += count
    assert logits.tobytes() == whole.tobytes()


@pytest.mark.parametrize("count", [65, 151, 257, 300])
def test_overlapped_prompts_give_the_bits_of_serial_ones(pack: OrkPack, count: int) -> None:
    session = engine(pack, overlap="on")
    assert session.prefill(TOKENS[:count]).tobytes() == engine(pack).prefill(TOKENS[:count]).tobytes()
    assert session.stats.overlap is not None and session.stats.overlap.overlapped_prompts == 1


def test_the_processor_goes_on_with_single_tokens(pack: OrkPack) -> None:
    shared, alone = engine(pack), engine(pack, settings="scan=cpu")
    shared.prefill(TOKENS[:100])
    alone.prefill(TOKENS[:100])
    for token in TOKENS[100:170]:
        found, expected = shared.decode(token), alone.decode(token)
        assert off(found, expected) < 0.03
    assert off(shared.prefill(TOKENS[170:200]), alone.prefill(TOKENS[170:200])) < 0.03


def test_sessions_over_one_model_share_the_operands_and_not_the_states(pack: OrkPack) -> None:
    one = engine(pack)
    other = one.another()
    one.prefill(TOKENS[:80])
    other.prefill(TOKENS[100:190])
    expected = engine(pack)
    expected.prefill(TOKENS[:80])
    assert one.prefill(TOKENS[80:200]).tobytes() == expected.prefill(TOKENS[80:200]).tobytes()


def test_after_a_failure_between_the_products_the_session_begins_anew(pack: OrkPack) -> None:
    npu, runs = ExactNpu(), iter(range(1000))
    session = engine(pack, npu)
    session.prefill(TOKENS[:40])

    def fail() -> None:
        if next(runs) == 2:
            raise UnhealthyError("the NPU is gone")

    npu.before_run = fail
    with pytest.raises(UnhealthyError):
        session.prefill(TOKENS[40:180])
    assert session.position == 0
    npu.before_run = None
    assert session.prefill(TOKENS[:180]).tobytes() == engine(pack).prefill(TOKENS[:180]).tobytes()


def test_logits_that_are_not_finite_name_the_layer(tmp_path: Path) -> None:
    family = TINY_FAMILIES[NAME]
    assert family.scan is not None
    weights = family_weights(family)
    weights["blk.1.ssm_conv1d.bias"][-1] = 3e38
    path = write_tiny_llama(
        tmp_path / "m.gguf",
        shape=family.shape,
        architecture="mamba2",
        metadata={f"mamba2.{key}": value for key, value in family.scan.metadata.items()},
        weights=weights,
    )
    pack_gguf(path, path.with_suffix(".orkpack"))
    with OrkPack.open(path.with_suffix(".orkpack")) as opened, pytest.raises(UnhealthyError, match="layer 1"):
        engine(opened).prefill(TOKENS[:70])
