"""An answer's figures: as the last line after it, and as the JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession, NpuUse
    from orkbench_tui.runner.chat import Answer

__all__ = ["answer_data", "stats_line"]

_REASONS = {
    "length": "ended by --max-tokens",
    "stop": "ended by --stop",
    "context": "the context is full: /reset or a larger --context",
    "interrupted": "interrupted",
}


def stats_line(answer: Answer, use: NpuUse, source: str) -> str:
    """Tokens, speeds (this machine's clock) and NPU jobs of one answer, on one line."""
    reused = f" ({answer.reused_tokens} reused)" if answer.reused_tokens else ""
    parts = [
        f"prompt {answer.prompt_tokens} tok{reused} {_rate(answer.prefill_rate)}",
        f"answer {answer.generated_tokens} tok {_rate(answer.decode_rate)}",
        f"NPU {use.submits} jobs {use.tasks} tasks" + _npu_time(use, source),
        "speeds: host",
    ]
    if answer.stop_reason in _REASONS:
        parts.append(_REASONS[answer.stop_reason])
    return "[" + " | ".join(parts) + "]"


def answer_data(answer: Answer, use: NpuUse, session: ModelSession) -> dict[str, Any]:
    """The ``data`` of ``run.chat`` and ``run.complete``. Rates are host wall clock; null where nothing was timed.

    ``predicted_ms`` is the simulated NPU's time; null elsewhere: a board's times are measured.
    """
    return {
        "text": answer.text,
        "model": session.model,
        "target": session.source,
        "quant": session.quant,
        "prompt_tokens": answer.prompt_tokens,
        "generated_tokens": answer.generated_tokens,
        "load_s": round(session.load_s, 3),
        "prefill_tok_s": _rounded(answer.prefill_rate),
        "decode_tok_s": _rounded(answer.decode_rate),
        "npu": {
            "submits": use.submits,
            "tasks": use.tasks,
            "predicted_ms": round(use.hw_ns / 1e6, 3) if session.source == "sim" else None,
        },
    }


_TIME_FROM = {"sim": "predicted", "board": "measured"}


def _npu_time(use: NpuUse, source: str) -> str:
    return f" {use.hw_ns / 1e6:.1f} ms {_TIME_FROM[source]}" if source in _TIME_FROM else ""


def _rate(rate: float | None) -> str:
    return "- tok/s" if rate is None else f"{rate:.1f} tok/s"


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)
