"""Keeping weights over row tiles: the capacity rule, published plans, the guards, and exact results."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.assembly import Program, deal
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.matmul.reuse import (
    PUBLISHED_MODEL_K,
    CoreShare,
    ReferenceCheck,
    ReusePlan,
    WeightReuse,
    plain_plan,
    resident_columns,
    reuse_plan,
    weights_stay,
)
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.driver.regcmd.registers import REGISTERS
from orkbench_tui.driver.regcmd.words import decode
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import RefusedError

_CBUF = REGISTERS["cna_cbuf_con0"]


@pytest.mark.parametrize(
    ("k", "columns", "banks", "right"),
    [
        (2048, 64, 4, True), (2048, 96, 4, False), (2048, 176, 11, True), (2048, 192, 11, False),
        (1024, 128, 4, True), (4096, 32, 4, True), (4096, 64, 4, False), (4096, 88, 11, True), (1024, 32, 1, True),
        (2048, 32, 1, False),
    ],
)  # fmt: skip
def test_the_capacity_rule_is_the_published_one(k: int, columns: int, banks: int, right: bool) -> None:
    assert weights_stay(RK3588, k, columns, banks) is right


def test_widest_cuts_are_whole_kernel_groups() -> None:
    widest = {(k, banks): resident_columns(RK3588, INT8_TO_INT32, k, banks) for k in (1024, 2048, 4096) for banks in (1, 4, 11)}  # fmt: skip
    assert widest == {
        (1024, 1): 32, (1024, 4): 128, (1024, 11): 352, (2048, 1): 0, (2048, 4): 64, (2048, 11): 160,
        (4096, 1): 0, (4096, 4): 32, (4096, 11): 64,
    }  # fmt: skip


def test_the_three_published_plans() -> None:
    """K = 2048, N = 384 and M = 256 on three cores: 128 columns each."""
    p = INT8_TO_INT32
    assert plain_plan(RK3588, p, 256, 2048, 128, 4) == ReusePlan(128, 128, 2, 512 << 10)
    assert reuse_plan(RK3588, p, 256, 2048, 128, 11) == ReusePlan(16, 128, 16, 256 << 10)
    assert reuse_plan(RK3588, p, 256, 2048, 128, 4) == ReusePlan(128, 64, 4, 256 << 10)


def test_more_weight_banks_leave_fewer_rows() -> None:
    rows = [reuse_plan(RK3588, INT8_TO_INT32, 256, 2048, 128, banks).rows for banks in (4, 11)]
    assert rows == [128, 16]


def _matmul(npu: Npu, m: int, k: int, n: int, reuse: WeightReuse | None, core: int | None = None):
    random = np.random.default_rng(m + k)
    a = random.integers(-128, 128, (m, k), dtype=np.int8)
    w = random.integers(-128, 128, (n, k), dtype=np.int8)
    weight = npu.load(INT8, "w", w)
    matmul = npu.matmul([weight], m, reuse=reuse)
    matmul.a[:] = a
    before = npu.counters
    matmul.run() if core is None else matmul.run_on(core)
    used = npu.counters.since(before)
    right = a.astype(np.int64) @ w.T.astype(np.int64)
    assert np.array_equal(matmul.outputs[0], right)
    matmul.close()
    npu.free(weight)
    return used


@pytest.mark.parametrize("core", [None, 1])
@pytest.mark.parametrize(("k", "n", "banks"), [(2048, 384, 4), (1024, 320, 4), (4096, 96, 4), (1024, 96, 11)])
def test_results_are_exact_and_weights_are_read_once(npu: Npu, k: int, n: int, banks: int, core) -> None:
    kept = _matmul(npu, 300, k, n, WeightReuse(banks), core)
    plain = _matmul(npu, 300, k, n, None, core)
    assert kept.tasks >= plain.tasks
    if k == 4096:
        # Published: about a quarter less, the weight bytes not read again.
        assert 0.6 < kept.hw_ns / plain.hw_ns < 0.9


def test_a_chain_keeps_weights_within_a_task_alone(npu: Npu) -> None:
    random = np.random.default_rng(5)
    a = random.integers(-128, 128, (300, 1024), dtype=np.int8)
    matrices = [random.integers(-128, 128, (96, 1024), dtype=np.int8) for _ in range(3)]
    tasks = [ChainTask(npu.load(INT8, "w", w), 300, a=a, reuse=WeightReuse()) for w in matrices]
    chain = npu.chain(tasks)
    chain.run()
    for output, w in zip(chain.outputs, matrices, strict=True):
        assert np.array_equal(output, a.astype(np.int64) @ w.T.astype(np.int64))
    bits = [_reuses(body) for body in chain.set.bodies]
    per_task = len(bits) // 3
    assert per_task > 1 and bits == ([False] + [True] * (per_task - 1)) * 3


def _reuses(body: np.ndarray) -> bool:
    values = [decode(int(word))[2] for word in body if decode(int(word))[1] == _CBUF.address]
    assert len(set(values)) == 1, "both copies of the register say the same"
    return bool(_CBUF.fields["weight_reuse"].get(values[-1]))


def test_one_row_tile_keeps_nothing(npu: Npu) -> None:
    weight = npu.load(INT8, "w", np.ones((96, 1024), np.int8))
    chain = npu.chain([ChainTask(weight, 8, reuse=WeightReuse())])
    assert chain.steps == 1 and not _reuses(chain.set.bodies[0])


def _refused(npu: Npu, guard: str, reuse: WeightReuse, k: int = 1024, n: int = 192, format=INT8) -> None:
    weight = npu.load(format, "w", np.ones((n, k), format.operand))
    before = npu.counters
    with pytest.raises(RefusedError, match=guard):
        npu.chain([ChainTask(weight, 700, reuse=reuse)])
    assert npu.counters.since(before).submits == 0


def test_weights_that_would_not_stay_are_refused(npu: Npu) -> None:
    _refused(npu, "GRD-12", WeightReuse(4, columns=160))
    _refused(npu, "GRD-12.*not even 32 fit", WeightReuse(1), k=2048)


@pytest.mark.parametrize("banks", [0, 12, -1])
def test_banks_the_chip_does_not_have_are_refused(npu: Npu, banks: int) -> None:
    weight = npu.load(INT8, "w", np.ones((64, 1024), np.int8))
    with pytest.raises(OperandError, match="allowed: 1 to 11"):
        npu.chain([ChainTask(weight, 700, reuse=WeightReuse(banks, columns=32))])


_CLEAN = ReferenceCheck("reuse-512.json", 512, 192, 4, 10**6, 0, full_range=True)


def test_a_shape_nobody_measured_needs_a_report(npu: Npu) -> None:
    _refused(npu, "GRD-13", WeightReuse(4), k=512)
    _refused(npu, "GRD-13", WeightReuse(5), k=1024)
    _refused(npu, "GRD-13", WeightReuse(4), k=1024, n=64, format=FP16)
    weight = npu.load(INT8, "w", np.ones((192, 512), np.int8))
    assert npu.chain([ChainTask(weight, 700, reuse=WeightReuse(4, checks=(_CLEAN,)))]).steps > 1


@pytest.mark.parametrize(
    "check",
    [
        ReferenceCheck("", 512, 192, 4, 10**6, 0, full_range=True),
        ReferenceCheck("r", 512, 192, 4, 10**6, 1, full_range=True),
        ReferenceCheck("r", 512, 192, 4, 10**6, 0, full_range=False),
        ReferenceCheck("r", 512, 192, 4, 0, 0, full_range=True),
        ReferenceCheck("r", 512, 160, 4, 10**6, 0, full_range=True),
        ReferenceCheck("r", 1536, 192, 4, 10**6, 0, full_range=True),
    ],
)
def test_a_report_that_proves_nothing_does_not_lift_it(npu: Npu, check: ReferenceCheck) -> None:
    _refused(npu, "GRD-13", WeightReuse(4, checks=(check,)), k=512)


def test_the_decision_is_the_capacity_and_not_a_k_of_4096() -> None:
    """The placeholder gate K == 4096 with one segment is wrong both ways."""
    assert weights_stay(RK3588, 2048, 64, 4) and not weights_stay(RK3588, 4096, 2048, 4)


def test_models_have_no_k_of_4096_and_some_no_cut_that_stays() -> None:
    every = [k for sizes in PUBLISHED_MODEL_K.values() for k in sizes]
    assert 4096 not in every
    stays = {k for k in every if resident_columns(RK3588, INT8_TO_INT32, k, 4)}
    assert stays == {512, 1024, 1536, 2048, 3072, 3584}


def test_int4_keeps_weights_within_a_task_and_only_with_a_report(npu: Npu) -> None:
    random = np.random.default_rng(6)
    a = random.integers(-8, 8, (300, 480), dtype=np.int8)
    w = random.integers(-8, 8, (64, 480), dtype=np.int8)
    _refused(npu, "GRD-13", WeightReuse(4), k=480, n=64, format=INT4)
    check = ReferenceCheck("int4.json", 480, 64, 4, a.size, 0, full_range=True)
    weight = npu.load(INT4, "w", w)
    task = ChainTask(weight, 300, a=a, reuse=WeightReuse(4, checks=(check,)))
    chain = npu.chain([task, task])
    bits = [_reuses(body) for body in chain.set.bodies]
    assert bits == [False, True, True] * 2
    chain.run()
    assert all(np.array_equal(o, a.astype(np.int64) @ w.T.astype(np.int64)) for o in chain.outputs)


def test_no_path_keeps_weights_by_itself(npu: Npu) -> None:
    weight = npu.load(INT8, "w", np.ones((96, 2048), np.int8))
    chain = npu.chain([ChainTask(weight, 600)])
    assert chain.steps > 1 and not any(_reuses(body) for body in chain.set.bodies)


def test_joined_programs_stay_together_over_cores_and_commits() -> None:
    body = np.zeros(1, np.uint64)
    programs = [
        Program(body, cost=10 * unit + place, joined=place > 0) for unit in range(7) for place in range(3)
    ]
    for cores, limit in ((1, 4095), (3, 4095), (2, 4), (1, 3)):
        runs = deal(programs, cores, limit)
        assert sorted(p.cost for run in runs for p in run) == sorted(p.cost for p in programs)
        for run in runs:
            assert len(run) <= limit and not run[0].joined
            for before, after in pairwise(run):
                assert not after.joined or after.cost == before.cost + 1
    with pytest.raises(ValueError, match="3 joined programs"):
        deal(programs, 1, 2)


def test_each_core_loads_for_itself() -> None:
    assert CoreShare(3, 1000, 3000).cores == 3
    with pytest.raises(RefusedError, match=r"GRD-49.*at least 3000"):
        CoreShare(3, 1000, 1000)
