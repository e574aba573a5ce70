"""Probes of many runs: chains over all cores at once, and int4 rounds that may get lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT4
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.errors import UnhealthyError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, median_us

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

__all__ = ["PROBES", "StallCount", "count_stalls"]

_CHAINS = 6
_ROUNDS_BOARD, _ROUNDS_SIM = 400, 40
_WIDE_BOARD, _WIDE_SIM = (5120, 17408), (64, 2080)


# -- chains over the cores ------------------------------------------------------------------------------


def _each_chain_has_its_own(bench: Bench) -> Control:
    npu, a, parts = bench.npu, int8(1, 512, 1), [int8(64, 512, 2), int8(64, 512, 3)]
    with loaded(npu, parts) as weights:
        chains = [npu.chain([ChainTask(weight, 1, a=a)] * 2) for weight in weights]
        npu.round_robin(chains).run()
        match = [[bool((chain.outputs[0] == exact(a, part)).all()) for part in parts] for chain in chains]
        for chain in chains:
            chain.close()
    return Control(
        match == [[True, False], [False, True]], "each of two chains matches its own weights alone"
    )


def _round_robin(bench: Bench) -> Answer:
    npu, (m, k, n) = bench.npu, (8, 512, 512)
    parts = [int8(n, k, 10 + index) for index in range(_CHAINS)]
    inputs = [int8(m, k, 30 + index) for index in range(_CHAINS)]
    rows: list[tuple[str | float | int | None, ...]] = []
    right = True
    times: dict[int, float] = {}
    with loaded(npu, parts) as weights:
        chains = [npu.chain([ChainTask(w, m, a=a)] * 2) for w, a in zip(weights, inputs, strict=True)]
        for cores in range(1, npu.soc.cores + 1):
            robin = npu.round_robin(chains, cores=cores)
            before = npu.counters.core_submits
            times[cores] = median_us(robin.run, 3)
            used = sum(now > then for now, then in zip(npu.counters.core_submits, before, strict=True))
            right = right and all(
                bool((output == exact(a, part)).all())
                for chain, a, part in zip(chains, inputs, parts, strict=True)
                for output in chain.outputs
            )
            rows.append((cores, used, times[cores], times[1] / times[cores]))
        for chain in chains:
            chain.close()
    published = figure("RES-45 three cores").value
    gain = times[1] / times[npu.soc.cores]
    if not right:
        verdict, why = Verdict.FAIL, "a result is wrong when chains run at once"
    elif not bench.on_board:
        verdict, why = Verdict.PASS, f"{_CHAINS} chains at once, all exact; times are this machine's"
    else:
        verdict = Verdict.PASS if gain > 1.5 else Verdict.FAIL
        why = f"{gain:.1f} times on all cores, published {published:g}"
    columns = ("cores asked", "cores used", f"us ({bench.clock})", f"gain ({bench.clock})")
    return Answer(verdict, why, (Figure("three cores", published, "x", "published"),), columns, tuple(rows))


# -- lost rounds ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StallCount:
    """Of ``rounds``: those that were lost and run again, those given up, and wrong elements in all others."""

    rounds: int
    stalls: int
    failed: int
    mismatches: int

    @property
    def rate(self) -> float:
        return self.stalls / self.rounds


def count_stalls(npu: Npu, n: int, k: int, rounds: int) -> StallCount:
    """int4 rounds of one row that nobody waits for in the kernel, each compared."""
    import numpy as np

    random = np.random.default_rng(1)
    b = random.integers(-8, 8, (n, k), dtype=np.int8)
    weight = npu.load(INT4, "probe.stall", b)
    drops, failed, mismatches = npu.counters.drops, 0, 0
    for _ in range(rounds):
        a = random.integers(-8, 8, (1, k), dtype=np.int8)
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weight, 1, a=a)])
            doorbell.begin()
            try:
                doorbell.end()
            except UnhealthyError:
                failed += 1
                continue
            wanted = a.astype(np.int32) @ b.T.astype(np.int32)
            mismatches += int((doorbell.outputs[0] != wanted).sum())
    if not failed:
        npu.free(weight)
    return StallCount(rounds, npu.counters.drops - drops, failed, mismatches)


def _a_wrong_element_is_counted(bench: Bench) -> Control:
    a, b = int8(1, 64, 5), int8(64, 64, 6)
    product = exact(a, b)
    wrong = product.copy()
    wrong[0, 7] += 1
    counted = int((wrong != product).sum()), int((product != exact(a, b)).sum())
    return Control(counted == (1, 0), "one changed element is counted, none in a right product")


def _stalls(bench: Bench) -> Answer:
    n, k = _WIDE_BOARD if bench.on_board else _WIDE_SIM
    rounds = _ROUNDS_BOARD if bench.on_board else _ROUNDS_SIM
    found = count_stalls(bench.npu, n, k, rounds)
    verdict = Verdict.PASS if not found.mismatches and not found.failed else Verdict.FAIL
    why = f"{found.stalls} of {rounds} rounds were lost and run again, {found.mismatches} elements wrong"
    figures = (
        Figure("stalls", 100 * found.rate, "%", "measured" if bench.on_board else "host"),
        Figure("stalls", figure("RES-67 stalls").value, "%", "published"),
    )
    columns = ("NxK", "rounds", "stalls", "given up", "wrong")
    row = (f"{n}x{k}", rounds, found.stalls, found.failed, found.mismatches)
    return Answer(verdict, why, figures, columns, (row,))


PROBES = (
    Probe(
        name="chain-round-robin",
        question="Do chains on all cores at once stay right, and what do they gain?",
        formula=f"{_CHAINS} chains dealt over 1 to 3 cores, every element compared; time on one over time on all",
        rule="pass when all is exact; on a board above 1.5 times",
        positive="each of two chains must match its own weights alone",
        control=_each_chain_has_its_own,
        ask=_round_robin,
        rows=("INV-158", "RES-45"),
        closed=("ddr-ceiling",),
    ),
    Probe(
        name="int4-stalls",
        question="How often is an int4 round with a wide K lost, and is what comes back right?",
        formula="lost rounds / rounds, one row of K = 17408 by N = 5120 polled 400 times",
        rule="pass when nothing is wrong and no round is given up; the rate is reported",
        positive="one changed element must be counted",
        control=_a_wrong_element_is_counted,
        ask=_stalls,
        rows=("INV-270", "RES-67"),
    ),
)
