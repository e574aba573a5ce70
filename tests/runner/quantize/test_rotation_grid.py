"""Rotation and granularity together, on weights of a file: what the published grid of four says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from orkbench_tui.native.rotation import rotated_in_numpy
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.orkpack.schemes import rotation_of
from orkbench_tui.runner.quantize.int4 import uniform_int4
from orkbench_tui.runner.quantize.matmul_error import harness_activations, matmul_errors, quantized_rows
from tests.reference.tiny_models import write_tiny_llama


def _error(a: np.ndarray, w: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(a @ w.T - exact) / np.linalg.norm(exact))


def test_rotation_rescues_one_scale_a_row_and_groups_need_it_least() -> None:
    """Order of the published perplexities: in groups, then one scale a row rotated, then one scale a row."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((128, 1024))
    weights[:, ::131] *= 12
    rows = harness_activations(1024, rows=32)
    exact = rows @ weights.T
    plain, turned = (weights, rows), tuple(rotated_in_numpy(x, rotation_of(1024)) for x in (weights, rows))
    errors = {
        (group, name): _error(quantized_rows(a, 4, group), uniform_int4(w, group, native=True).values, exact)
        for group in (0, 128)
        for name, (w, a) in (("plain", plain), ("rotated", turned))
    }
    assert errors[128, "plain"] < errors[0, "plain"]
    assert errors[0, "rotated"] < 0.6 * errors[0, "plain"]
    gain = {group: errors[group, "plain"] / errors[group, "rotated"] for group in (0, 128)}
    assert gain[0] > gain[128], "groups are well conditioned already"


def test_on_rows_of_a_file_rotation_lowers_the_error_and_activations_are_most_of_it(tmp_path: Path) -> None:
    with GgufFile.open(write_tiny_llama(tmp_path / "m.gguf", quant="Q8_0")) as file:
        weights = file.dequantized("blk.0.ffn_up.weight").astype(np.float64)
    errors = matmul_errors(weights)
    assert errors["w4a4-rot"].relative < errors["w4a4"].relative
    rows = harness_activations(weights.shape[1])
    exact = rows @ weights.T
    by_inputs = _error(quantized_rows(rows, 4), weights, exact)
    by_weights = _error(rows, uniform_int4(weights, 0, native=True).values, exact)
    assert by_inputs > by_weights
    assert by_inputs < errors["w4a4"].relative < by_inputs + by_weights
