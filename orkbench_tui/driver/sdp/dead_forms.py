"""Forms that were tried on boards and do not work, and what to use instead. None of them can be built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NoReturn

from orkbench_tui.errors import RefusedError

__all__ = ["DEAD_FORMS", "DeadForm", "Form", "refuse_form"]


class Form(StrEnum):
    """The forms, by name."""

    FUSED_MULTIPLY = "an int8 matmul with a fused element-wise multiplication"
    FUSED_FP16_TABLE = "an fp16 matmul with a fused table"
    FUSED_FP16_OUTPUT = "an int8 matmul with a fused table and fp16 results"
    PER_CHANNEL_INT16 = "a per-channel multiplication of int16 with two inputs"


@dataclass(frozen=True, slots=True)
class DeadForm:
    """What happened on a board, and the way out."""

    consequence: str
    evidence: str
    instead: str


_UPSTREAM = "oRKLLM/ork-driver, dead forms"

DEAD_FORMS: Mapping[Form, DeadForm] = MappingProxyType(
    {
        Form.FUSED_MULTIPLY: DeadForm(
            "no working program was found", _UPSTREAM, "multiply in a submit of its own (sdp.mul)"
        ),
        Form.FUSED_FP16_TABLE: DeadForm(
            "no working program was found", _UPSTREAM, "apply the table in a submit of its own (sdp.silu)"
        ),
        Form.FUSED_FP16_OUTPUT: DeadForm(
            "no working program was found", _UPSTREAM, "take int8 results and scale them on the host"
        ),
        Form.PER_CHANNEL_INT16: DeadForm(
            "the job hung", "oRKLLM/ork-driver, transition survey", "repeat the operand per row (sdp.mul)"
        ),
    }
)


def refuse_form(form: Form, *, seen: str) -> NoReturn:
    """Refuse a dead form before anything is touched.

    Raises:
        RefusedError: always; names the form, what was asked for, the consequence and the evidence.
    """
    row = DEAD_FORMS[form]
    raise RefusedError(str(form), why=f"{seen}; {row.consequence} [{row.evidence}]", do=row.instead)
