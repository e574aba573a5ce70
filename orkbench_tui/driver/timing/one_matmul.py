"""What the model says of one int8 matmul: its parts, what binds it, and what preparing its weight would add."""

from __future__ import annotations

from orkbench_tui.driver.timing import fill, regime, submits
from orkbench_tui.driver.timing.programs import Shape, hardware_ns
from orkbench_tui.errors import UsageError

__all__ = ["about", "parsed_shape"]


def parsed_shape(text: str) -> Shape:
    """``M,K,N`` in words. Raises UsageError."""
    try:
        wanted = Shape(*map(int, text.split(",")))
        if min(wanted.M, wanted.K, wanted.N) < 1:
            raise ValueError
    except (TypeError, ValueError):
        raise UsageError(f"--shape {text}", why="expected M,K,N, such as 1,2048,2048") from None
    return wanted


def about(wanted: Shape) -> dict[str, float | str | None]:
    """Predicted figures by name; the unit is the end of the name, shares and ratios have none."""
    one = hardware_ns(wanted)
    return {
        "hardware_us": one / 1e3,
        "hardware_us_3_cores": hardware_ns(wanted, 3) / 1e3,
        "blocking_us": submits.blocking_call_ns(wanted) / 1e3,
        "floor_share": regime.floor_share(one),
        "regime": regime.regime(one).value,
        "helped_by": regime.helped_by(one, cpu_between=False, independent=True).value,
        "helped_by_with_cpu_step": regime.helped_by(one, cpu_between=True, independent=True).value,
        "prepare_us": fill.prepare_ns(wanted) / 1e3,
        "prepare_over_matmul": fill.fill_ratio(wanted),
        "rows_where_preparing_pays": fill.crossover_rows(wanted.K, wanted.N),
    }
