"""Rotations are orthogonal, the same for both operands, and spread outliers."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.runner.orkpack.schemes import rotation_of
from orkbench_tui.runner.quantize.matmul_error import ARMS, harness_activations, matmul_errors
from orkbench_tui.runner.quantize.rotations import ROTATIONS, Rotation


@pytest.mark.parametrize("rotation", ROTATIONS.values(), ids=ROTATIONS)
@pytest.mark.parametrize("k", [32, 96, 256, 576])
def test_it_is_orthogonal_and_keeps_products(rotation: Rotation, k: int) -> None:
    matrix = rotation.matrix(k)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(k), atol=1e-9)
    rng = np.random.default_rng(k)
    a, w = rng.standard_normal((5, k)), rng.standard_normal((7, k))
    np.testing.assert_allclose(rotation.turn(a) @ rotation.turn(w).T, a @ w.T, atol=1e-9)
    np.testing.assert_allclose(rotation.turn(a), a @ matrix, atol=1e-9)


@pytest.mark.parametrize("name", ROTATIONS)
def test_an_outlier_is_spread_over_its_block(name: str) -> None:
    row, block = np.zeros((1, 256)), rotation_of(256)
    row[0, 17] = 16.0
    turned = np.abs(ROTATIONS[name].turn(row))
    reached = int((turned > 1e-9).sum())
    if name == "spread":
        assert reached > block and turned.max() < 4
    else:
        assert reached == block and turned.max() == pytest.approx(16 / np.sqrt(block))


def test_across_blocks_only_the_second_turn_reaches() -> None:
    """Of 96 values a block holds 32."""
    reach = {name: int((np.abs(r.turn(np.eye(96)[:1])) > 1e-9).sum()) for name, r in ROTATIONS.items()}
    assert reach["hadamard"] == reach["signed"] == 32 < reach["spread"]


def test_every_rotation_beats_none_at_one_scale_a_row() -> None:
    weights = np.random.default_rng(3).standard_normal((64, 1056))
    weights[:, ::101] *= 12
    errors = {
        name: error.relative for name, error in matmul_errors(weights, harness_activations(1056)).items()
    }
    assert {"w4a4-rot", "w4a4-signed", "w4a4-spread"} <= set(ARMS)
    assert max(errors[name] for name in ("w4a4-rot", "w4a4-signed", "w4a4-spread")) < errors["w4a4"]
