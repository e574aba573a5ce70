"""Sequences of operations: where they are cut, what runs between, and that every result is right."""

import numpy as np
import pytest

from orkbench_tui.driver.chain_rules import ChainRule, OpKind
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT4, INT8
from orkbench_tui.driver.op_sequence import Earlier, How, SeqStep
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.sdp.quantization import Quantization
from orkbench_tui.errors import OrkError, RefusedError
from tests.driver.path_operands import expected, matches, random_matrix

K, N = 512, 64
MM, SILU, MUL = OpKind.MATMUL_W8A8, OpKind.SILU_I8, OpKind.MUL_I8


@pytest.fixture
def random():
    return np.random.default_rng(41)


def _weight(npu, random, format=INT8, k=K, n=N):
    w = random_matrix(format, (n, k), random)
    return npu.load(format, "w", w), w


def _a(random, rows=4, k=K, format=INT8):
    return random_matrix(format, (rows, k), random)


def _matmul(npu, random, rows=4, k=K, **more):
    weight, w = _weight(npu, random, k=k)
    a = _a(random, rows, k)
    return SeqStep(MM, rows, a, weight=weight, **more), expected(INT8, a, w)


def _codes(random, rows=4, n=N):
    return random.integers(-128, 128, (rows, n), dtype=np.int8)


def test_matmuls_share_one_submit_and_the_others_do_not(npu, random):
    (one, r1), (two, r2), (three, r3) = (_matmul(npu, random) for _ in range(3))
    codes = _codes(random)
    steps = [one, two, SeqStep(MUL, 4, codes, codes), three]
    plan = npu.plan_sequence(steps)
    assert [(run.start, len(run.kinds), run.how, run.before) for run in plan] == [
        (0, 2, How.LINKED, None),
        (2, 1, How.ALONE, ChainRule.DISALLOW),
        (3, 1, How.ALONE, ChainRule.DISALLOW),
    ]
    before = npu.counters
    results = npu.run_sequence(steps)
    used = npu.counters.since(before)
    assert used.submits == 3
    for result, right in zip((results[0], results[1], results[3]), (r1, r2, r3), strict=True):
        np.testing.assert_array_equal(result, right)
    np.testing.assert_array_equal(results[2], np.clip(codes.astype(int) ** 2, -128, 127))


def test_pairs_ruled_out_are_parted_by_a_reset_and_never_fail(npu, random):
    fp16, w = _weight(npu, random, FP16)
    a = _a(random, format=FP16)
    codes = _codes(random)
    steps = [SeqStep(OpKind.MATMUL_W16A16, 4, a, weight=fp16), SeqStep(OpKind.GELU_I8, 4, codes)]
    [_, second] = npu.plan_sequence(steps)
    assert second.before is ChainRule.DISALLOW and "DISALLOW" in second.cut
    npu.run_sequence(steps[:1])
    before = npu.counters
    results = npu.run_sequence(steps)
    assert npu.counters.since(before).resets == 1
    assert matches(FP16, results[0], a, w)


def test_pairs_that_need_no_reset_get_none(npu, random):
    fp16, w = _weight(npu, random, FP16)
    a, x, y = _a(random, format=FP16), *(_a(random, 4, 16, FP16) for _ in range(2))
    steps = [SeqStep(OpKind.MATMUL_W16A16, 4, a, weight=fp16), SeqStep(OpKind.ADD_F16, 4, x, y)]
    assert [run.before for run in npu.plan_sequence(steps)] == [None, ChainRule.SW]
    npu.run_sequence(steps)
    before = npu.counters
    results = npu.run_sequence(steps)
    assert npu.counters.since(before).resets == 0
    assert matches(FP16, results[0], a, w)
    np.testing.assert_array_equal(results[1], x + y)


def test_an_activation_right_behind_its_matmul_is_one_program(npu, random):
    step, sums = _matmul(npu, random)
    q = Quantization(a_scale=4e-5, out_scale=0.1)
    steps = [step, SeqStep(SILU, 4, Earlier(0), quantization=q)]
    [run] = npu.plan_sequence(steps)
    assert run.how is How.FUSED and run.kinds == (MM, SILU)
    results = npu.run_sequence(steps)
    x = sums * q.a_scale
    assert results[0] is None
    assert np.abs(results[1] - np.clip(x / (1 + np.exp(-x)) / q.out_scale, -128, 127)).max() <= 0.6


def test_sums_that_somebody_else_reads_are_not_lost_in_a_program(npu, random):
    step, _ = _matmul(npu, random)
    steps = [step, SeqStep(SILU, 4, Earlier(0)), SeqStep(SILU, 4, Earlier(0))]
    with pytest.raises(OperandError, match=r"step 1 \(silu_i8\): A is int32"):
        npu.run_sequence(steps)


