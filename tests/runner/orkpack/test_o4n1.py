"""The O4N1 record: its bytes, what it stands for, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.native.tiles import pack_tiles
from orkbench_tui.runner.orkpack.layout import DType
from orkbench_tui.runner.orkpack.o4n1 import O4n1
from orkbench_tui.runner.orkpack.packed_tensor import PackedTensor
from orkbench_tui.runner.quantize.four_bit import FourBit, four_bit
from orkbench_tui.runner.quantize.int4 import NF4_LUT, nf4

TYPES = {"uniform": DType.I4_UNIFORM, "nf4": DType.I4_CODEBOOK}


def weights(n: int = 6, k: int = 64) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, k)).astype(np.float32)


def stored(part: FourBit) -> PackedTensor:
    n, k = part.codes.shape
    return PackedTensor(
        "w", k, n, part.nibbles.reshape(-1), part.scales, 0, TYPES[part.kind], part.multipliers
    )


@pytest.mark.parametrize("kind", ["uniform", "nf4"])
def test_bytes_lie_where_the_format_says(kind: str) -> None:
    part = four_bit(weights(), kind, 0)  # type: ignore[arg-type]
    data = O4n1.of(stored(part)).to_bytes()
    assert data[:4] == b"1N4O" and len(data) == 20 + 4 * 6 + 6 * 32
    assert struct.unpack_from("<iiI", data, 8) == (64, 6, 1 if kind == "nf4" else 0)
    scale = struct.unpack_from("<f", data, 20)[0]
    first, nibble = part.values[0, 0], data[20 + 24] & 15
    worth = int(NF4_LUT[nibble]) if kind == "nf4" else (nibble ^ 8) - 8
    assert worth * scale == pytest.approx(float(first), rel=1e-6)
    odd = data[20 + 24] >> 4
    assert (int(NF4_LUT[odd]) if kind == "nf4" else (odd ^ 8) - 8) * scale == pytest.approx(
        float(part.values[0, 1]), rel=1e-6
    )


@pytest.mark.parametrize("kind", ["uniform", "nf4"])
def test_loaded_again_it_is_the_same_bytes_and_the_same_tiles(kind: str) -> None:
    part = four_bit(weights(70, 96), kind, 0)  # type: ignore[arg-type]
    data = O4n1.of(stored(part)).to_bytes()
    again = O4n1.from_bytes(data)
    assert again.to_bytes() == data
    tensor = again.tensor("w")
    assert O4n1.of(tensor).to_bytes() == data
    np.testing.assert_array_equal(tensor.tiles, stored(part).tiles)
    np.testing.assert_array_equal(tensor.tiles, pack_tiles(np.ascontiguousarray(part.int8)))
    np.testing.assert_allclose(tensor.scales, part.scales, rtol=1e-6)
    # Half of the tiles, and the scales.
    assert len(data) < 0.6 * tensor.tiles.nbytes


def test_a_row_s_codes_come_near_it_with_the_published_scale() -> None:
    values = weights(32, 256)
    for kind, bound in (("uniform", 0.17), ("nf4", 0.12)):
        part = four_bit(values, kind, 0)  # type: ignore[arg-type]
        assert np.linalg.norm(part.values - values) < bound * np.linalg.norm(values)
    plain = nf4(values)
    unclipped = four_bit(values, "nf4", 0)
    assert (unclipped.scales <= plain.scales[:, 0] * 1.0001).all()


def test_what_has_no_nibbles_is_not_dumped() -> None:
    int8 = PackedTensor("blk.0.w", 64, 32, np.zeros(2048, np.uint8), np.ones(32, np.float32))
    with pytest.raises(UsageError, match=r"blk\.0\.w holds no 4-bit codes"):
        O4n1.of(int8)
    with pytest.raises(UsageError, match="has groups"):
        O4n1.of(stored(four_bit(weights(), "uniform", 32)))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 300), st.integers(0, 255), st.booleans())
def test_damaged_records_raise_nothing_else(at: int, value: int, cut: bool) -> None:
    data = bytearray(O4n1.of(stored(four_bit(weights(), "uniform", 0))).to_bytes())
    place = at % len(data)
    if cut:
        del data[place:]
    else:
        data[place] = value
    try:
        O4n1.from_bytes(bytes(data))
    except OrkError as error:
        assert isinstance(error, InvalidFileError)
    else:
        assert not cut
