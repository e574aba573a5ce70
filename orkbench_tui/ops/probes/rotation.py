"""Probe of rotated int4: groups turned by the caller, multiplied by the NPU, against the same groups as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orkbench_tui.native.rotation import rotated_in_numpy
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["PROBES"]

_M, _K, _N, _GROUP = 8, 2048, 256, 128
_OUTLIER = 20
_MECHANISM = 1e-4


def _operands() -> tuple[Floats, Floats]:
    """Gaussian A [M, K] with every 97th input twenty times as large, Gaussian B [N, K]."""
    import numpy as np

    random = np.random.default_rng(0)
    b, a = random.standard_normal((_N, _K)), random.standard_normal((_M, _K))
    a[:, ::97] *= _OUTLIER
    return a, b


def _codes(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """int4 codes and their scales, one for each group of a row."""
    import numpy as np

    parts = rows.reshape(len(rows), -1, _GROUP)
    scales = np.abs(parts).max(axis=2) / 7
    scales[scales == 0] = 1
    codes = np.clip(np.rint(parts / scales[:, :, None]), -7, 7).astype(np.int8)
    return codes.reshape(rows.shape), scales


def _run(bench: Bench, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """(product by the NPU, the same sums in float64) of grouped int4."""
    import numpy as np

    a_codes, a_scales = _codes(a)
    b_codes, b_scales = _codes(b)
    npu = bench.npu
    weight = npu.load_grouped("probe.rotated", b_codes, np.ascontiguousarray(b_scales.T, np.float32), _GROUP)
    matmul = npu.grouped_matmul(weight, len(a))
    found = np.array(matmul.run(a_codes, a_scales.astype(np.float32)), np.float64)
    matmul.close()
    npu.free(weight)
    left = a_codes.astype(np.float64) * np.repeat(a_scales, _GROUP, axis=1)
    right = b_codes.astype(np.float64) * np.repeat(b_scales, _GROUP, axis=1)
    wide: Floats = left @ right.T
    return found, wide


def _rms(found: Floats, wanted: Floats) -> float:
    import numpy as np

    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def _turning_keeps_products(bench: Bench) -> Control:
    a, b = _operands()
    kept = _rms(rotated_in_numpy(a, _GROUP) @ rotated_in_numpy(b, _GROUP).T, a @ b.T)
    half = _rms(rotated_in_numpy(a, _GROUP) @ b.T, a @ b.T)
    return Control(
        kept < 1e-9 and half > 0.5,
        f"turning both sides changes products by {kept:.1e}, one side by {half:.2f}",
    )


def _rotated(bench: Bench) -> Answer:
    a, b = _operands()
    exact = a @ b.T
    rows: list[tuple[str | float | int | None, ...]] = []
    errors, off = [], 0.0
    for name, turn in (("plain", None), ("rotated", _GROUP)):
        left, right = (x if turn is None else rotated_in_numpy(x, turn) for x in (a, b))
        found, wide = _run(bench, left, right)
        off = max(off, _rms(found, wide))
        errors.append(100 * _rms(found, exact))
        rows.append((name, errors[-1], _rms(found, wide)))
    cut = 1 - errors[1] / errors[0]
    verdict = Verdict.PASS if off <= _MECHANISM and cut >= 0.4 else Verdict.FAIL
    why = f"turning takes {100 * cut:.0f} % off the error; the NPU's sums are off by {off:.1e}"
    figures = (
        Figure("error, plain", 27.18, "% RMS", "published"),
        Figure("error, rotated", 14.75, "% RMS", "published"),
    )
    return Answer(verdict, why, figures, ("groups", "error % RMS", "off from the same codes"), tuple(rows))


PROBES = (
    Probe(
        name="rotated-int4",
        question="Does turning groups before they are quantized lower the error of int4 on the NPU?",
        formula=f"{_M}x{_K}x{_N}, groups of {_GROUP}, outliers of {_OUTLIER}: error of grouped int4 against float64",
        rule="pass when turning takes 40 % off and the NPU computes what the codes say, within 1e-4",
        positive="turning both operands must keep products, turning one must not",
        control=_turning_keeps_products,
        ask=_rotated,
        rows=("INV-029", "RES-13"),
    ),
)
