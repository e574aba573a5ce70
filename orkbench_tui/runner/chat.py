"""Answers and conversations: an engine, a tokenizer and a sampler turned into streamed text.

``generate`` is one answer; ``Conversation`` keeps the messages and what the engine already holds, so
that a turn computes only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.chat_template import ChatTemplate, Message
from orkbench_tui.runner.sampler import Sampler
from orkbench_tui.runner.tokenizer import Detokenizer, Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer", "Conversation", "Engine", "GenerationLimits", "generate", "turn_ids"]

# Tokens handed to the engine at once, one of its chunks: a long prompt can be stopped between two pieces.
PREFILL_PIECE = 256


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
) -> Answer:
    """Answer ``prompt_ids``. The engine must hold a beginning of them, and not all: the rest is computed.

    ``on_text`` gets printable text as it becomes complete; ``should_stop`` is asked before each step.

    Raises:
        UsageError: the prompt does not fit, before anything runs.
        UnhealthyError: the engine gave unusable logits.
    """
    reused = engine.position
    check_prompt(len(prompt_ids), engine.context)
    started = time.perf_counter()
    logits: NDArray[np.float32] | None = None
    for first in range(reused, len(prompt_ids), PREFILL_PIECE):
        if should_stop():
            break
        logits = engine.prefill(prompt_ids[first : first + PREFILL_PIECE])
    prefill_s = time.perf_counter() - started
    prefilled = engine.position - reused
    stream = _AnswerStream(tokenizer, limits.stops, on_text)
    history = list(prompt_ids)
    decode_s, steps = 0.0, 0
    complete = logits is not None and engine.position == len(prompt_ids)
    reason = "" if complete else "interrupted"
    while not reason and logits is not None:
        began = time.perf_counter()
        token = sampler.pick(logits, history)
        decode_s += (time.perf_counter() - began) if steps else 0.0
        if token in tokenizer.end_ids:
            reason = "end"
            break
        history.append(token)
        generated = len(history) - len(prompt_ids)
        stopped = stream.push(token)
        if stopped:
            reason = "stop"
        elif limits.max_tokens is not None and generated >= limits.max_tokens:
            reason = "length"
        elif engine.position >= engine.context:
            reason = "context"
        elif should_stop():
            reason = "interrupted"
        else:
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
    )


def turn_ids(tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Message]) -> list[int]:
    """The ids of a conversation up to where the next answer begins.

    Text in messages never becomes a control token, whatever it spells.

    Raises:
        ChatTemplateError: the template refused.
    """
    shielded = [{"role": turn["role"], "content": tokenizer.shield(turn["content"])} for turn in turns]
    return tokenizer.encode(template.render(shielded), parse_special=True)


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


class Conversation:
    """Messages so far and an engine that remembers as much of them as it can.

    Without a template each question is continued as plain text, on its own.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        sampler: Sampler,
        *,
        system: str | None = None,
        limits: GenerationLimits | None = None,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._template = template
        self._sampler = sampler
        self._limits = limits or GenerationLimits()
        self._system = system
        self._held: list[int] = []
        self._asked = False
        self.messages: list[Message] = []
        self.reset()

    def reset(self) -> None:
        """Start anew; the system text stays. The engine's tokens may still serve as a prefix."""
        self.messages = [{"role": "system", "content": self._system}] if self._system else []
        self._asked = False

    def attach(self, engine: Engine) -> None:
        """Go on with another engine of the same model, which holds nothing yet."""
        self._engine = engine
        self._held = []

    @property
    def held(self) -> tuple[int, ...]:
        """The tokens the engine holds; less than it says where an answer broke off without a trace."""
        return tuple(self._held)

    def hold(self, tokens: Sequence[int]) -> None:
        """The engine holds exactly ``tokens`` now; what of them begins the next prompt is not computed again."""
        self._held = list(tokens)

    @property
    def context_used(self) -> int:
        """Tokens of this conversation in the engine."""
        return self._engine.position if self._asked else 0

    @property
    def context_left_over(self) -> int:
        """Tokens of an earlier conversation the engine still holds; a prompt that begins like them reuses them."""
        return 0 if self._asked else min(len(self._held), self._engine.position)

    @property
    def context_size(self) -> int:
        return self._engine.context

    def prompt_ids(self, question: str) -> list[int]:
        """The ids of the conversation with ``question`` as its next turn."""
        if self._template is None:
            return self._tokenizer.encode(question)
        turns = [*self.messages, {"role": "user", "content": question}]
        return turn_ids(self._tokenizer, self._template, turns)

    def ask(
        self, question: str, on_text: Callable[[str], None], should_stop: Callable[[], bool] = lambda: False
    ) -> Answer:
        """Answer the next turn. When it cannot be answered the conversation stays as it was.

        An answer stopped half way is kept as far as it came; one stopped before its first token takes its
        question back.

        Raises:
            UsageError: the conversation no longer fits the context, before anything runs.
            ChatTemplateError: the template refused.
        """
        ids = self.prompt_ids(question)
        self._require_room(len(ids))
        self._engine.rewind(self._common(ids))
        self._held = ids
        self._asked = True
        try:
            answer = generate(
                self._engine,
                self._tokenizer,
                ids,
                self._sampler,
                limits=self._limits,
                on_text=on_text,
                should_stop=should_stop,
            )
        except BaseException:
            # What the engine holds now is unknown, so nothing of it is reused.
            self._held = []
            raise
        self._held = [*ids, *answer.tokens][: self._engine.position]
        if self._template is not None and (answer.generated_tokens or answer.stop_reason != "interrupted"):
            self.messages += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer.text},
            ]
        return answer

    def _common(self, ids: Sequence[int]) -> int:
        """How many tokens the engine holds already; one is always left to compute, for its logits."""
        limit = min(len(ids) - 1, len(self._held), self._engine.position)
        return next((i for i in range(limit) if ids[i] != self._held[i]), max(limit, 0))

    def _require_room(self, tokens: int) -> None:
        if self.messages and tokens >= self._engine.context:
            raise UsageError(
                f"the conversation would have {tokens} tokens and the context holds {self._engine.context}",
                do="ask something shorter, /reset, or start again with a larger --context; nothing is lost",
            )
        check_prompt(tokens, self._engine.context)
