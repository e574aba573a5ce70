"""Splitting covers (M, K, N) exactly and stays inside the chip's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.matmul.splitting import (
    column_segments,
    even_parts,
    feature_banks,
    max_rows,
    row_tiles,
    weight_banks,
)
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32 as P
from orkbench_tui.driver.regcmd.programs import data_banks
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import RefusedError

K = st.integers(1, 256).map(lambda granules: granules * 32)
N = st.integers(1, 5000).map(lambda granules: granules * 32)


def _covers(parts, total):
    at = 0
    for start, length in parts:
        assert start == at and length > 0
        at += length
    assert at == total


@given(st.integers(1, 5000), st.integers(1, 40), st.integers(1, 64))
def test_even_parts_cover_and_differ_by_at_most_one_granule(granules, parts, granule):
    found = even_parts(granules * granule, parts, granule)
    _covers(found, granules * granule)
    lengths = {length for _, length in found}
    assert max(lengths) - min(lengths) in (0, granule)


@given(st.integers(1, 5000), K)
def test_rows_fit_the_feature_banks_with_half_a_bank_spare(rows, k):
    limit = max_rows(RK3588, P, k)
    _covers(row_tiles(rows, limit), rows)
    for _, height in row_tiles(rows, limit):
        assert height <= limit
        banks = feature_banks(RK3588, P, height, k)
        assert data_banks(RK3588, P, height, k) <= banks <= RK3588.cbuf_banks - weight_banks(RK3588, P, k)
        assert 2 * height * k <= (2 * banks - 1) * RK3588.cbuf_bank_bytes or banks == 1


@given(N, st.integers(1, 3))
def test_column_segments_cover_n_within_the_field(n, cores):
    segments = column_segments(RK3588, P, n, cores)
    _covers(segments, n)
    assert all(width % 32 == 0 and width <= RK3588.max_n_per_program for _, width in segments)


@pytest.mark.parametrize(("k", "rows"), [(4096, 64), (6144, 32), (8192, 16)])
def test_row_caps_stay_below_what_ran_on_boards(k, rows):
    assert max_rows(RK3588, P, k) <= rows


def test_k_that_leaves_no_bank_is_refused():
    with pytest.raises(RefusedError, match="K = 16384"):
        max_rows(RK3588, P, 16384)
