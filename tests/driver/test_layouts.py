"""Index maps against the published examples, and array reshapes against the maps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.layouts import (
    cube_index,
    from_cube,
    tile_weights,
    to_cube,
    untile_weights,
    weight_index,
)
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32 as P


def test_published_examples():
    assert weight_index(P, 128, 33, 70) == 6182
    assert cube_index(5, 16, 3, 37) == 213
    assert cube_index(5, 4, 3, 37) == 193


@given(st.integers(1, 70), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_tiling_follows_the_map_and_is_undone_by_untiling(n, k, seed):
    weights = np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)
    tiles = tile_weights(P, weights)
    k_padded = -(-k // 32) * 32
    for row, column in [(0, 0), (n - 1, k - 1), (n // 2, k // 3)]:
        assert tiles[weight_index(P, k_padded, row, column)] == weights[row, column]
    assert int(np.abs(tiles.astype(int)).sum()) == int(np.abs(weights.astype(int)).sum())
    np.testing.assert_array_equal(untile_weights(P, tiles, n, k), weights)


def test_the_weight_map_is_a_bijection():
    indices = {weight_index(P, 96, n, k) for n in range(64) for k in range(96)}
    assert indices == set(range(64 * 96))


@given(st.integers(1, 9), st.integers(1, 6), st.sampled_from([4, 8, 16, 32]))
def test_cubes_follow_the_map(rows, atoms, per_atom):
    matrix = np.arange(rows * atoms * per_atom, dtype=np.int32).reshape(rows, atoms * per_atom)
    cube = to_cube(matrix, per_atom)
    for row in range(rows):
        for channel in range(0, atoms * per_atom, 3):
            assert cube[cube_index(rows, per_atom, row, channel)] == matrix[row, channel]
    np.testing.assert_array_equal(from_cube(cube, rows, atoms * per_atom, per_atom), matrix)
