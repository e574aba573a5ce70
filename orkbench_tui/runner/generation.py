"""One answer: an engine, a tokenizer and a sampler turned into streamed text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.sampler import Sampler
from orkbench_tui.runner.tokenizer import Detokenizer, Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer", "Engine", "GenerationLimits", "check_prompt", "generate"]


class Engine(Protocol):
    """What a model must do. ``position`` is the number of tokens it holds."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def context(self) -> int: ...

    @property
    def position(self) -> int: ...

    def prefill(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append ``tokens``; logits float32 [vocab_size] after the last."""

    def prefill_until(
        self, tokens: Sequence[int], should_stop: Callable[[], bool]
    ) -> NDArray[np.float32] | None:
        """``prefill`` that asks between micro-batches whether to stop; None when it did.

        ``position`` tells how far it came.
        """

    def decode(self, token: int) -> NDArray[np.float32]:
        """Append one token; logits float32 [vocab_size]."""

    def rewind(self, position: int) -> None:
        """Forget everything from ``position`` on."""


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """When to end an answer: after ``max_tokens`` (None: as many as fit), or at any of the ``stops``."""

    max_tokens: int | None = None
    stops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"--max-tokens {self.max_tokens} is out of range", why="allowed: 1 and more")
        if any(not stop for stop in self.stops):
            raise UsageError("--stop needs a text that is not empty")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Times are this machine's wall clock, in seconds, without the time the listener took.

    ``stop_reason``: ``end`` (the model ended it), ``length``, ``stop`` (a stop text), ``context`` (no room),
    ``interrupted``. ``prefilled_tokens`` were computed in ``prefill_s``: all that were not reused, fewer when the
    prompt was interrupted. ``decode_steps`` is what ``decode_s`` covers; the first token comes from the prefill.
    ``held`` is what the engine holds at the end; ``shifts`` counts how often the oldest of it was dropped.
    """

    text: str
    prompt_tokens: int
    reused_tokens: int
    prefilled_tokens: int
    generated_tokens: int
    prefill_s: float
    decode_s: float
    decode_steps: int
    stop_reason: str
    tokens: tuple[int, ...] = field(repr=False, default=())
    held: tuple[int, ...] = field(repr=False, default=())
    shifts: int = 0

    @property
    def prefill_rate(self) -> float | None:
        """Computed prompt tokens per second, None when nothing was computed."""
        computed = self.prefilled_tokens
        return computed / self.prefill_s if computed > 0 and self.prefill_s > 0 else None

    @property
    def decode_rate(self) -> float | None:
        """Tokens per second after the first, None when there was no second."""
        return self.decode_steps / self.decode_s if self.decode_steps and self.decode_s > 0 else None


def check_prompt(tokens: int, context: int) -> None:
    """Raise UsageError unless the prompt and one token of answer fit."""
    if tokens < 1:
        raise UsageError("the prompt is empty", do="give some text")
    if tokens >= context:
        raise UsageError(
            f"the prompt has {tokens} tokens and the context holds {context}, one of them for the answer",
            do="shorten it or raise --context",
        )


def generate(
    engine: Engine,
    tokenizer: Tokenizer,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    *,
    limits: GenerationLimits,
    on_text: Callable[[str], None],
    should_stop: Callable[[], bool] = lambda: False,
    keep: int | None = None,
) -> Answer:
    """Answer ``prompt_ids``. The engine must hold a beginning of them, and not all: the rest is computed.

    ``on_text`` gets printable text as it becomes complete; ``should_stop`` is asked before each step.
    ``keep`` None ends the answer where the context is full. Otherwise room is made: the first ``keep`` tokens
    stay and the newer half of the others, computed anew, so that what follows is exactly what follows them;
    without a limit such an answer ends after four contexts.

    Raises:
        UsageError: the prompt does not fit, before anything runs.
        UnhealthyError: the engine gave unusable logits.
    """
    reused = engine.position
    check_prompt(len(prompt_ids), engine.context)
    longest = limits.max_tokens
    if longest is None and keep is not None:
        longest = 4 * engine.context
    held = list(prompt_ids)
    started = time.perf_counter()
    logits = _computed(engine, held, should_stop)
    prefill_s = time.perf_counter() - started
    prefilled = engine.position - reused
    stream = _AnswerStream(tokenizer, limits.stops, on_text)
    history = list(prompt_ids)
    decode_s, steps, shifts = 0.0, 0, 0
    reason = ""
    while not reason:
        if logits is None:
            reason = "interrupted"
            break
        began = time.perf_counter()
        token = sampler.pick(logits, history)
        decode_s += (time.perf_counter() - began) if steps else 0.0
        if token in tokenizer.end_ids:
            reason = "end"
            break
        history.append(token)
        full = engine.position >= engine.context
        if stream.push(token):
            reason = "stop"
        elif longest is not None and len(history) - len(prompt_ids) >= longest:
            reason = "length"
        elif full and keep is None:
            reason = "context"
        elif should_stop():
            reason = "interrupted"
        elif full and keep is not None:
            first, newer = _with_room(held, keep)
            held = [*held[:first], *newer, token]
            engine.rewind(first)
            logits = _computed(engine, held, should_stop)
            shifts += 1
        else:
            held.append(token)
            began = time.perf_counter()
            logits = engine.decode(token)
            decode_s += time.perf_counter() - began
            steps += 1
    stream.finish()
    answered = tuple(history[len(prompt_ids) :])
    return Answer(
        stream.text,
        len(prompt_ids),
        reused,
        prefilled,
        len(answered),
        prefill_s,
        decode_s,
        steps,
        reason,
        tokens=answered,
        held=tuple(held[: engine.position]),
        shifts=shifts,
    )


def _computed(
    engine: Engine, held: Sequence[int], should_stop: Callable[[], bool]
) -> NDArray[np.float32] | None:
    """Logits after ``held``, of which the engine has a beginning; None when stopped on the way."""
    return None if should_stop() else engine.prefill_until(held[engine.position :], should_stop)


def _with_room(held: Sequence[int], keep: int) -> tuple[int, list[int]]:
    """How many of the first tokens stay, ``keep`` but at most half of all, and the newer half of the others."""
    first = min(keep, len(held) // 2)
    newer = (len(held) - first) // 2
    return first, list(held[len(held) - newer :])


class _AnswerStream:
    """Tokens to text, holding back what may be the beginning of a stop text."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], on_text: Callable[[str], None]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = stops
        self._on_text = on_text
        self._held = ""
        self._stopped = False
        self.text = ""

    def push(self, token: int) -> bool:
        """Take a token; True when a stop text is complete."""
        self._take(self._detokenizer.push(token))
        return self._stopped

    def finish(self) -> None:
        """Give out what is still held back, unless a stop text ended the answer."""
        if not self._stopped:
            self._take(self._detokenizer.flush())
        if not self._stopped:
            self._give(self._held)
            self._held = ""

    def _take(self, text: str) -> None:
        self._held += text
        found = [place for place in (self._held.find(stop) for stop in self._stops) if place >= 0]
        if found:
            self._stopped = True
            self._give(self._held[: min(found)])
            self._held = ""
            return
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        self._give(self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]

    def _give(self, text: str) -> None:
        if text:
            self.text += text
            self._on_text(text)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of ``text`` that begins ``stop``."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
