"""Grouped int4: one exact partial sum per group, scaled and added by the host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.grouped import GroupedMatmul, grouped_product, load_grouped
from orkbench_tui.driver.matmul.grouped_int8 import GroupedInt8Matmul
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError


def _case(m: int, k: int, n: int, group: int, seed: int):
    random = np.random.default_rng(seed)
    codes = random.integers(-8, 8, (n, k), dtype=np.int8)
    scales = random.uniform(0.01, 0.1, (k // group, n)).astype(np.float32)
    a = random.integers(-8, 8, (m, k), dtype=np.int8)
    a_scales = random.uniform(0.01, 0.1, (m, k // group)).astype(np.float32)
    return codes, scales, a, a_scales


def _right(codes, scales, a, a_scales, group: int) -> np.ndarray:
    """Each group's sum exactly, scaled in fp32, groups added in order."""
    total = np.zeros((len(a), len(codes)), np.float32)
    for index, at in enumerate(range(0, a.shape[1], group)):
        partial = a[:, at : at + group].astype(np.int64) @ codes[:, at : at + group].astype(np.int64).T
        total += partial.astype(np.float32) * (a_scales[:, index : index + 1] * scales[index])
    return total


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 20), groups=st.integers(1, 6), n=st.integers(1, 150),
    group=st.sampled_from([32, 64, 128, 480]), seed=st.integers(0, 999),
)  # fmt: skip
def test_results_are_the_scaled_sums_of_exact_groups(npu: Npu, m, groups, n, group, seed) -> None:
    case = _case(m, groups * group, n, group, seed)
    weight = load_grouped(npu.context, "w", case[0], case[1], group)
    matmul = GroupedMatmul(npu.context, weight, m)
    np.testing.assert_array_equal(matmul.run(*case[2:]), _right(*case, group))
    matmul.close()
    for part in weight.parts:
        npu.free(part)


def test_all_groups_share_a_submit(npu: Npu) -> None:
    case = _case(8, 2048, 256, 128, 0)
    matmul = GroupedMatmul(npu.context, load_grouped(npu.context, "w", *case[:2], 128), 8)
    before = npu.counters
    matmul.run(*case[2:])
    used = npu.counters.since(before)
    assert (used.submits, used.tasks) == (matmul.submits, 16) == (1, 16)


def test_more_groups_than_one_run_takes_are_several_submits(npu: Npu, monkeypatch) -> None:
    monkeypatch.setattr("orkbench_tui.driver.matmul.grouped.MAX_STEPS", 4)
    case = _case(2, 320, 64, 32, 1)
    matmul = GroupedMatmul(npu.context, load_grouped(npu.context, "w", *case[:2], 32), 2)
    assert matmul.submits == 3
    np.testing.assert_array_equal(matmul.run(*case[2:]), _right(*case, 32))


