"""Keys and values that grow by one: the same bytes as a full repack, and only their own cleaned."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver import uapi
from orkbench_tui.driver.attention_limits import KEY_CONTRACTION
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.layouts import tile_weights, weight_index
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.driver.resident_kv import key_offsets, merged_ranges, value_offsets
from orkbench_tui.errors import NoDeviceError


def _row(random, size):
    return random.integers(-128, 128, size, dtype=np.int8)


def _repacked(keys, values, max_keys):
    """Both weights packed from scratch: [max_keys, 512] and [head_dim, max_keys]."""
    dims = keys.shape[1]
    wide = np.zeros((max_keys, KEY_CONTRACTION), np.int8)
    wide[: len(keys), :dims] = keys
    turned = np.zeros((dims, max_keys), np.int8)
    turned[:, : len(values)] = values.T
    return tile_weights(INT8_TO_INT32, wide), tile_weights(INT8_TO_INT32, turned)


def _one(function, *arguments):
    return int(function(*arguments))


@pytest.mark.parametrize(
    ("key", "dim", "offset"), [(0, 0, 0), (1, 0, 32), (33, 40, 17448), (511, 127, 249855)]
)
def test_published_offsets_of_keys(key, dim, offset):
    assert _one(key_offsets, key, np.int64(dim)) == offset


@pytest.mark.parametrize(
    ("max_keys", "dim", "key", "offset"),
    [(512, 5, 33, 1185), (512, 127, 511, 65535), (2048, 127, 2047, 262143)],
)
def test_published_offsets_of_values(max_keys, dim, key, offset):
    assert _one(value_offsets, key, np.int64(dim), max_keys) == offset


@given(key=st.integers(0, 8191), dim=st.integers(0, 511), blocks=st.integers(1, 256))
def test_the_offsets_are_those_of_the_weight_layout(key, dim, blocks):
    assert _one(key_offsets, key, np.int64(dim)) == weight_index(INT8_TO_INT32, KEY_CONTRACTION, key, dim)
    key %= 32 * blocks
    assert _one(value_offsets, key, np.int64(dim), 32 * blocks) == weight_index(
        INT8_TO_INT32, 32 * blocks, dim, key
    )


@given(st.sets(st.integers(0, 50_000), min_size=1, max_size=60), st.integers(1, 9000))
def test_ranges_cover_every_byte_and_keep_far_ones_apart(offsets, gap):
    ranges = merged_ranges(offsets, gap)
    assert all(any(start <= o < end for start, end in ranges) for o in offsets)
    assert all(start in offsets and end - 1 in offsets for start, end in ranges)
    assert all(after[0] - before[1] >= gap for before, after in pairwise(ranges))


@pytest.mark.parametrize("max_keys", [512, 2048])
def test_every_append_equals_a_full_repack(npu, max_keys):
    random = np.random.default_rng(1)
    kv = npu.resident_kv(64, max_keys)
    keys, values = _row(random, (max_keys, 64)), _row(random, (max_keys, 64))
    for at in range(max_keys):
        assert kv.append(keys[at], values[at]) == at
        if at % 97 == 0 or at > max_keys - 3:
            packed_keys, packed_values = _repacked(keys[: at + 1], values[: at + 1], max_keys)
            np.testing.assert_array_equal(kv._keys.tiles, packed_keys)
            np.testing.assert_array_equal(kv.values.tiles, packed_values)
    assert kv.length == max_keys


def test_what_the_chip_sees_is_what_was_appended(npu, board):
    """The device's side too, which only syncs reach."""
    random = np.random.default_rng(2)
    kv = npu.resident_kv(96, 128)
    keys, values = _row(random, (40, 96)), _row(random, (40, 96))
    for key, value in zip(keys, values, strict=True):
        kv.append(key, value)
    packed = _repacked(keys, values, 128)
    for weight, tiles in zip((kv._keys, kv.values), packed, strict=True):
        gem = board.kernel.memory.find(weight.buffer.obj_addr)
        np.testing.assert_array_equal(gem.device[: tiles.size].view(np.int8), tiles)


def test_only_touched_ranges_are_cleaned(npu, monkeypatch):
    kv = npu.resident_kv(128, 512)
    seen = []
    sync = Memory.sync
    monkeypatch.setattr(
        Memory, "sync", lambda self, part, way: (seen.append((part, way)), sync(self, part, way))[1]
    )
    row = np.ones(128, np.int8)
    kv.append(row, row)
    kv.append(row, row)
    seen.clear()
    kv.append(row, row)
    assert {way for _, way in seen} == {uapi.SyncFlag.TO_DEVICE}
    own = {id(kv._keys.buffer): key_offsets(2, np.arange(128)), id(kv.values.buffer): None}
    own[id(kv.values.buffer)] = value_offsets(2, np.arange(128), 512)
    for part, _ in seen:
        touched = own[id(part.buffer)]
        assert ((part.offset <= touched) & (touched < part.offset + part.size)).any()
    assert sum(part.size for part, _ in seen) < 10_000 and len(seen) <= 5


