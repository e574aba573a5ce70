"""Experts on the simulated NPU: grouped, chained and dealt over the cores; the pool they pass through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.experts.groups import group_by_expert
from orkbench_tui.driver.experts.pool import ExpertPool
from orkbench_tui.driver.experts.products import Ways, deal, expert_products
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import FP16, INT8, MatmulFormat
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError

T, USED, EXPERTS, K, N = 21, 3, 8, 512, 64


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def matrices(random: np.random.Generator) -> np.ndarray:
    return random.integers(-128, 128, (EXPERTS, N, K), dtype=np.int8)


def tiles_of(matrices: np.ndarray) -> Callable[[int], np.ndarray]:
    return lambda expert: INT8.tile(matrices[expert])


def choices(random: np.random.Generator, experts: int = EXPERTS) -> np.ndarray:
    return np.stack([random.permutation(experts)[:USED] for _ in range(T)])


def one_by_one(codes: np.ndarray, matrices: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Every choice alone."""
    flat = ids.reshape(-1)
    rows = [
        matrices[expert].astype(np.int64) @ codes[i // USED].astype(np.int64) for i, expert in enumerate(flat)
    ]
    return np.array(rows)


def test_choices_are_sorted_by_expert_whatever_the_strides(random: np.random.Generator) -> None:
    ids = choices(random)
    wide = np.full((T, 2 * USED), -1)
    wide[:, ::2] = ids
    groups, strided = group_by_expert(ids, EXPERTS), group_by_expert(wide[:, ::2], EXPERTS)
    np.testing.assert_array_equal(groups.slots, strided.slots)
    for expert in range(EXPERTS):
        np.testing.assert_array_equal(groups.choices(expert), np.flatnonzero(ids.reshape(-1) == expert))
        np.testing.assert_array_equal(groups.rows(expert), np.nonzero(ids == expert)[0])
    assert groups.active == tuple(sorted(set(ids.reshape(-1).tolist())))
    for bad in (ids.astype(float), ids.reshape(-1), ids + EXPERTS, ids - EXPERTS):
        with pytest.raises(OperandError):
            group_by_expert(bad, EXPERTS)


@pytest.mark.parametrize("way", Ways)
@pytest.mark.parametrize("places", [EXPERTS, 3])
def test_grouped_products_are_those_of_every_choice_alone(
    npu: Npu, random: np.random.Generator, matrices: np.ndarray, way: Ways, places: int
) -> None:
    codes = random.integers(-128, 128, (T, K), dtype=np.int8)
    ids = choices(random, EXPERTS - 1)
    groups = group_by_expert(ids, EXPERTS)
    with ExpertPool(npu, places, K, N, tiles_of(matrices)) as pool:
        before = npu.counters
        got = expert_products(npu, pool, codes, groups, way)
        submits = npu.counters.since(before).submits
    np.testing.assert_array_equal(got, one_by_one(codes, matrices, ids))
    active, passes = len(groups.active), -(-len(groups.active) // places)
    assert pool.refills == active == EXPERTS - 1, "an expert nobody chose is not touched"
    if way is Ways.EACH:
        assert submits == active
    elif way is Ways.CHAIN:
        assert submits == passes
    else:
        assert submits <= npu.soc.cores * passes and (places < EXPERTS or submits == npu.soc.cores)


def test_decode_chains_the_experts_of_one_token(
    npu: Npu, random: np.random.Generator, matrices: np.ndarray
) -> None:
    """All eight of one row: one submit of eight programs."""
    codes, ids = random.integers(-128, 128, (1, K), dtype=np.int8), np.arange(EXPERTS)[None]
    with ExpertPool(npu, EXPERTS, K, N, tiles_of(matrices)) as pool:
        before = npu.counters
        got = expert_products(npu, pool, codes, group_by_expert(ids, EXPERTS), Ways.CHAIN)
        used = npu.counters.since(before)
    assert (used.submits, used.tasks) == (1, EXPERTS)
    np.testing.assert_array_equal(got, [matrix.astype(int) @ codes[0].astype(int) for matrix in matrices])


def test_no_memory_is_allocated_for_an_expert(
    npu: Npu, matrices: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExpertPool(npu, 2, K, N, tiles_of(matrices)) as pool:
        before = npu.memory.used_bytes(0)
        calls: list[int] = []
        monkeypatch.setattr(npu.memory, "allocate", lambda *a, **b: calls.append(1))
        for expert in (0, 1, 2, 0, 3, 4, 5, 4):
            pool.hold([expert])
        assert not calls and npu.memory.used_bytes(0) == before
        assert pool.refills == 7 and pool.hits == 1
        monkeypatch.undo()
    assert npu.memory.used_bytes(0) < before
    with pytest.raises(LifetimeError):
        pool.hold([0])


def test_those_held_together_do_not_push_each_other_out(npu: Npu, matrices: np.ndarray) -> None:
    with ExpertPool(npu, 3, K, N, tiles_of(matrices)) as pool:
        pool.hold([0, 1, 2])
        first, second, third = pool.hold([3, 0, 4])
        assert len({id(weight) for weight in (first, second, third)}) == 3
        for weight, expert in ((first, 3), (second, 0), (third, 4)):
            assert weight.tiles is not None
            assert weight.tiles.tobytes() == INT8.tile(matrices[expert]).tobytes()
        with pytest.raises(OperandError, match="4 experts at once"):
            pool.hold([0, 1, 2, 3])
        with pytest.raises(OperandError, match="bytes of tiles"):
            ExpertPool(npu, 1, K, N, lambda _expert: np.zeros(5, np.int8)).hold([0])


@pytest.mark.parametrize("format", [INT8, FP16], ids=lambda format: format.name)
def test_what_was_compiled_before_a_refill_multiplies_by_the_new_expert(
    npu: Npu, random: np.random.Generator, format: MatmulFormat
) -> None:
    """Whole matmul over all cores, one core, chain: none keeps the first weight that lay there."""
    rows = 5
    if format is FP16:
        two = [random.standard_normal((N, K)).astype(np.float16) for _ in range(2)]
        a = random.standard_normal((rows, K)).astype(np.float16)
    else:
        two = [random.integers(-128, 128, (N, K), dtype=np.int8) for _ in range(2)]
        a = random.integers(-128, 128, (rows, K), dtype=np.int8)
    with ExpertPool(npu, 1, K, N, lambda expert: format.tile(two[expert]), format=format) as pool:
        (weight,) = pool.hold([0])
        matmul, chain = npu.matmul([weight], rows), npu.chain([ChainTask(weight, rows)])
        for expert in (0, 1, 0):
            pool.hold([expert])
            exact = a.astype(np.float64) @ two[expert].astype(np.float64).T
            for run in (matmul.run, lambda: matmul.run_on(1)):
                matmul.a[:] = a
                run()
                np.testing.assert_allclose(
                    matmul.outputs[0], exact, rtol=2e-3, atol=2e-2 if format is FP16 else 0
                )
            chain.activations[0][:] = a
            chain.run()
            np.testing.assert_allclose(chain.outputs[0], exact, rtol=2e-3, atol=2e-2 if format is FP16 else 0)
        matmul.close()
        chain.close()


def test_a_k_that_chains_do_not_take_goes_one_by_one(npu: Npu, random: np.random.Generator) -> None:
    """The shape of a down projection, K = 768."""
    matrices = random.integers(-128, 128, (3, 64, 768), dtype=np.int8)
    codes, ids = random.integers(-128, 128, (4, 768), dtype=np.int8), np.array([[0], [2], [2], [0]])
    groups = group_by_expert(ids, 3)
    with ExpertPool(npu, 3, 768, 64, tiles_of(matrices)) as pool:
        got = expert_products(npu, pool, codes, groups, Ways.EACH)
        with pytest.raises(RefusedError, match="GRD-10"):
            expert_products(npu, pool, codes, groups, Ways.CHAIN)
    exact = [matrices[e].astype(int) @ codes[row].astype(int) for row, e in enumerate(ids[:, 0])]
    np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_about_even(seed: int) -> None:
    rows = np.random.default_rng(seed).integers(1, 40, 50).tolist()
    shares = deal(rows, 3)
    assert sorted(index for share in shares for index in share) == list(range(50))
    loads = [sum(rows[index] for index in share) for share in shares]
    assert max(loads) - min(loads) <= max(rows)
    assert deal([7], 3) == [[0]] and deal([], 3) == []
