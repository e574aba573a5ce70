"""What an engine refuses before it computes anything."""

from __future__ import annotations

from collections.abc import Sequence

from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.native.steps import HEAD_DIM_MAX
from orkbench_tui.runner.models.architecture import Architecture

__all__ = ["checked_context", "require_known_heads", "require_tokens"]


def checked_context(architecture: Architecture, context: int | None) -> int:
    """Tokens of context, the model's own unless given; UsageError where it has not as many."""
    if context is None:
        return architecture.context_length
    if not 1 <= context <= architecture.context_length:
        raise UsageError(
            f"--context {context} is out of range",
            why=f"this model has 1 to {architecture.context_length}",
        )
    return context


def require_known_heads(architecture: Architecture) -> None:
    """RefusedError for heads of a size the kernels do not compute."""
    if architecture.head_dim % 8 or architecture.head_dim > HEAD_DIM_MAX:
        raise RefusedError(
            "this model's attention cannot be computed",
            why=f"its heads have {architecture.head_dim} values, known are multiples of 8 up to {HEAD_DIM_MAX}",
            do="choose another model",
        )


def require_tokens(tokens: Sequence[int], position: int, context: int, vocabulary: int) -> None:
    """UsageError for no tokens, more than fit after ``position``, and unknown ones."""
    if not tokens:
        raise UsageError("there are no tokens to compute", do="give a text that is not empty")
    left = context - position
    if len(tokens) > left:
        raise UsageError(
            f"{len(tokens)} more tokens do not fit the context",
            why=f"{left} of its {context} are free",
            do="shorten the text or raise --context",
        )
    for token in (min(tokens), max(tokens)):
        if not 0 <= token < vocabulary:
            raise UsageError(f"token {token} is not in the vocabulary of {vocabulary}")