@pytest.mark.parametrize("group", [0, 16, 33, 512, 96])
def test_groups_that_do_not_fit_are_refused(npu: Npu, group: int) -> None:
    codes = np.zeros((64, 640), np.int8)
    before = npu.counters, npu.domains()
    with pytest.raises(OperandError, match="multiples of 32 up to 480 that divide K"):
        load_grouped(npu.context, "w", codes, np.ones((max(1, 640 // max(group, 1)), 64), np.float32), group)
    assert (npu.counters, npu.domains()) == before


def test_bad_operands_are_refused(npu: Npu) -> None:
    codes, scales, a, a_scales = _case(2, 128, 64, 64, 2)
    for bad in (scales[:1], scales.astype(np.float64), np.full_like(scales, np.nan)):
        with pytest.raises(OperandError, match="scales of w"):
            load_grouped(npu.context, "w", codes, bad, 64)
    weight = load_grouped(npu.context, "w", codes, scales, 64)
    matmul = GroupedMatmul(npu.context, weight, 2)
    before = npu.counters
    for x, s in ((a[:1], a_scales), (a, a_scales[:, :1]), (a.astype(np.int16), a_scales)):
        with pytest.raises(OperandError):
            matmul.run(x, s)
    with pytest.raises(OperandError, match="int4 takes -8 to 7"):
        matmul.run(np.full_like(a, 9), a_scales)
    npu.free(weight.parts[1])
    with pytest.raises(LifetimeError):
        matmul.run(a, a_scales)
    assert npu.counters.since(before).submits == 0


def _int8_case(m: int, k: int, n: int, group: int, seed: int, weight_bits: int = 8):
    random = np.random.default_rng(seed)
    _, scales, _, a_scales = _case(m, k, n, group, seed)
    most = 1 << (weight_bits - 1)
    codes = random.integers(-most, most, (n, k), dtype=np.int8)
    return codes, scales, random.integers(-128, 128, (m, k), dtype=np.int8), a_scales


@pytest.mark.parametrize("weight_bits", [4, 8])
@pytest.mark.parametrize(("m", "k", "n", "group"), [(1, 128, 48, 32), (5, 1024, 64, 512), (3, 96, 33, 96)])
def test_int8_rows_give_the_scaled_sums_with_and_without_an_npu(
    npu: Npu, m: int, k: int, n: int, group: int, weight_bits: int
) -> None:
    codes, scales, a, a_scales = _int8_case(m, k, n, group, 3, weight_bits)
    right = _right(codes, scales, a, a_scales, group)
    np.testing.assert_array_equal(grouped_product(a, a_scales, codes, scales, group), right)
    weight = npu.load_grouped("w", codes, scales, group, activation_bits=8)
    matmul = GroupedInt8Matmul(npu.context, weight, m, unproven=True)
    np.testing.assert_array_equal(matmul.run(a, a_scales), right)
    np.testing.assert_array_equal(
        matmul.run(-a // 2, a_scales), _right(codes, scales, -a // 2, a_scales, group)
    )
    matmul.close()


def test_the_same_product_of_int4_rows_needs_no_npu_either() -> None:
    codes, scales, a, a_scales = _case(4, 256, 40, 64, 9)
    np.testing.assert_array_equal(
        grouped_product(a, a_scales, codes, scales, 64), _right(codes, scales, a, a_scales, 64)
    )


def test_every_group_of_an_int8_run_is_a_submit_per_core_of_its_own(npu: Npu) -> None:
    codes, scales, a, a_scales = _int8_case(2, 256, 96, 32, 4)
    matmul = GroupedInt8Matmul(
        npu.context, npu.load_grouped("w", codes, scales, 32, activation_bits=8), 2, unproven=True
    )
    before = npu.counters
    matmul.run(a, a_scales)
    used = npu.counters.since(before)
    assert used.submits == used.tasks == 8 * 3


def test_int8_rows_are_refused_on_a_board_and_nothing_is_submitted(npu: Npu) -> None:
    codes, scales, _, _ = _int8_case(2, 128, 64, 64, 5)
    weight = npu.load_grouped("w", codes, scales, 64, activation_bits=8)
    before = npu.counters, npu.domains()
    with pytest.raises(RefusedError, match=r"GRD-22.*w, 2 groups of 64"):
        GroupedInt8Matmul(npu.context, weight, 2)
    assert (npu.counters, npu.domains()) == before


def test_a_weight_made_for_8_bit_rows_is_not_multiplied_by_4_bit_ones(npu: Npu) -> None:
    k, n, group = 1024, 6144, 32
    codes, scales, _, _ = _int8_case(1, k, n, group, 6, 4)
    weight = npu.load_grouped("ffn_gate", codes, scales, group, activation_bits=8)
    before = npu.counters
    with pytest.raises(RefusedError, match=r"GRD-21.*ffn_gate was made for 8-bit"):
        GroupedMatmul(npu.context, weight, 64)
    assert npu.counters == before
    four = npu.load_grouped("v", codes[:64], scales[:, :64].copy(), group)
    with pytest.raises(OperandError, match="4-bit rows"):
        GroupedInt8Matmul(npu.context, four, 64, unproven=True)
    with pytest.raises(OperandError, match="allowed: 4, 8"):
        npu.load_grouped("x", codes, scales, group, activation_bits=16)
