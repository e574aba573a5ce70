"""``python -m orkbench_tui.driver.sdp.page`` prints docs/element-wise.md from the tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from orkbench_tui.driver.sdp.dead_forms import DEAD_FORMS
from orkbench_tui.driver.sdp.formats import FORMATS
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS, TABLE_EVIDENCE
from orkbench_tui.driver.sdp.ops import FP16_GATES
from orkbench_tui.driver.sdp.table import ROWS, Evidence

__all__ = ["markdown"]

_INTRODUCTION = """\
# Element-wise operations

What the element-wise unit (SDP) computes through `npu.sdp`, and who has seen it run. `ork npu op --list` prints
the operations, `ork npu op add --dtype int8 --shape 7,64 --check` runs one and compares it with numpy. A new one
is added as docs/adding-an-op.md shows.

Integer results are rounded half to even and saturate; int8 and int16 operands may have scales and zero points.
Rows and channels beyond one program are tiled. Programs that use neither BS nor BN are linked into one submit;
the others get a submit each, because they stall in a chain.

This page is printed from the tables in `orkbench_tui/driver/sdp/` by `python -m orkbench_tui.driver.sdp.page`.
"""

_FUSED = """\
## Behind a matmul

| call | operands | result | evidence |
|---|---|---|---|
| `sdp.requantized` | int8, int32 bias and 15-bit factor per channel | int8 | vendor capture |
| `sdp.biased` | int8, int32 bias per channel | int32 | published by Mesa for int8 results |
| `sdp.activated` | int8, function table | int8 | oRKLLM/ork-driver |
| `sdp.with_operand` | fp16, second operand for add, mul, max, min | fp16 | run on boards |

`sdp.rmsnorm` multiplies on the NPU and takes the mean of squares and its root on the host; no unit reduces rows.
"""


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows), ""]


def markdown() -> str:
    """docs/element-wise.md."""
    lines = [_INTRODUCTION, "## Operations", ""]
    lines += _table(
        ("operation", "type", "result", "second operand", "BS", "BN", "linked", "evidence"),
        (
            (
                r.op,
                r.dtype,
                r.out or r.dtype,
                r.operand,
                r.bs,
                r.bn,
                "yes" if r.linkable else "no",
                r.evidence,
            )
            for r in ROWS
        ),
    )
    lines += ["## Limits of one program", ""]
    lines += _table(
        ("type", "rows", "channels", "channels are a multiple of"),
        ((f.name, f.max_rows, f.max_channels, f.per_atom) for f in FORMATS.values()),
    )
    lines += [
        "## Table functions",
        "",
        "A table is loaded into a core when another is there; a reset empties it. `by table` functions of fp16 "
        "are one table, the others a table and a multiplication.",
        "",
        "fp16 tables were reported to answer wrongly on a board for an entry of 0, and near input 0 with a negative "
        "output offset; ours have neither. Flat stretches of a table were reported wrong too, and those cannot be "
        "avoided: check fp16 functions on the board before relying on them.",
        "",
    ]
    lines += _table(
        ("function", "reach", "input range", "fp16", "evidence int8", "evidence int16", "evidence fp16"),
        (
            (
                f.name,
                f.reach,
                f.domain,
                f"x times {FP16_GATES[f.name]}" if f.name in FP16_GATES else "by table",
                *(
                    TABLE_EVIDENCE.get((f.name, dtype), Evidence.DERIVED)
                    for dtype in ("int8", "int16", "fp16")
                ),
            )
            for f in FUNCTIONS.values()
        ),
    )
    lines += [
        _FUSED,
        "## Forms that do not work",
        "",
        "None of them can be built; asking for one is an error.",
        "",
    ]
    lines += _table(
        ("form", "consequence", "instead", "evidence"),
        ((form, row.consequence, row.instead, row.evidence) for form, row in DEAD_FORMS.items()),
    )
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
