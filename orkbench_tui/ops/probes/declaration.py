"""What a probe is: a question, how it is answered, and what shows that the answer could have been another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from orkbench_tui.driver.timing.labels import CLOCK, JOB_TIME, checked_label

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu
    from orkbench_tui.ops.files import BoardFiles

__all__ = ["Answer", "Bench", "Control", "Figure", "Probe", "Result", "Verdict"]


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Bench:
    """What a probe works on. ``label`` is ``board`` or ``sim``.

    Times the NPU's driver reports and times of this machine's clock mean different things on a simulated
    board, so each figure takes its label from here. ``files`` are the board's, for probes that watch its
    memory meanwhile.
    """

    npu: Npu
    label: str
    files: BoardFiles | None = None

    @property
    def on_board(self) -> bool:
        return self.label == "board"

    @property
    def npu_time(self) -> str:
        """Label of times the kernel reports."""
        return JOB_TIME[self.label]

    @property
    def clock(self) -> str:
        """Label of times of this machine's clock."""
        return CLOCK[self.label]


@dataclass(frozen=True, slots=True)
class Figure:
    """``label`` is measured, host, predicted or published; ``value`` None where unknown."""

    name: str
    value: float | None
    unit: str
    label: str

    def __post_init__(self) -> None:
        checked_label(self.label)


@dataclass(frozen=True, slots=True)
class Control:
    """Whether the probe can see what it looks for, on a case whose answer is known."""

    ok: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Answer:
    """``columns`` and ``rows`` are a table; ``verdict`` holds only with the control."""

    verdict: Verdict
    why: str
    figures: tuple[Figure, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | float | int | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, as data.

    ``control`` is tried first: where it is not ok, nothing the probe finds counts, and the verdict is
    inconclusive. ``closed`` names hypotheses that were settled before; ``harm`` what it may do to a board.
    """

    name: str
    question: str
    formula: str
    rule: str
    positive: str
    control: Callable[[Bench], Control]
    ask: Callable[[Bench], Answer]
    rows: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    harm: str = ""

    def document(self) -> dict[str, Any]:
        """What stands in a list of probes."""
        return {
            "name": self.name,
            "question": self.question,
            "formula": self.formula,
            "rule": self.rule,
            "positive": self.positive,
            "rows": list(self.rows),
            "closed": list(self.closed),
            "harm": self.harm or None,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A probe's answer with its control taken into account."""

    probe: Probe
    control: Control
    answer: Answer
    warnings: Sequence[str] = field(default_factory=tuple)

    def document(self) -> dict[str, Any]:
        answer = self.answer
        return {
            **self.probe.document(),
            "control": {"ok": self.control.ok, "seen": self.control.seen},
            "verdict": answer.verdict.value,
            "why": answer.why,
            "figures": [
                {"name": f.name, "value": f.value, "unit": f.unit, "label": f.label} for f in answer.figures
            ],
            "columns": list(answer.columns),
            "table": [list(row) for row in answer.rows],
            "warnings": list(self.warnings),
        }
