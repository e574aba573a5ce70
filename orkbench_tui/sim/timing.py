"""The simulated board's virtual time: the driver's timing model in whole nanoseconds."""

from __future__ import annotations

from orkbench_tui.driver.timing import programs
from orkbench_tui.driver.timing.constants import value

__all__ = ["FIRST_TOUCH_NS", "RESET_NS", "SUBMIT_FLOOR_NS", "element_wise_ns", "program_ns"]

SUBMIT_FLOOR_NS = int(value("submit_floor"))
"""A blocking submit of nothing, as its caller sees it."""

RESET_NS = int(value("reset"))

FIRST_TOUCH_NS = int(value("domain_first_touch"))
"""Making a domain on the first switch to it. Later switches are not charged."""


def program_ns(
    macs: int, weight_bytes: int, bits: int = 8, result_bytes: int = 0, *, buffered: bool = True
) -> int:
    """Time of one matmul program in a running chain; ``bits`` of an input element.

    ``buffered`` says that its weight banks hold two kernel groups, so that fetch and work overlap.
    """
    return int(programs.busy_ns(macs, weight_bytes, bits, result_bytes, buffered=buffered))


def element_wise_ns(traffic_bytes: int) -> int:
    """Time of one stand-alone element-wise program in a running chain."""
    return int(programs.element_wise_ns(traffic_bytes))
