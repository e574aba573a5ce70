"""Probes of precision modes: whether work of one leaves that of another right, on one core and on two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT4, INT8
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.ops.matmul_reference import compare, operands
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.matmul.formats import MatmulFormat

__all__ = ["PROBES"]

_TYPES = ("int8", "int8->int16", "fp16", "int4")
_SHAPE = (8, 512, 128)


def _wrong_is_counted(bench: Bench) -> Control:
    a, b, convert = operands("int8", 4, 64, 32, 1)
    product = a.astype("int32") @ b.T.astype("int32")
    right = compare("int8", a, b, convert, product).wrong
    product[2, 3] += 1
    wrong = compare("int8", a, b, convert, product).wrong
    return Control(
        (right, wrong) == (0, 1), "one changed element of a product is counted, none in a right one"
    )


def _matrix(bench: Bench) -> Answer:
    m, k, n = _SHAPE
    rows: list[tuple[str | float | int | None, ...]] = []
    wrong = resets = 0
    for first in _TYPES:
        for second in _TYPES:
            exact_matmul(bench.npu, m, k, n, dtype=first, path="chain", seed=2)
            found = exact_matmul(bench.npu, m, k, n, dtype=second, path="chain", seed=3)
            wrong += found.wrong or 0
            resets += found.resets
            rows.append((first, second, found.wrong, found.resets))
    verdict = Verdict.FAIL if wrong else Verdict.PASS
    why = f"{wrong} elements wrong" if wrong else f"all {len(rows)} right, with {resets} resets between them"
    figures = (Figure("reset", 105, "ms", "published"), Figure("resets", resets, "", bench.clock))
    return Answer(verdict, why, figures, ("from", "to", "wrong", "resets"), tuple(rows))


def _run(bench: Bench, format: MatmulFormat, core: int, seed: int) -> int:
    """Wrong elements of a chain of two tasks on ``core``."""
    name, (m, k, n) = format.name, _SHAPE
    a, b, convert = operands(name, m, k, n, seed)
    weight = bench.npu.load(format, "probe.mode", b)
    chain = bench.npu.chain([ChainTask(weight, m, a=a, convert=convert) for _ in range(2)], core=core)
    chain.run()
    outputs: list[np.ndarray] = [output.copy() for output in chain.outputs]
    chain.close()
    bench.npu.free(weight)
    return sum(compare(name, a, b, convert, output).wrong or 0 for output in outputs)


def _without_reset(bench: Bench, first_core: int, second_core: int) -> int:
    """Wrong elements of int8 on one core after int4 on another, the reset between them left out.

    The driver is made to believe that int8 ran last, which is why it resets nothing.
    """
    state = bench.npu.modes
    _run(bench, INT8, second_core, 4)
    believed = state.last_mode, state.last_chain
    _run(bench, INT4, first_core, 4)
    state.last_mode, state.last_chain = believed
    try:
        return _run(bench, INT8, second_core, 5)
    finally:
        bench.npu.context.gate.reset()


def _hazard_shows(bench: Bench) -> Control:
    wrong = _without_reset(bench, 0, 0)
    seen = f"int8 after int4 on the same core without a reset has {wrong} wrong elements"
    return Control(wrong > 0, seen + ("" if wrong else ": this board does not show the hazard"))


def _split(bench: Bench) -> Answer:
    same, apart = _without_reset(bench, 0, 0), _without_reset(bench, 0, 1)
    rows = (("same core", same), ("core 0, then core 1", apart))
    if not bench.on_board:
        verdict = Verdict.INCONCLUSIVE
        why = "what a simulated core does here is assumed; nobody has seen it on silicon"
    elif apart:
        verdict, why = (
            Verdict.FAIL,
            f"{apart} elements wrong on the other core: modes are shared between cores",
        )
    else:
        verdict, why = Verdict.PASS, "the other core stays right: a mode belongs to its core"
    return Answer(verdict, why, (), ("int8 after int4", "wrong elements"), rows)


PROBES = (
    Probe(
        name="mode-transitions",
        question="Is every change between precisions right, and what does it reset?",
        formula="a chain of one format, then one of another, every element compared; 16 pairs",
        rule="pass when nothing is wrong",
        positive="one changed element of a product must be counted",
        control=_wrong_is_counted,
        ask=_matrix,
        rows=("RES-39",),
        closed=("mode-thrash",),
    ),
    Probe(
        name="percore-mode",
        question="Does a mode belong to one core or to the whole NPU?",
        formula="int4 on core 0, then int8 on core 1, no reset between; the same on one core is the control",
        rule="inconclusive unless the control fails; then pass when the other core stays right",
        positive="without a reset int8 after int4 on the same core must be wrong",
        control=_hazard_shows,
        ask=_split,
        rows=("RES-39",),
        harm="leaves out resets on purpose: results of this process may be wrong until it ends, and it resets the NPU",
    ),
)
