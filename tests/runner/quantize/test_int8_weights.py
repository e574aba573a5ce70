"""The native weight quantizer against the numpy oracle, in codes, scales and layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.quantize.int8 import quantize_rows
from tests.reference import w8a8


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 70), k=st.integers(1, 130), seed=st.integers(0, 1 << 30), exponent=st.integers(-30, 30)
)
def test_codes_scales_and_tiles_equal_the_oracle(n: int, k: int, seed: int, exponent: int) -> None:
    rows = (np.random.default_rng(seed).standard_normal((n, k)) * 2.0**exponent).astype(np.float32)
    rows[seed % n] = 0
    tiles, scales = quantize_rows(rows, "w")
    codes, expected_scales = w8a8.quantize(rows)
    np.testing.assert_array_equal(scales, expected_scales)
    np.testing.assert_array_equal(tiles, w8a8.tile(codes))
    assert scales[seed % n] == 1.0
    error = np.abs(rows - codes * scales[:, None].astype(np.float64))
    # The quotient w / scale, up to 127, is rounded to float32 before it is rounded to a code.
    assert np.all(error <= scales[:, None].astype(np.float64) * (0.5 + 127 * 2.0**-23))


def test_halves_round_away_from_zero() -> None:
    rows = np.array([[127.0, 0.5, -0.5, 1.5, -2.5, 126.5, -126.5]], dtype=np.float32)
    tiles, scales = quantize_rows(rows, "w")
    assert scales[0] == 1.0
    assert w8a8.untile(tiles, 1, 7).tolist() == [[127, 1, -1, 2, -3, 127, -127]]


def test_the_tile_offset_of_the_reference_vector() -> None:
    codes = np.zeros((64, 512), dtype=np.float32)
    codes[33, 40] = 127.0
    tiles, _ = quantize_rows(codes, "w")
    assert np.flatnonzero(tiles).tolist() == [17448]


def test_subnormal_rows_stay_usable() -> None:
    rows = np.array([[1e-44, -1e-45, 0.0], [1e-40, 5e-41, -1e-40]], dtype=np.float32)
    _, scales = quantize_rows(rows, "w")
    assert np.all(scales > 0) and np.all(np.isfinite(scales))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 36])
def test_a_weight_that_is_no_number_is_named(value: float, column: int) -> None:
    rows = np.ones((40, 37), dtype=np.float32)
    rows[35, column] = value
    with pytest.raises(InvalidFileError, match=r"blk\.0\.ffn_up\.weight") as caught:
        quantize_rows(rows, "blk.0.ffn_up.weight", first_row=100)
    assert "row 135" in caught.value.line()
