"""Packing by rows: the bytes of packing everything at once, from one row of float32 at a time."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.native.row_packing import tiles_from_rows
from orkbench_tui.native.tiles import pack_tiles, quantize_weights
from tests.native.kernel_oracle import every_way, quantized, untiled


@pytest.mark.parametrize(("n", "k", "rotation"), [(1, 32, 0), (33, 72, 0), (64, 256, 128), (70, 96, 32)])
def test_every_variant_gives_the_same_bytes(n: int, k: int, rotation: int) -> None:
    """f32 in one pass, f32 row by row, and codes by numpy that are tiled afterwards."""
    w = np.random.default_rng(n).standard_normal((n, k)).astype(np.float32)
    w[0, ::7] *= 40
    seen: list[int] = []

    def read(row: int, out: np.ndarray) -> None:
        assert out.shape == (k,) and out.dtype == np.float32
        seen.append(out.ctypes.data)
        out[:] = w[row]

    for label, threads, way in every_way():
        seen.clear()
        with way():
            whole, scales = quantize_weights(w, rotation=rotation, threads=threads)
            tiles, row_scales = tiles_from_rows(read, n, k, rotation=rotation, threads=threads)
        assert tiles.tobytes() == whole.tobytes(), label
        assert row_scales.tobytes() == scales.tobytes(), label
        assert len(set(seen)) == 1, "the only float32 room is one row"
    if not rotation:
        codes, plain = quantized(w)
        assert pack_tiles(codes).tobytes() == whole.tobytes() and plain.tobytes() == scales.tobytes()


def test_rows_land_where_they_belong() -> None:
    def read(row: int, out: np.ndarray) -> None:
        out[:] = 0
        out[row % 64] = row + 1

    tiles, scales = tiles_from_rows(read, 50, 64)
    matrix = untiled(tiles, 50, 64)
    for row in range(50):
        assert matrix[row].tolist() == [127 * (at == row % 64) for at in range(64)]
    assert not matrix[50:].any()
    np.testing.assert_allclose(scales * 127, np.arange(1, 51), rtol=1e-6)


def test_a_row_that_is_not_finite_shows_in_its_scale() -> None:
    def read(row: int, out: np.ndarray) -> None:
        out[:] = np.nan if row == 2 else 1

    _, scales = tiles_from_rows(read, 4, 32)
    assert np.isnan(scales).tolist() == [False, False, True, False]


@pytest.mark.parametrize(("n", "k", "rotation"), [(0, 32, 0), (4, 0, 0), (4, 48, 32)])
def test_sizes_that_do_not_fit_are_refused(n: int, k: int, rotation: int) -> None:
    with pytest.raises(ValueError, match=r"rows of|rotation|block"):
        tiles_from_rows(lambda _row, _out: None, n, k, rotation=rotation)
