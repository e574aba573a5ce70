"""Calibration: what the engine's own float path sees, in a file that is bound to its model and never half there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, OrkError, RefusedError, UsageError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.quantize.arm_engine import arm_engine
from orkbench_tui.runner.quantize.arms import ARMS
from orkbench_tui.runner.quantize.calibrate import gather
from orkbench_tui.runner.quantize.calibration import Calibration, CalibrationWriter
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 150).tolist()
WINDOW = 64


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("source") / "tiny.gguf", quant="Q8_0", shape=SHAPE)


def calibrated(source: Path, path: Path, *, hessians: bool = True) -> Path:
    with GgufFile.open(source) as model, CalibrationWriter(path) as writer:
        used = gather(GgufWeights(model), TOKENS, writer, window=WINDOW, hessians=hessians)
        writer.finish(model_sha256="ab" * 32, text_sha256="cd" * 32, tokens=used, window=WINDOW)
    return path


@pytest.fixture(scope="module")
def path(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return calibrated(source, tmp_path_factory.mktemp("calibration") / "tiny.orkcal")


def test_inputs_are_those_a_plain_numpy_pass_sees(source: Path, path: Path) -> None:
    seen: dict[str, list[np.ndarray]] = {}
    with GgufFile.open(source) as model:
        decoder = ReferenceDecoder.from_gguf(model)
        apply = decoder._linears.apply

        def watched(name: str, x: np.ndarray) -> np.ndarray:
            seen.setdefault(name, []).append(np.atleast_2d(x))
            return apply(name, x)

        decoder._linears.apply = watched  # type: ignore[method-assign]
        for first in range(0, 2 * WINDOW, WINDOW):
            decoder.rewind(0)
            decoder.logits_of(TOKENS[first : first + WINDOW])
    with Calibration.open(path) as calibration:
        assert (calibration.tokens, calibration.window) == (2 * WINDOW, WINDOW)
        assert calibration.has_hessians and len(seen) == 2 * 7 + 1
        for name, parts in seen.items():
            inputs = np.concatenate(parts)
            exact = inputs.T.astype(np.float64) @ inputs / len(inputs)
            hessian = calibration.hessian(name)
            assert hessian is not None
            np.testing.assert_allclose(hessian, exact, rtol=2e-3, atol=1e-3 * np.diag(exact).max())
            np.testing.assert_allclose(calibration.squares(name), np.diag(exact), rtol=1e-3)
            np.testing.assert_array_equal(hessian, hessian.T)


def test_without_hessians_the_file_is_small(source: Path, path: Path, tmp_path: Path) -> None:
    small = calibrated(source, tmp_path / "small.orkcal", hessians=False)
    assert small.stat().st_size < path.stat().st_size / 3
    with Calibration.open(small) as without, Calibration.open(path) as whole:
        assert not without.has_hessians and without.hessian("blk.0.attn_q.weight") is None
        name = "blk.1.ffn_down.weight"
        np.testing.assert_array_equal(without.squares(name), whole.squares(name))
        assert without.squares("blk.9.ffn_down.weight") is None


def test_a_text_shorter_than_a_window_is_refused_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="150 tokens"),
        GgufFile.open(source) as model,
        CalibrationWriter(tmp_path / "x.orkcal") as writer,
    ):
        gather(GgufWeights(model), TOKENS, writer, window=151)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_keeps_nothing_and_what_was_there_stays(source: Path, path: Path, tmp_path: Path) -> None:
    old = tmp_path / "x.orkcal"
    old.write_bytes(path.read_bytes())

    def stop(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        GgufFile.open(source) as model,
        CalibrationWriter(old) as writer,
    ):
        gather(GgufWeights(model), TOKENS, writer, window=WINDOW, progress=stop)
    assert [item.name for item in tmp_path.iterdir()] == ["x.orkcal"]
    assert old.read_bytes() == path.read_bytes()


def test_something_else_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RefusedError, match="no calibration"):
        CalibrationWriter(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_another_model_is_named(path: Path) -> None:
    with Calibration.open(path) as calibration:
        calibration.require_model("ab" * 32)
        with pytest.raises(InvalidFileError, match="another model"):
            calibration.require_model("ac" * 32)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 30), st.integers(0, 7), st.booleans())
def test_damage_is_a_typed_error_or_harmless(
    path: Path, tmp_path: Path, at: int, bit: int, cut: bool
) -> None:
    content = bytearray(path.read_bytes())
    place = at % len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= 1 << bit
    (tmp_path / "bad.orkcal").write_bytes(content)
    try:
        with Calibration.open(tmp_path / "bad.orkcal") as calibration:
            for entry in calibration.inputs:
                calibration.squares(entry.name)
                calibration.hessian(entry.name)
    except OrkError:
        return
    # Only the header's spare field may change without being noticed.
    assert not cut and (12 <= place < 16 or 36 <= place < 40)


def test_arms_run_and_the_better_ones_are_nearer(source: Path, path: Path) -> None:
    with GgufFile.open(source) as model, Calibration.open(path) as calibration:
        weights = GgufWeights(model)
        exact = ReferenceDecoder.from_gguf(model).logits_of(TOKENS[:64])
        off = {}
        for name in ("w8a8-rot", "w4a8-g32-rot", "w4a8-g32-rot-gptq", "w4a4"):
            engine = arm_engine(weights, ARMS[name], calibration, context=64)
            assert engine.quant == f"fake:{name}"
            off[name] = float(np.sqrt(np.mean((engine.logits_of(TOKENS[:64]) - exact) ** 2)))
        assert off["w8a8-rot"] < off["w4a8-g32-rot"] < off["w4a4"]
        assert off["w4a8-g32-rot-gptq"] < off["w4a4"]
        with pytest.raises(UsageError, match="needs a calibration"):
            arm_engine(weights, ARMS["w4a8-g32-rot-gptq"], context=64)
