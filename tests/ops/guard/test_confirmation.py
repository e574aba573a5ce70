"""What confirms which class of operation, and what a plan prints."""

from __future__ import annotations

import dataclasses

import pytest

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.guard.confirmation import require
from orkbench_tui.ops.guard.declaration import Check, Plan, Risk, Step
from orkbench_tui.ops.guard.wording import plan_document, plan_lines
from orkbench_tui.ops.operations.registry import OPERATIONS


def _plan(risk: Risk) -> Plan:
    operation = dataclasses.replace(OPERATIONS["reset"], risk=risk)
    return Plan(
        operation,
        "rock-5b",
        facts=(("kernel", "6.1"),),
        checks=(Check("warn", "warm", "62 C"),),
        steps=(Step("write", "/sys/x", "a", "b"), Step("sync", "disks", None, "written")),
        phrase="6.1.115",
    )


@pytest.mark.parametrize(
    ("risk", "answer"),
    [
        (Risk.REVERSIBLE, "y"),
        (Risk.REVERSIBLE, "yes"),
        (Risk.INTERRUPTS, "rock-5b"),
        (Risk.UNREACHABLE, "rock-5b 6.1.115"),
    ],
)
def test_the_right_words_confirm(risk: Risk, answer: str) -> None:
    asked: list[str] = []
    require(_plan(risk), yes=False, confirm="", ask=lambda text: asked.append(text) or answer)  # type: ignore[func-returns-value]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("risk", "answer"),
    [
        (Risk.REVERSIBLE, ""),
        (Risk.REVERSIBLE, "n"),
        (Risk.INTERRUPTS, ""),
        (Risk.INTERRUPTS, "y"),
        (Risk.INTERRUPTS, "rock-5b "),
        (Risk.UNREACHABLE, "rock-5b"),
    ],
)
def test_anything_else_is_a_no(risk: Risk, answer: str) -> None:
    with pytest.raises(RefusedError, match="was not confirmed"):
        require(_plan(risk), yes=False, confirm="", ask=lambda text: answer)


@pytest.mark.parametrize(
    ("risk", "flag"),
    [
        (Risk.REVERSIBLE, "--yes"),
        (Risk.INTERRUPTS, "--confirm rock-5b"),
        (Risk.UNREACHABLE, "--confirm 'rock-5b 6.1.115'"),
    ],
)
def test_without_a_terminal_the_flag_is_named(risk: Risk, flag: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require(_plan(risk), yes=risk is not Risk.REVERSIBLE, confirm="", ask=None)
    assert caught.value.do == f"add {flag}"


def test_flags_confirm_their_own_class_only() -> None:
    require(_plan(Risk.REVERSIBLE), yes=True, confirm="", ask=None)
    require(_plan(Risk.INTERRUPTS), yes=False, confirm="rock-5b", ask=None)
    with pytest.raises(RefusedError, match="not this board"):
        require(_plan(Risk.INTERRUPTS), yes=False, confirm="pi5", ask=None)
    with pytest.raises(RefusedError):
        require(_plan(Risk.UNREACHABLE), yes=True, confirm="rock-5b", ask=None)


def test_a_plan_says_effect_undo_and_what_stays() -> None:
    text = "\n".join(plan_lines(_plan(Risk.INTERRUPTS)))
    assert "1. /sys/x: a -> b; undo: write a back" in text
    assert "2. write all dirty pages to the disks" in text and "warn warm: 62 C" in text
    assert "cannot be undone: jobs of other programs" in text
    document = plan_document(_plan(Risk.INTERRUPTS))
    assert document["confirm"] == "rock-5b" and document["steps"][1]["undo"] is None
