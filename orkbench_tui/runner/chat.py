"""Conversations: messages so far, and an engine that remembers as much of them as it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.chat_template import ChatTemplate, Message
from orkbench_tui.runner.generation import Answer, Engine, GenerationLimits, check_prompt, generate
from orkbench_tui.runner.prompt_cache import common_prefix
from orkbench_tui.runner.sampler import Sampler
from orkbench_tui.runner.tokenizer import Tokenizer

__all__ = [
    "Answer",
    "Conversation",
    "Engine",
    "GenerationLimits",
    "check_prompt",
    "generate",
    "turn_ids",
    "turn_text",
]


def turn_text(tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Message]) -> str:
    """A conversation up to where the next answer begins, to be encoded with its control tokens.

    Text in messages never becomes one, whatever it spells.

    Raises:
        ChatTemplateError: the template refused.
    """
    shielded = [{"role": turn["role"], "content": tokenizer.shield(turn["content"])} for turn in turns]
    return template.render(shielded)


def turn_ids(tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Message]) -> list[int]:
    """The ids of ``turn_text``."""
    return tokenizer.encode(turn_text(tokenizer, template, turns), parse_special=True)


class Conversation:
    """Messages so far and an engine that remembers as much of them as it can.

    Without a template each question is continued as plain text, on its own. With ``shift`` a conversation
    outgrows the context: its oldest turns are left out of the prompt, and an answer that fills the context
    drops the oldest tokens after the system text. Without it both end with a word.
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
        shift: bool = False,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._template = template
        self._sampler = sampler
        self._limits = limits or GenerationLimits()
        self._system = system
        self._shift = shift
        self._held: list[int] = []
        self._asked = False
        self.messages: list[Message] = []
        self.left_out = 0
        self.reset()

    def reset(self) -> None:
        """Start anew; the system text stays. The engine's tokens may still serve as a prefix."""
        self.messages = [{"role": "system", "content": self._system}] if self._system else []
        self.left_out = 0
        self._asked = False

    def resume(self, messages: Sequence[Message], left_out: int, held: Sequence[int]) -> None:
        """Go on with another conversation, of whose prompt the engine holds ``held``."""
        self.messages = list(messages)
        self._system = next((m["content"] for m in messages[:1] if m["role"] == "system"), None)
        self.left_out = left_out
        self._asked = bool(held)
        self.hold(held)

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
        """The ids of the conversation with ``question`` as its next turn, without the turns left out."""
        return self._prompt_ids(question, self.left_out)

    def _prompt_ids(self, question: str, left_out: int) -> list[int]:
        if self._template is None:
            return self._tokenizer.encode(question)
        first = 1 if self._system else 0
        told = [*self.messages[:first], *self.messages[first + left_out :]]
        return turn_ids(self._tokenizer, self._template, [*told, {"role": "user", "content": question}])

    def _fitting(self, question: str) -> tuple[list[int], int]:
        """The prompt, and how many of the oldest messages it leaves out so that an answer fits.

        Raises:
            UsageError: it does not fit, or not even ``question`` alone.
        """
        left_out, turns = self.left_out, len(self.messages) - (1 if self._system else 0)
        ids = self._prompt_ids(question, left_out)
        while self._shift and len(ids) + self._room_wanted() > self._engine.context and left_out < turns:
            left_out = min(left_out + 2, turns)
            ids = self._prompt_ids(question, left_out)
        self._require_room(len(ids), alone=left_out >= turns)
        return ids, left_out

    def _room_wanted(self) -> int:
        """Tokens to leave for an answer."""
        quarter = self._engine.context // 4
        longest = self._limits.max_tokens
        return max(1, quarter if longest is None else min(longest, quarter))

    def _to_keep(self, ids: Sequence[int]) -> int | None:
        """How many of the first tokens stay when an answer fills the context: what any question begins with."""
        if not self._shift:
            return None
        if self._template is None:
            return 1 if ids[:1] == [self._tokenizer.bos_id] else 0
        system = self.messages[:1] if self._system else []
        bare = turn_ids(self._tokenizer, self._template, [*system, {"role": "user", "content": ""}])
        return common_prefix(ids, bare)

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
        ids, left_out = self._fitting(question)
        keep = self._to_keep(ids)
        self._engine.rewind(self._common(ids))
        self.left_out = left_out
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
                keep=keep,
            )
        except BaseException:
            # What the engine holds now is unknown, so nothing of it is reused.
            self._held = []
            raise
        self._held = list(answer.held)
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

    def _require_room(self, tokens: int, *, alone: bool) -> None:
        if not alone and tokens >= self._engine.context:
            raise UsageError(
                f"the conversation would have {tokens} tokens and the context holds {self._engine.context}",
                do="ask something shorter, /reset, or start again with a larger --context "
                "or --context-limit shift; nothing is lost",
            )
        check_prompt(tokens, self._engine.context)
