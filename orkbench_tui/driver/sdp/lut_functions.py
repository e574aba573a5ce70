"""The functions the table can hold, as rows: what they are, and how far a table must reach.

Beyond ``reach`` a function is taken for its tail: constant, or a line of slope one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.sdp.table import Evidence

__all__ = ["FUNCTIONS", "TABLE_EVIDENCE", "Domain", "LutFunction", "function_named", "gaussian_cdf"]

Values = np.ndarray


class Domain(StrEnum):
    """How the input range is laid over the table.

    ``AROUND_ZERO``: symmetric, so functions with linear tails keep both. ``BELOW_TOP``: a window of
    ``reach`` below the largest input whose result still fits. ``POSITIVE``: codes from 1 on.
    """

    AROUND_ZERO = "around zero"
    BELOW_TOP = "below the top"
    POSITIVE = "positive"


@dataclass(frozen=True, slots=True)
class LutFunction:
    """``compute`` maps float64 arrays; ``low_slope`` and ``high_slope`` are the tails' slopes."""

    name: str
    compute: Callable[[Values], Values]
    reach: float
    domain: Domain = Domain.AROUND_ZERO
    low_slope: float = 0.0
    high_slope: float = 0.0


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gaussian_cdf(x: Values) -> Values:
    """P(X <= x) of the standard normal distribution."""
    return 0.5 * (1.0 + np.asarray(_erf(x / math.sqrt(2.0))))


def _sigmoid(x: Values) -> Values:
    return 1.0 / (1.0 + np.exp(-x))


FUNCTIONS: Mapping[str, LutFunction] = MappingProxyType(
    {
        f.name: f
        for f in (
            LutFunction("silu", lambda x: x * _sigmoid(x), reach=16.0, high_slope=1.0),
            LutFunction("gelu", lambda x: x * gaussian_cdf(x), reach=8.0, high_slope=1.0),
            LutFunction("sigmoid", _sigmoid, reach=12.0),
            LutFunction("tanh", np.tanh, reach=6.0),
            LutFunction("gaussian_cdf", gaussian_cdf, reach=5.0),
            LutFunction("exp", np.exp, reach=12.0, domain=Domain.BELOW_TOP),
            LutFunction("rsqrt", lambda x: 1.0 / np.sqrt(x), reach=math.inf, domain=Domain.POSITIVE),
        )
    }
)


_V, _B = Evidence.VENDOR, Evidence.BOARD
TABLE_EVIDENCE: Mapping[tuple[str, str], Evidence] = MappingProxyType(
    {
        ("silu", "int8"): _V,
        ("silu", "int16"): _V,
        ("gelu", "int8"): _B,
        ("gelu", "int16"): _B,
        ("gelu", "fp16"): _B,
        ("exp", "int8"): _B,
        ("exp", "int16"): _B,
        ("rsqrt", "int8"): _B,
        ("sigmoid", "fp16"): _B,
    }
)
"""Who has seen a function of a type run, in some form; what is not here is derived. The ranges and the
entries are ours everywhere."""


def function_named(name: str) -> LutFunction:
    """The row of a function.

    Raises:
        OperandError: no such function.
    """
    if name not in FUNCTIONS:
        raise OperandError(f"no table function {name!r}", why=f"there are {', '.join(FUNCTIONS)}")
    return FUNCTIONS[name]
