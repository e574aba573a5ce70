"""Probe of decode on the NPU: a layer's matmuls built for each token against compiled once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orkbench_tui.driver.decode_layer import LAYER_STEPS, DecodeLayer
from orkbench_tui.driver.timing.hops import feed_forward_hops
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, median_us

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.matmul.weights import Weight

__all__ = ["PROBES"]

_WIDTH, _INNER = 1024, 3072
_SHAPES = {
    "q": (2 * _WIDTH, _WIDTH), "k": (_WIDTH, _WIDTH), "v": (_WIDTH, _WIDTH), "o": (_WIDTH, 2 * _WIDTH),
    "gate": (_INNER, _WIDTH), "up": (_INNER, _WIDTH), "down": (_WIDTH, _INNER),
}  # fmt: skip


def _another_token_is_seen(bench: Bench) -> Control:
    """A second activation must change the results of a program that was compiled for the first."""
    b = int8(64, 512, 1)
    with loaded(bench.npu, [b]) as weights:
        layer = DecodeLayer(bench.npu.context, {"o": weights[0]})
        seen = [bool((layer.run("o", a)[0] == exact(a, b)).all()) for a in (int8(1, 512, 2), int8(1, 512, 3))]
        layer.close()
    return Control(seen == [True, True], "two tokens through one compiled program give each its own result")


def _layer(bench: Bench) -> Answer:
    npu = bench.npu
    parts = {name: int8(n, k, 10 + index) for index, (name, (n, k)) in enumerate(_SHAPES.items())}
    rows: list[tuple[str | float | int | None, ...]] = []
    right = True
    spent: dict[str, float] = {}
    with loaded(npu, list(parts.values())) as resident:
        weights = dict(zip(parts, resident, strict=True))
        layer = DecodeLayer(npu.context, weights)
        for step, names in LAYER_STEPS.items():
            a = int8(1, parts[names[0]].shape[1], 20)
            results = layer.run(step, a)
            right = right and all(
                bool((result == exact(a, parts[name])).all())
                for name, result in zip(names, results, strict=True)
            )
            spent[step] = median_us(lambda s=step, x=a: layer.run(s, x))  # type: ignore[misc]
            chosen = [weights[name] for name in names]
            apart = median_us(lambda c=chosen, x=a: _built(bench, c, x), 3)  # type: ignore[misc]
            rows.append((step, len(names), apart, spent[step], apart / spent[step]))
        layer.close()
    hops = feed_forward_hops(_WIDTH, _INNER, _WIDTH, gate_up_us=spent["gate_up"], down_us=spent["down"])
    verdict = Verdict.PASS if right else Verdict.FAIL
    gain = figure("RES-73 q, k, v or o, before").value / figure("RES-73 q, k, v or o, after").value
    figures = (
        *(Figure(f"weight rate of {hop.name}", hop.gb_per_s, "GB/s", bench.clock) for hop in hops),
        Figure("q, k, v or o by compiling", gain, "x", "published"),
        Figure(
            "FFN layer by compiling",
            figure("RES-74 built each time").value / figure("RES-74 precompiled").value,
            "x",
            "published",
        ),
    )
    why = "every matmul of the layer is exact" if right else "a result is wrong"
    columns = ("step", "matmuls", f"built each time us ({bench.clock})", f"compiled us ({bench.clock})")
    return Answer(verdict, why, figures, (*columns, f"gain ({bench.clock})"), tuple(rows))


def _built(bench: Bench, weights: Sequence[Weight], a: np.ndarray) -> None:
    for weight in weights:
        matmul = bench.npu.matmul([weight], 1)
        matmul.a[:] = a
        matmul.run_on(0)
        matmul.close()


PROBES = (
    Probe(
        name="decode-layer",
        question="What does compiling a layer's matmuls once save a token?",
        formula="time of each step built for the token / compiled and kept; qwen3-0.6b's shapes, one row",
        rule="pass when every result is exact; times are for a board to say",
        positive="two tokens through one compiled program must give two results",
        control=_another_token_is_seen,
        ask=_layer,
        rows=("INV-279", "INV-289", "RES-73", "RES-74"),
        closed=("resident-regcmd",),
    ),
)
