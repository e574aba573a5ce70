"""An answer's figures: as the last line after it, and as the JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orkbench_tui.driver.timing.labels import JOB_TIME

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession, NpuUse
    from orkbench_tui.runner.chat import Answer

__all__ = ["COMPUTED_OF", "CORE_MS", "answer_data", "core_ms", "end_note", "left_out_note", "stats_line"]

STATS_COLUMNS = 80
COMPUTED_OF = "in 23/182 tok: 23 of 182 prompt tokens were computed, the rest was reused from before"
CORE_MS = "core-ms: the times of all NPU cores added up, without the cost of submitting jobs"

_ENDS = {
    "length": "[ended by --max-tokens]",
    "stop": "[ended by --stop]",
    "context": "[the context is full: start anew (/reset in a chat), raise --context, or --context-limit shift]",
    "interrupted": "[interrupted]",
}


def end_note(answer: Answer) -> str:
    """Why the answer ended where it did; "" where the model ended it."""
    return _ENDS.get(answer.stop_reason, "")


def left_out_note(answer: Answer, messages: int) -> str:
    """What ``context_limit = "shift"`` took from the model's sight in this turn; "" for nothing."""
    parts = []
    if messages > 0:
        parts.append(f"the oldest {messages} messages are left out from now on")
    if answer.shifts:
        parts.append("the answer outgrew the context and went on without its oldest part")
    return f"[{'; '.join(parts)}]" if parts else ""


def stats_line(answer: Answer, use: NpuUse, source: str) -> str:
    """Tokens, speeds (this machine's clock) and NPU time of one answer, on one line of at most 80 characters.

    ``in 23/182 tok``: of 182 tokens of prompt 23 were computed, and the speed is theirs.
    """
    texts = [_line(answer, use, source, *units) for units in ((" tok", " tok"), (" tok", ""), ("", ""))]
    return next((text for text in texts if len(text) <= STATS_COLUMNS), texts[-1][:STATS_COLUMNS])


def _line(answer: Answer, use: NpuUse, source: str, unit_in: str, unit_out: str) -> str:
    # What was computed, of what the prompt has: the rest was reused, or left out by an interrupt.
    computed, whole = answer.prefilled_tokens, answer.prompt_tokens
    prompt = f"{whole}" if computed == whole else f"{computed}/{whole}"
    text = f"host: in {prompt}{unit_in} {_rate(answer.prefill_rate)}"
    if answer.generated_tokens or answer.stop_reason != "interrupted":
        text += f", out {answer.generated_tokens}{unit_out} {_rate(answer.decode_rate)}"
    if source in JOB_TIME:
        text += f" | {source} NPU {core_ms(use, source)}"
    return f"[{text}]"


def core_ms(use: NpuUse, source: str) -> str:
    """NPU time with the word for where it is from; ``source`` is ``sim`` or ``board``."""
    if use.core_ns is None:
        return "time not reported"
    return f"{_short(use.core_ns / 1e6)} core-ms {JOB_TIME.get(source, '')}".rstrip()


def answer_data(answer: Answer, use: NpuUse, session: ModelSession) -> dict[str, Any]:
    """The ``data`` of ``run.chat`` and ``run.complete``. Rates are host wall clock; null where nothing was timed.

    ``residence`` is the loading of weights into the NPU, before any of the rates was timed; null without an NPU.
    ``predicted_ms`` is the simulated NPU's time, all cores added up; null elsewhere, since a board's times are
    measured, and where the driver reports none.
    """
    return {
        "text": answer.text,
        "stop_reason": answer.stop_reason,
        "model": session.model,
        "target": session.source,
        "quant": session.quant,
        "prompt_tokens": answer.prompt_tokens,
        "generated_tokens": answer.generated_tokens,
        "load_s": round(session.load_s, 3),
        "residence": None if session.residence is None else dict(session.residence),
        "prefill_tok_s": _rounded(answer.prefill_rate),
        "decode_tok_s": _rounded(answer.decode_rate),
        "npu": {
            "submits": use.submits,
            "tasks": use.tasks,
            "predicted_ms": _milliseconds(use.core_ns) if session.source == "sim" else None,
        },
    }


def _milliseconds(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)


def _rate(rate: float | None) -> str:
    return "-/s" if rate is None else f"{_short(rate)}/s"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)