def test_results_are_handed_on(npu, random):
    narrow = FORMATS["int8->int8"]
    w1, w2 = (random_matrix(INT8, (K, K), random) for _ in range(2))
    first, second = npu.load(narrow, "1", w1), npu.load(narrow, "2", w2)
    a, convert = _a(random), OutputConversion(scale=3, shift=14)
    kind = OpKind.MATMUL_REQUANT_W8A8
    steps = [
        SeqStep(kind, 4, a, weight=first, convert=convert),
        SeqStep(kind, 4, Earlier(0), weight=second, convert=convert),
        SeqStep(OpKind.ADD_I8, 4, Earlier(1), Earlier(0)),
    ]
    r0, r1, r2 = npu.run_sequence(steps)

    def narrowed(x, w):
        return np.clip(np.rint(x.astype(np.int64) @ w.T.astype(np.int64) * 3 / 2**14), -128, 127)

    np.testing.assert_array_equal(r0, narrowed(a, w1))
    np.testing.assert_array_equal(r1, narrowed(r0, w2))
    np.testing.assert_array_equal(r2, np.clip(r0.astype(int) + r1, -128, 127))


@pytest.mark.parametrize(
    ("more", "why"),
    [({"rows": 65}, "65 rows; linked: up to 64"), ({"k": 768}, "K = 768"), ({"k": 8192}, "K = 8192")],
)
def test_shapes_that_may_not_be_linked_run_alone_and_right(npu, random, more, why):
    (one, r1), (two, r2) = _matmul(npu, random), _matmul(npu, random, **more)
    plan = npu.plan_sequence([one, two])
    assert [run.how for run in plan] == [How.ALONE] * 2
    assert plan[1].before is ChainRule.SW and why in plan[1].cut
    for result, right in zip(npu.run_sequence([one, two]), (r1, r2), strict=True):
        np.testing.assert_array_equal(result, right)


def test_int4_is_linked_with_nothing(npu, random):
    weight, w = _weight(npu, random, INT4)
    a = _a(random, 1, format=INT4)
    step = SeqStep(OpKind.MATMUL_W4A4, 1, a, weight=weight)
    assert [run.how for run in npu.plan_sequence([step, step])] == [How.ALONE] * 2
    assert matches(INT4, npu.run_sequence([step])[0], a, w)


def test_groups_have_cores_and_end_with_a_matmul(npu, random):
    (one, r1), (two, r2) = _matmul(npu, random, group=1), _matmul(npu, random, group=2)
    codes = _codes(random)
    steps = [one, SeqStep(MUL, 4, codes, codes, group=1), two]
    assert [run.core for run in npu.plan_sequence(steps)] == [1, 1, 2]
    before = npu.counters
    results = npu.run_sequence(steps)
    used = npu.counters.since(before)
    assert used.core_submits == [0, 3, 1], "a matmul more behind the multiplication of group 1"
    np.testing.assert_array_equal(results[0], r1)
    np.testing.assert_array_equal(results[2], r2)


def test_a_group_is_a_submit_of_its_own(npu, random):
    (one, _), (two, _) = _matmul(npu, random, group=1), _matmul(npu, random, group=2)
    assert [run.how for run in npu.plan_sequence([one, two])] == [How.ALONE] * 2


def test_bad_sequences_are_refused_before_anything_runs(npu, random):
    good, _ = _matmul(npu, random)
    weight, codes = good.weight, _codes(random)
    before = npu.counters
    for steps, why in (
        ([], "0 steps, allowed: 1 to 1024"),
        ([good] * 1025, "1025 steps"),
        ([SeqStep(MM, 4, Earlier(0), weight=weight)], "reads step 0"),
        ([good, SeqStep(MUL, 4, Earlier(-1), codes)], "reads step -1"),
        ([SeqStep(MM, 4, codes)], "takes a weight"),
        ([SeqStep(MM, 3, _a(random), weight=weight)], r"expected int8 \[3, 512\]"),
        ([SeqStep(OpKind.MATMUL_W16A16, 4, _a(random), weight=weight)], "is int8, not fp16"),
        ([SeqStep(MUL, 4, codes)], "second operand"),
        ([SeqStep(SILU, 4, codes, codes)], "second operand"),
        ([SeqStep(MUL, 4, codes, codes[:2])], "B is int8"),
        ([SeqStep(MUL, 4, codes, codes, weight=weight)], "takes no weight"),
        ([SeqStep(OpKind.SOFTMAX_F16, 4, codes)], "nothing here computes it"),
        ([SeqStep(OpKind.RMSNORM_F16, 4, codes)], "nothing here computes it"),
    ):
        with pytest.raises(RefusedError, match=why):
            npu.run_sequence(steps)
    assert npu.counters.since(before).submits == 0


def test_a_failure_names_its_step(npu, random):
    good, _ = _matmul(npu, random)
    other, _ = _matmul(npu, random)
    codes = _codes(random)
    npu.free(other.weight)
    with pytest.raises(OrkError, match=r"^step 2 \(matmul_w8a8\): .*freed"):
        npu.run_sequence([good, SeqStep(MUL, 4, codes, codes), other])
