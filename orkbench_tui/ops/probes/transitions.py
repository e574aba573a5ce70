"""Probes of what a change of precision costs: which ones reset, what a reset takes, what keeping warm saves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.modes import ModeKnobs, transition_table
from orkbench_tui.driver.run_paths import RunPath, path_mode
from orkbench_tui.driver.timing.submits import reset_ns
from orkbench_tui.ops.matmul_reference import compare, operands
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import median_us

if TYPE_CHECKING:
    from orkbench_tui.driver.chain import Chain
    from orkbench_tui.driver.matmul.formats import MatmulFormat
    from orkbench_tui.driver.matmul.weights import Weight

__all__ = ["PROBES", "handoff_resets"]

_SHAPE = (8, 512, 128)
_PAIRS = ((FP16, INT8), (INT8, FP16), (INT8, INT4), (INT4, INT8), (INT4, INT4), (INT8, INT8))
_REPEATS = 4
_LAYERS = 4


class _Work:
    """A chain of two tasks of one format that says how many elements are wrong."""

    def __init__(self, bench: Bench, format: MatmulFormat, seed: int) -> None:
        m, k, n = _SHAPE
        self._npu, self._name = bench.npu, format.name
        self._a, self._b, self._convert = operands(format.name, m, k, n, seed)
        self._weight: Weight = bench.npu.load(format, f"probe.{format.name}", self._b)
        task = ChainTask(self._weight, m, a=self._a, convert=self._convert)
        self._chain: Chain = bench.npu.chain([task, task])

    def wrong(self) -> int:
        self._chain.run()
        return sum(
            compare(self._name, self._a, self._b, self._convert, output.copy()).wrong or 0
            for output in self._chain.outputs
        )

    def close(self) -> None:
        self._chain.close()
        self._npu.free(self._weight)


def _a_reset_is_counted(bench: Bench) -> Control:
    work = _Work(bench, INT8, 1)
    work.wrong()
    before = bench.npu.counters.resets
    bench.npu.reset()
    counted = bench.npu.counters.resets - before
    wrong = work.wrong()
    work.close()
    return Control(
        (wrong, counted) == (0, 1), f"a reset that was ordered counts {counted}, {wrong} wrong after it"
    )


def _costs(bench: Bench) -> Answer:
    works = {format.name: _Work(bench, format, 2 + index) for index, format in enumerate((INT8, FP16, INT4))}
    rows: list[tuple[str | float | int | None, ...]] = []
    wrong = 0
    for first, second in _PAIRS:
        resets = bad = 0
        spent: list[int] = []
        for _ in range(_REPEATS):
            bad += works[first.name].wrong()
            before, started = bench.npu.counters.resets, time.perf_counter_ns()
            bad += works[second.name].wrong()
            spent.append(time.perf_counter_ns() - started)
            resets += bench.npu.counters.resets - before
        wrong += bad
        each = resets / _REPEATS
        rows.append((first.name, second.name, bad, each, reset_ns() * each / 1e6, min(spent) / 1e3))
    for work in works.values():
        work.close()
    resets_of = {(row[0], row[1]): row[3] for row in rows}
    kept = [("fp16", "int8"), ("int8", "fp16"), ("int4", "int4"), ("int8", "int8")]
    parted = [("int8", "int4"), ("int4", "int8")]
    as_known = all(resets_of[p] == 0 for p in kept) and all(resets_of[p] == 1 for p in parted)
    verdict = Verdict.PASS if not wrong and as_known else Verdict.FAIL
    why = (
        f"{wrong} elements wrong"
        if wrong
        else "int8 with int4 resets each way; fp16 with int8, and int4 behind int4, keep warm and stay right"
    )
    columns = ("from", "to", "wrong", "resets", "of which ms (predicted)", f"chain us ({bench.clock})")
    return Answer(verdict, why, (Figure("reset", 105, "ms", "published"),), columns, tuple(rows))


def _gap(bench: Bench) -> Answer:
    """Time from the end of one chain to the end of the next, with a reset between them and without."""
    npu = bench.npu
    work = _Work(bench, INT8, 9)
    plain = median_us(work.wrong)
    inside: list[float] = []

    def reset_first() -> None:
        started = time.perf_counter_ns()
        npu.reset()
        inside.append((time.perf_counter_ns() - started) / 1e3)
        work.wrong()

    before = npu.counters.resets
    parted = median_us(reset_first)
    # A chain that enters a cold NPU orders a reset of its own.
    each = (npu.counters.resets - before) / len(inside)
    work.close()
    call = each * sorted(inside)[len(inside) // 2]
    found = (
        ("without a reset", plain, None),
        ("with one between", parted, call),
    )
    columns = ("chain after chain", f"us ({bench.clock})", f"inside resets us ({bench.clock})")
    if not bench.on_board:
        why = "the simulated board's reset takes its time on the board's clock, not on this machine's"
        return Answer(Verdict.INCONCLUSIVE, why, (), columns, found)
    recovered = (parted - plain) / call if call else 0.0
    verdict = Verdict.PASS if 0.8 <= recovered <= 1.2 else Verdict.FAIL
    why = f"{100 * recovered:.0f} % of the resets' time is gone without it: " + (
        "recoverable"
        if verdict is Verdict.PASS
        else "the rest is a wait that is paid anyway, or more than one"
    )
    return Answer(verdict, why, (), columns, found)


def handoff_resets(layers: int, knobs: ModeKnobs) -> int:
    """Resets of a pass whose layers do attention in fp16 and the feed-forward as int8 chains."""
    table = transition_table(knobs)
    attention, chain = path_mode(RunPath.CHAIN, FP16), path_mode(RunPath.CHAIN, INT8)
    steps = [(chain.profile, attention.mode, chain.mode), (attention.profile, chain.mode, attention.mode)]
    return layers * sum(table[step].reset for step in steps)


def _pipeline(bench: Bench) -> Answer:
    npu = bench.npu
    attention, chain = _Work(bench, FP16, 11), _Work(bench, INT8, 12)
    wrong = attention.wrong() + chain.wrong()
    before = npu.counters.resets
    for _ in range(_LAYERS):
        wrong += attention.wrong() + chain.wrong()
    resets = npu.counters.resets - before
    for work in (attention, chain):
        work.close()
    without = handoff_resets(_LAYERS, ModeKnobs(f16warm=False))
    saved = reset_ns(without - resets) / 1e6 / _LAYERS
    verdict = Verdict.PASS if not wrong and not resets else Verdict.FAIL
    why = f"{_LAYERS} layers, {resets} resets where resetting each time would be {without}; {wrong} elements wrong"
    figures = (
        Figure("saved a layer", saved, "ms", "predicted"),
        Figure("SSM prefill, resets between", 20.7, "tok/s", "published"),
        Figure("SSM prefill, kept warm", 103.5, "tok/s", "published"),
    )
    return Answer(
        verdict, why, figures, ("layers", "resets", "without keeping warm"), ((_LAYERS, resets, without),)
    )


PROBES = (
    Probe(
        name="transition-cost",
        question="Which changes of precision reset the NPU, and what does one cost?",
        formula="a chain of one format, then of another, four times each; a reset is 105 ms, not 105 us",
        rule="pass when all is right, int8 with int4 resets once each way and nothing else does",
        positive="a reset that is ordered must be counted, and the chain after it must be right",
        control=_a_reset_is_counted,
        ask=_costs,
        rows=("INV-129", "INV-131", "RES-39"),
        closed=("mode-thrash",),
    ),
    Probe(
        name="reset-gap",
        question="Is the time of a reset gained where it is left out, or paid as a wait anyway?",
        formula="chain after chain with a reset between, less the same without, over the time inside the resets",
        rule="pass on a board when 80 to 120 % of it is gained",
        positive="a reset that is ordered must be counted, and the chain after it must be right",
        control=_a_reset_is_counted,
        ask=_gap,
        rows=("INV-262", "RES-64"),
        harm="resets the NPU several times: other programs' jobs end with an error",
    ),
    Probe(
        name="keep-warm",
        question="What does keeping fp16 and int8 warm save where layers alternate between them?",
        formula="105 ms x handoffs of a pass: attention in fp16, feed-forward as int8 chains, four layers",
        rule="pass when the pass has no reset after its first layer and all is right",
        positive="a reset that is ordered must be counted, and the chain after it must be right",
        control=_a_reset_is_counted,
        ask=_pipeline,
        rows=("INV-133", "RES-38"),
    ),
)
