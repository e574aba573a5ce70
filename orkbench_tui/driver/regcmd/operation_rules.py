"""What is wrong with a program, as rules over its launch state.

The chip checks almost none of this: it hangs, or computes something else. An ``error`` is known to do
that; a ``caution`` is a configuration that some board or capture contradicts.
"""

from __future__ import annotations

from orkbench_tui.driver.regcmd.operation_record import Operation, Problem
from orkbench_tui.driver.regcmd.operation_rules_matmul import CONVOLUTION_RULES
from orkbench_tui.driver.regcmd.operation_rules_sdp import ELEMENT_WISE_RULES, POOLING_RULES
from orkbench_tui.driver.regcmd.register_groups import LaunchState

__all__ = ["problems_of"]

_RULES = {"convolution": CONVOLUTION_RULES, "element-wise": ELEMENT_WISE_RULES, "pooling": POOLING_RULES}


def problems_of(kind: str, state: LaunchState, operation: Operation) -> tuple[Problem, ...]:
    """Everything known to be wrong. ``kind``: convolution, element-wise or pooling."""
    return tuple(
        Problem(severity, name, text)
        for severity, name, rule in _RULES[kind]
        for text in rule(state, operation)
    )
