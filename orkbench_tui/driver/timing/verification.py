"""Verifying drafted tokens: a forward of few rows, whose matmuls wait for weights and share each load."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.timing.programs import Shape, hardware_ns
from orkbench_tui.driver.timing.shapes import ModelShape
from orkbench_tui.driver.timing.submits import stream_scaling

__all__ = ["Verification", "tokens_accepted", "verification", "verify_shapes"]


@dataclass(frozen=True, slots=True)
class Verification:
    """NPU time of one target forward over ``rows`` rows and of one row, ns; ``cores`` is the streams' scaling."""

    rows: int
    forward: float
    one_row: float
    cores: float
    tokens: float

    @property
    def gain(self) -> float:
        """How many times more tokens a second than one row at a time."""
        return self.tokens * self.one_row / self.forward


def verify_shapes(model: ModelShape, rows: int) -> list[Shape]:
    """Every matmul of a forward over ``rows`` rows, in order; the head sees all rows."""
    layer = [Shape(rows, linear.K, linear.N) for linear in model.linears for _ in range(linear.active)]
    return [*layer * model.layers, Shape(rows, model.embedding, model.vocabulary)]


def tokens_accepted(drafts: int, acceptance: float) -> float:
    """Expected tokens of a step: drafts are kept up to the first that is wrong, and one more comes free.

    Raises:
        ValueError: a probability outside 0 to 1, or fewer than no drafts.
    """
    if not 0 <= acceptance <= 1 or drafts < 0:
        raise ValueError(f"{drafts} drafts with acceptance {acceptance}")
    return sum(acceptance**kept for kept in range(drafts + 1))


def verification(model: ModelShape, drafts: int, acceptance: float, *, cores: int = 3) -> Verification:
    """Predicted gain of verifying ``drafts`` drafted tokens and the one before them at once."""
    rows = drafts + 1
    many, one = verify_shapes(model, rows), verify_shapes(model, 1)
    widest = max(many, key=lambda shape: shape.macs)
    return Verification(
        rows,
        sum(hardware_ns(shape, cores) for shape in many),
        sum(hardware_ns(shape, cores) for shape in one),
        stream_scaling(widest, cores),
        tokens_accepted(drafts, acceptance),
    )
