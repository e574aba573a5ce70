"""One weight: rows read, quantized as the plan says, appended to the pack a few MiB at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import EMBEDDING_NAME, Linear
from orkbench_tui.runner.orkpack.layout import DType
from orkbench_tui.runner.orkpack.schemes import Scheme
from orkbench_tui.runner.orkpack.writer import PackWriter
from orkbench_tui.runner.quantize.int8 import all_zeros, not_finite, quantize_rows
from orkbench_tui.runner.quantize.tier_plan import TierPlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.quantize.four_bit import FourBit, Kind4

__all__ = ["add_weight"]


def add_weight(
    writer: PackWriter,
    model: GgufFile,
    linear: Linear,
    scheme: Scheme,
    plan: TierPlan,
    threads: int | None,
) -> None:
    """Append ``linear`` in the tier the plan has for it; InvalidFileError for a weight that is not finite."""
    import numpy as np

    info = model.tensors[linear.source]
    rotation = scheme.rotation(linear.K)
    tied_to = EMBEDDING_NAME if linear.source == EMBEDDING_NAME else None
    tier, _ = plan.tiers[linear.name]
    scales = np.empty(linear.N, dtype=np.float32)
    if tier == "int8":
        writer.add_packed(
            linear.name,
            linear.K,
            linear.N,
            info.type,
            _int8_tiles(model, linear, rotation, threads, scales),
            scales,
            tied_to=tied_to,
            rotation=rotation,
        )
        return
    kind: Kind4 = "uniform" if tier == "uniform4" else "nf4"
    multipliers = np.zeros((linear.N, linear.K // scheme.group), np.int8)
    writer.add_packed(
        linear.name,
        linear.K,
        linear.N,
        info.type,
        _nibbles(model, linear, rotation, plan, kind, scheme.group, scales, multipliers),
        scales,
        tied_to=tied_to,
        rotation=rotation,
        dtype=DType.I4_UNIFORM if kind == "uniform" else DType.I4_CODEBOOK,
        multipliers=multipliers,
    )


def _int8_tiles(
    model: GgufFile, linear: Linear, rotation: int, threads: int | None, scales: NDArray[np.float32]
) -> Iterator[NDArray[np.int8]]:
    empty = True
    for first, rows in model.row_chunks(linear.source, linear.index):
        empty = empty and not bool(rows[0].any()) and not bool(rows.any())
        block, row_scales = quantize_rows(rows, linear.stored, first, rotation, threads)
        scales[first : first + len(rows)] = row_scales
        yield block
    if empty:
        raise all_zeros(linear.stored)


def _nibbles(
    model: GgufFile,
    linear: Linear,
    rotation: int,
    plan: TierPlan,
    kind: Kind4,
    group: int,
    scales: NDArray[np.float32],
    multipliers: NDArray[np.int8],
) -> Iterator[NDArray[np.uint8]]:
    import numpy as np

    from orkbench_tui.native.rotation import rotated

    chunks = model.row_chunks(linear.source, linear.index)
    if plan.choices.gptq:
        # The rows of a weight share one factor of its Hessian: all at once.
        parts = list(chunks)
        chunks = iter([(0, np.concatenate([rows for _, rows in parts]))])
    moments = _moments(plan, linear, rotation)
    empty = True
    for first, rows in chunks:
        empty = empty and not bool(rows[0].any()) and not bool(rows.any())
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise not_finite(linear.stored, first + int(bad[0]))
        turned = rotated(np.ascontiguousarray(rows, np.float32), rotation) if rotation else rows
        part = _quantized(turned, kind, group, moments, plan.choices.gptq)
        scales[first : first + len(rows)] = part.scales
        if part.multipliers is not None:
            multipliers[first : first + len(rows)] = part.multipliers
        yield part.nibbles
    if empty:
        raise all_zeros(linear.stored)


def _quantized(
    rows: NDArray[np.float32], kind: Kind4, group: int, moments: NDArray[np.float32] | None, gptq: bool
) -> FourBit:
    from orkbench_tui.runner.quantize.four_bit import four_bit, gptq_four_bit

    if gptq and moments is not None:
        return gptq_four_bit(rows, moments, group)
    return four_bit(rows, kind, group, moments)


def _moments(plan: TierPlan, linear: Linear, rotation: int) -> NDArray[np.float32] | None:
    """What the calibration knows of the inputs as they are multiplied: a Hessian for GPTQ, else mean squares."""
    import numpy as np

    calibration = plan.choices.calibration
    if calibration is None:
        return None
    hessian = calibration.hessian(linear.name) if rotation or plan.choices.gptq else None
    if hessian is not None:
        from orkbench_tui.runner.quantize.arms import rotated_hessian

        turned = rotated_hessian(hessian) if rotation else hessian
        return turned if plan.choices.gptq else np.maximum(np.diag(turned), 0).astype(np.float32)
    squares = calibration.squares(linear.name)
    if squares is None or not rotation:
        return squares
    # Without what inputs have in common, each of a block gets the mean of its block.
    means = squares.reshape(-1, rotation).mean(axis=1)
    return np.repeat(means, rotation).astype(np.float32)
