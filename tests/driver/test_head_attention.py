"""Attention split between NPU and host: close to floating point, and refused where the NPU gives zeros."""

import numpy as np
import pytest

from orkbench_tui.driver.attention_limits import LEAST_KEYS
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.head_attention import codes, softmax_codes
from orkbench_tui.errors import NoDeviceError, RefusedError

DIM = 64


def _exact(query, keys, values):
    scores = keys.astype(np.float64) @ query.astype(np.float64) / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values.astype(np.float64)


def _filled(npu, length, max_keys, dim=DIM, seed=1, values=1.0):
    random = np.random.default_rng(seed)
    keys = random.standard_normal((length, dim)).astype(np.float32)
    values = (values * random.uniform(0.5, 1.5, (length, dim))).astype(np.float32)
    head = npu.attention(dim, max_keys, value_scale=127 / float(np.abs(values).max()))
    for key, value in zip(keys, values, strict=True):
        head.append(key, value)
    return head, keys, values, random


def _errors(head, keys, values, random, queries):
    found = []
    for _ in range(queries):
        query = random.standard_normal(keys.shape[1]).astype(np.float32)
        exact = _exact(query, keys, values)
        found.append(np.linalg.norm(head.attend(query) - exact) / np.linalg.norm(exact))
    return np.array(found)


def test_at_512_keys_it_is_within_the_published_error_of_floating_point(npu):
    """0.0053 over 32 heads; here over 32 queries, with values away from zero so that a relative error means something."""
    assert _errors(*_filled(npu, 512, 512, 128), 32).mean() <= 0.0053


@pytest.mark.parametrize(
    ("length", "max_keys", "dim"), [(256, 512, 64), (300, 512, 128), (700, 1536, 32), (600, 800, 64)]
)
def test_other_lengths_and_contractions_outside_the_envelope_are_close_too(npu, length, max_keys, dim):
    assert _errors(*_filled(npu, length, max_keys, dim), 3).max() <= 0.01


def test_values_around_zero_stay_within_what_a_probe_accepts(npu):
    random = np.random.default_rng(9)
    keys = random.standard_normal((512, DIM)).astype(np.float32)
    values = random.standard_normal((512, DIM)).astype(np.float32)
    head = npu.attention(DIM, 512, value_scale=127 / float(np.abs(values).max()))
    for key, value in zip(keys, values, strict=True):
        head.append(key, value)
    assert _errors(head, keys, values, random, 8).max() < 0.08


def test_it_grows_by_one_key_and_compiles_once_a_tile(npu, monkeypatch):
    head, keys, values, random = _filled(npu, 256, 512)
    query = random.standard_normal(DIM).astype(np.float32)
    head.attend(query)
    compiled = []
    from orkbench_tui.driver import head_attention

    leg = head_attention._leg
    monkeypatch.setattr(head_attention, "_leg", lambda *a: (compiled.append(1), leg(*a))[1])
    for _ in range(40):
        key, value = random.standard_normal(DIM).astype(np.float32), np.ones(DIM, np.float32)
        keys, values = np.vstack([keys, key]), np.vstack([values, value])
        head.append(key, value)
        exact = _exact(query, keys, values)
        assert np.linalg.norm(head.attend(query) - exact) <= 0.01 * np.linalg.norm(exact)
    assert len(compiled) == 2


@pytest.mark.parametrize("length", [1, 32, LEAST_KEYS - 1])
def test_fewer_keys_than_the_schedule_computes_are_refused_before_anything_runs(npu, length):
    head, _, _, random = _filled(npu, length, 512)
    before = npu.counters
    with pytest.raises(RefusedError, match=f"GRD-15.*{length} keys, allowed: from 256.*run it on the CPU"):
        head.attend(random.standard_normal(DIM).astype(np.float32))
    assert npu.counters == before


@pytest.mark.parametrize("length", [512, 2048, 8192])
def test_weights_of_a_long_context_keep_their_shape_and_a_constant_scale_is_refused(length):
    weights = np.full(length, 1 / length, np.float32)
    codes_, scale = softmax_codes(weights)
    assert (codes_ == 127).all() and scale == pytest.approx(127 * length)
    assert not codes(weights, 127).any(), "under a constant scale every one of them is zero"
    with pytest.raises(RefusedError, match=r"GRD-16.*scale 127 for weights up to"):
        softmax_codes(weights, 127)
    assert softmax_codes(np.array([1.0, 0.0], np.float32), 127)[1] == 127


def test_codes_round_halves_away_from_zero_and_saturate():
    values = np.array([0.5, -0.5, 1.5, -2.5, 200, -200], np.float32)
    assert codes(values, 1.0).tolist() == [1, -1, 2, -3, 127, -127]


def test_values_beyond_the_scale_saturate_and_are_counted(npu):
    head = npu.attention(DIM, 512, value_scale=127.0)
    head.append(np.ones(DIM, np.float32), np.full(DIM, 3.0, np.float32))
    assert head.clipped == DIM


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(npu, bad):
    head = npu.attention(DIM, 512, value_scale=1.0)
    row, good = np.ones(DIM, np.float32), np.ones(DIM, np.float32)
    row[5] = bad
    for call in (lambda: head.append(row, good), lambda: head.append(good, row), lambda: head.attend(row)):
        with pytest.raises(OperandError, match=f"{bad} at element 5"):
            call()
    with pytest.raises(OperandError, match="expected float32"):
        head.append(good.astype(np.float64), good)
    assert head.kv.length == 0


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_no_scale_is_refused(npu, scale):
    used = npu.memory.used_bytes(0)
    with pytest.raises(OperandError, match="value scale"):
        npu.attention(DIM, 512, value_scale=scale)
    assert npu.memory.used_bytes(0) == used


def test_freed_and_closed_heads_refuse(npu):
    head, _, _, random = _filled(npu, 256, 512)
    query = random.standard_normal(DIM).astype(np.float32)
    head.attend(query)
    before = npu.counters
    other, _, _, _ = _filled(npu, 256, 512)
    head.free()
    with pytest.raises(LifetimeError):
        head.attend(query)
    npu.close()
    with pytest.raises(NoDeviceError):
        other.attend(query)
    assert npu.counters.submits == before.submits


def test_all_zero_keys_and_queries_are_no_division_by_zero(npu):
    head = npu.attention(DIM, 512, value_scale=127.0)
    for _ in range(256):
        head.append(np.zeros(DIM, np.float32), np.full(DIM, 0.5, np.float32))
    np.testing.assert_allclose(head.attend(np.zeros(DIM, np.float32)), 0.5, rtol=0.01)
