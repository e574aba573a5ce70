"""Windows, soft caps, norms of heads, experts, scans: overlapped and dispatched prompts of every family, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.explain import explain
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.dispatch.model_file import described
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_families import TINY_FAMILIES, write_tiny_family
from tests.reference.tiny_models import VOCABULARY
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 110).tolist()


@pytest.mark.parametrize("name", sorted(TINY_FAMILIES))
def test_overlapped_and_dispatched_it_gives_the_bits_of_the_cpu(tmp_path: Path, name: str) -> None:
    source = write_tiny_family(tmp_path / "m.gguf", name, seed=5)
    pack_gguf(source, tmp_path / "m.orkpack")
    dispatcher = Dispatcher(parse_overrides("qkv=npu,down=npu,gate-up=cpu,scan-in=npu,scan-out=cpu,scan=cpu"))
    with OrkPack.open(tmp_path / "m.orkpack") as pack:
        expected = Engine.from_pack(pack).logits_of(TOKENS).tobytes()
        everything = Engine.from_pack(pack, ExactNpu(), overlap="on")
        assert everything.logits_of(TOKENS).tobytes() == expected
        assert everything.stats.overlap is not None and everything.stats.overlap.overlapped_prompts == 1
        npu = ExactNpu()
        dispatch = ModelDispatch(dispatcher, pack.architecture)
        some = Engine.from_pack(pack, npu, overlap="on", dispatch=dispatch)
        assert some.logits_of(TOKENS).tobytes() == expected
        ran = {names[0].split(".")[2] for names, _ in npu.compiled}
        wanted = {"attn_q"} if pack.architecture.attending else set()
        wanted |= {"ssm_in"} if pack.architecture.scanning else set()
        assert wanted <= ran and not ran & {"ffn_gate", "ffn_up", "ssm_out"}
    for mode in ("prefill", "decode"):
        told = explain(described(source), dispatcher, mode, 110)
        layers = [layer for section in told.sections for layer in section.layers]
        assert sorted(layers) == list(range(pack.architecture.layers))
        assert all(decision.why for section in told.sections for decision in section.decisions)