def test_without_the_clean_the_chip_multiplies_old_keys(npu, monkeypatch):
    random = np.random.default_rng(3)
    kv = npu.resident_kv(64, 64)
    for _ in range(3):
        kv.append(_row(random, 64), _row(random, 64))
    monkeypatch.setattr(Memory, "sync", lambda self, part, way: None)
    key = _row(random, 64)
    kv.append(key, _row(random, 64))
    monkeypatch.undo()
    scores = npu.compile(kv.keys, query := np.zeros((1, KEY_CONTRACTION), np.int8))
    query[0, :64] = key
    scores.run()
    assert scores.outputs[0][0, 3] == 0, "not the product with the key that was never cleaned"


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(1, 130), heads=st.sampled_from([32, 64, 128]), seed=st.integers(0, 2**31))
def test_scores_and_outputs_of_the_keys_there_are(npu, length, heads, seed):
    random = np.random.default_rng(seed)
    kv = npu.resident_kv(heads, 512)
    keys, values = _row(random, (length, heads)), _row(random, (length, heads))
    for key, value in zip(keys, values, strict=True):
        kv.append(key, value)
    assert kv.keys.n == -(-length // 32) * 32
    query = np.zeros((1, KEY_CONTRACTION), np.int8)
    query[0, :heads] = _row(random, heads)
    scores = npu.compile(kv.keys, query)
    scores.run()
    np.testing.assert_array_equal(
        scores.outputs[0][0, :length], keys.astype(np.int32) @ query[0, :heads].astype(np.int32)
    )
    assert not scores.outputs[0][0, length:].any(), "keys not there add nothing"
    weights = np.zeros((1, 512), np.int8)
    weights[0] = _row(random, 512)
    mixed = npu.compile(kv.values, weights)
    mixed.run()
    np.testing.assert_array_equal(
        mixed.outputs[0][0], values.T.astype(np.int32) @ weights[0, :length].astype(np.int32)
    )
    scores.close()
    mixed.close()
    kv.free()


def test_a_key_may_be_written_again(npu):
    random = np.random.default_rng(4)
    kv = npu.resident_kv(32, 64)
    keys, values = _row(random, (5, 32)), _row(random, (5, 32))
    for value in values:
        kv.append(_row(random, 32), value)
    for at in (3, 0, 4, 1, 2):
        assert kv.append(keys[at], values[at], at) == at
    assert kv.length == 5
    packed_keys, packed_values = _repacked(keys, values, 64)
    np.testing.assert_array_equal(kv._keys.tiles, packed_keys)
    np.testing.assert_array_equal(kv.values.tiles, packed_values)


def test_bad_sizes_positions_and_arrays_are_refused(board):
    from orkbench_tui.driver.npu import Npu

    with Npu(board.device()) as npu:
        for dims, keys, match in (
            (48, 64, "head_dim = 48, allowed: multiples of 32 up to 512"),
            (544, 64, "head_dim = 544"),
            (0, 64, "head_dim = 0"),
            (64, 100, "max_keys = 100, allowed: multiples of 32 up to 8192"),
            (64, 8224, "max_keys = 8224"),
        ):
            with pytest.raises(OperandError, match=match):
                npu.resident_kv(dims, keys)
        kv = npu.resident_kv(32, 32)
        row = np.zeros(32, np.int8)
        with pytest.raises(LifetimeError, match="no key"):
            _ = kv.keys
        for at in (-1, 1, 32):
            with pytest.raises(OperandError, match=f"position {at}, allowed: 0 to 0 of 32 keys"):
                kv.append(row, row, at)
        with pytest.raises(OperandError, match=r"int8 \[31\]; expected int8 \[32\]"):
            kv.append(row[:31], row)
        with pytest.raises(OperandError, match="uint8"):
            kv.append(row, row.view(np.uint8))
        with pytest.raises(OperandError, match="strides"):
            kv.append(row, np.zeros(64, np.int8)[::2])
        assert kv.length == 0 and not kv._keys.tiles.any()
        for _ in range(32):
            kv.append(row, row)
        with pytest.raises(OperandError, match="position 32, allowed: 0 to 31 of 32 keys"):
            kv.append(row, row)
        kv.free()
        with pytest.raises(LifetimeError, match="was freed"):
            kv.append(row, row, 0)
        other = npu.resident_kv(32, 32)
    with pytest.raises(NoDeviceError, match="was closed"):
        other.append(row, row)
