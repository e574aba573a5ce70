"""Probe of operand layouts: where a product is wrong, which mistake in laying out an operand explains it.

A model that answers badly says nothing of the cause. One product beside what each mistake would give does,
within seconds: the reference that fits the wrong result names the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FITS", "MISTAKES", "PROBES", "closest", "distance"]

FITS = 1e-3
"""A reference fits where it is no farther than this from a result, relative to the result's size."""

_SIDE = 64


def _with(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: a @ change(b).T


MISTAKES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "right": _with(lambda b: b),
    "B transposed": _with(lambda b: b.T),
    "halves of K swapped": _with(lambda b: _swapped(b, 1)),
    "halves of N swapped": _with(lambda b: _swapped(b, 0)),
    "K reversed": _with(lambda b: b[:, ::-1]),
    "B one row late": _with(lambda b: _rolled(b)),
}
"""What a product A [M, K] by B [N, K] would be under each mistake in B, K equal to N."""


def _swapped(b: np.ndarray, axis: int) -> np.ndarray:
    import numpy as np

    first, second = np.split(b, 2, axis=axis)
    return np.concatenate([second, first], axis=axis)


def _rolled(b: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.roll(b, 1, axis=0)


def distance(result: np.ndarray, reference: np.ndarray) -> float:
    """Norm of the difference over the norm of the reference."""
    import numpy as np

    size = float(np.linalg.norm(reference))
    return float(np.linalg.norm(result - reference)) / size if size else float(np.linalg.norm(result))


def closest(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[str, float]:
    """The mistake (or ``right``) whose product is nearest to ``result``, and how near, from float64."""
    import numpy as np

    exact_a, exact_b, got = (array.astype(np.float64) for array in (a, b, result))
    found = {name: distance(got, make(exact_a, exact_b)) for name, make in MISTAKES.items()}
    name = min(found, key=found.__getitem__)
    return name, found[name]


def _operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    random = np.random.default_rng(seed)
    a, b = (random.standard_normal((_SIDE, _SIDE)).astype(np.float16) for _ in range(2))
    return a, b


def _product(bench: Bench, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A by B on the NPU in fp16, fp32 results."""
    from orkbench_tui.driver.matmul.formats import FP16

    weight = bench.npu.load(FP16, "probe.layout", b)
    try:
        matmul = bench.npu.matmul([weight], len(a))
        matmul.a[:] = a
        matmul.run()
        found: np.ndarray = matmul.outputs[0].copy()
        matmul.close()
    finally:
        bench.npu.free(weight)
    return found


def _a_transposed_fill_is_recognized(bench: Bench) -> Control:
    import numpy as np

    a, b = _operands(1)
    name, near = closest(_product(bench, a, np.ascontiguousarray(b.T)), a, b)
    return Control(
        name == "B transposed" and near < FITS,
        f"B filled transposed gives {name!r}, {near:.1e} from its product",
    )


def _ask(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []
    for seed in (2, 3, 4):
        a, b = _operands(seed)
        name, near = closest(_product(bench, a, b), a, b)
        rows.append((seed, name, near))
    wrong = [row for row in rows if row[1] != "right" or float(row[2] or 0) >= FITS]
    verdict = Verdict.FAIL if wrong else Verdict.PASS
    why = f"looks like: {wrong[0][1]}" if wrong else "every product is that of the operands as they are"
    figures = (
        Figure("wrong fill against its product", 1.9e-4, "", "published"),
        Figure("perplexity, V filled transposed", 67.86, "", "published"),
    )
    return Answer(verdict, why, figures, ("seed", "fits", "distance"), tuple(rows))


PROBES = (
    Probe(
        "operand-layout",
        "Is a product that of its operands, and if not, which mistake in laying one out explains it?",
        "distance to the product under each mistake",
        f"pass where the right product is nearest, and nearer than {FITS}",
        "B filled transposed on purpose is recognized as that",
        _a_transposed_fill_is_recognized,
        _ask,
        rows=("INV-215", "INV-216"),
    ),
)
