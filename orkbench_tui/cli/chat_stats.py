"""The rows of ``/stats``: model, context, totals of the conversation, and what its figures mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orkbench_tui.cli.answer_report import COMPUTED_OF, CORE_MS, core_ms
from orkbench_tui.plural import counted

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Answer, Conversation

__all__ = ["stats_rows"]

_TARGETS = {"sim": "sim, the simulated board", "board": "board", "host": "host, no NPU takes part"}


def stats_rows(
    session: ModelSession, conversation: Conversation, answers: Sequence[Answer]
) -> list[tuple[str, str]]:
    """Name and value per row."""
    use = session.npu_use()
    rows = [
        ("model", f"{session.model}, {session.quant}"),
        ("target", _TARGETS.get(session.source, session.source)),
        ("load", f"{session.load_s:.2f} s (host)"),
        ("context", f"{conversation.context_used} of {conversation.context_size} tokens"),
    ]
    if conversation.context_left_over:
        rows.append(
            (
                "reusable",
                f"{conversation.context_left_over} tokens of before, for a question that begins alike",
            )
        )
    if conversation.left_out:
        rows.append(
            ("left out", f"{conversation.left_out} of {len(conversation.messages)} messages, the oldest")
        )
    rows += [
        ("answers", f"{len(answers)}"),
        (
            "prompt",
            f"{sum(a.prompt_tokens for a in answers)} tokens, {sum(a.reused_tokens for a in answers)} of them reused",
        ),
        ("", COMPUTED_OF),
        ("generated", f"{sum(a.generated_tokens for a in answers)} tokens"),
        (
            "speeds",
            f"in {_rate(sum(a.prefilled_tokens for a in answers), sum(a.prefill_s for a in answers))}, "
            f"out {_rate(sum(a.decode_steps for a in answers), sum(a.decode_s for a in answers))} (host)",
        ),
    ]
    if session.source != "host":
        rows += [
            (
                "NPU",
                f"{counted(use.submits, 'job')}, {counted(use.tasks, 'task')}, {core_ms(use, session.source)}",
            ),
            ("", CORE_MS),
        ]
    return rows


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.1f} tok/s" if tokens and seconds > 0 else "- tok/s"
