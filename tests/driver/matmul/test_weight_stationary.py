"""The published figures of weight-stationary matmuls."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.matmul.weight_stationary import (
    K_SLICE_TIME_RATIO,
    Accumulate,
    best_tiling,
    speedup,
)

_K = 3584


@pytest.mark.parametrize(
    ("m", "n", "tile_us", "where", "ratio"),
    [
        (228, 1216, 4.4, Accumulate.CHIP, 0.98),
        (228, 3584, 4.4, Accumulate.CHIP, 0.99),
        (228, 9472, 4.4, Accumulate.CHIP, 1.02),
        (2048, 9472, 4.4, Accumulate.CHIP, 1.03),
        (228, 1216, 4.0, Accumulate.CHIP, 1.07),
        (2048, 3584, 4.0, Accumulate.CHIP, 1.09),
        (2048, 9472, 4.0, Accumulate.CHIP, 1.13),
        (228, 1216, 0.0, Accumulate.CHIP, 4.57),
        (228, 3584, 0.0, Accumulate.DRAM, 1.04),
        (228, 3584, 4.4, Accumulate.DRAM, 0.78),
    ],
)
def test_published_ratios(m: int, n: int, tile_us: float, where: Accumulate, ratio: float) -> None:
    assert speedup(m, _K, n, tile_us, where)[0] == pytest.approx(ratio, abs=0.0051)


def test_published_tile_counts() -> None:
    assert best_tiling(228, _K, 1216, 4.4, Accumulate.CHIP).tiles == 686
    assert best_tiling(1024, _K, 9472, 4.4, Accumulate.CHIP).tiles == 20706
    assert [-(-m // 36) for m in (228, 1024)] == [7, 29]


def test_accumulating_in_dram_warns_and_on_the_chip_does_not() -> None:
    ratio, warning = speedup(228, _K, 3584, 4.4, Accumulate.DRAM)
    assert ratio < 1 and warning.startswith("GRD-48, ") and "0.78" in warning
    assert speedup(228, _K, 3584, 4.4, Accumulate.CHIP)[1] == ""


def test_slices_of_k_are_slower_the_more_there_are() -> None:
    assert K_SLICE_TIME_RATIO == {2: 0.96, 4: 0.65, 8: 0.39}


@pytest.mark.parametrize("k", [0, 63, 100])
def test_k_is_a_multiple_of_64(k: int) -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        best_tiling(1, k, 64, 4.4, Accumulate.CHIP)
