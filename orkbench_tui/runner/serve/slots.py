"""Several conversations over one loaded model: each keeps its keys and values, and goes on from them.

A prompt is answered in the slot that holds the longest beginning of it. Slots take turns, since there is one
NPU; a slot's engine shares the weights and has a cache of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orkbench_tui.runner.chat import Answer, Engine, GenerationLimits, generate
from orkbench_tui.runner.prompt_cache import common_prefix
from orkbench_tui.runner.sampler import Sampler
from orkbench_tui.runner.tokenizer import Tokenizer

__all__ = ["Slot", "Slots"]


@dataclass(slots=True)
class Slot:
    """An engine, the tokens it holds, and when it was last used (a count of answers)."""

    engine: Engine
    held: list[int] = field(default_factory=list)
    used: int = 0

    def shared(self, ids: Sequence[int]) -> int:
        """How many tokens of ``ids`` need not be computed; one always does, for its logits."""
        held = self.held[: self.engine.position]
        return min(common_prefix(held, ids), max(len(ids) - 1, 0))


class Slots:
    """Up to ``count`` slots; all but the first are made when first needed. For one thread."""

    def __init__(self, engine: Engine, another: Callable[[], Engine], count: int) -> None:
        self._slots = [Slot(engine)]
        self._another = another
        self._count = count
        self._answers = 0

    def __len__(self) -> int:
        return len(self._slots)

    def choose(self, ids: Sequence[int]) -> Slot:
        """The slot to answer ``ids`` in.

        One that goes on with most of what it holds; else an empty or a new one, so that no other
        conversation is pushed out; else the one that was not used for the longest time.
        """
        best = max(self._slots, key=lambda slot: slot.shared(ids))
        if not best.held or 2 * best.shared(ids) >= min(len(best.held), len(ids)):
            return best
        empty = next((slot for slot in self._slots if not slot.held), None)
        if empty is not None:
            return empty
        if len(self._slots) < self._count:
            self._slots.append(Slot(self._another()))
            return self._slots[-1]
        return min(self._slots, key=lambda slot: slot.used)

    def answer(
        self,
        ids: Sequence[int],
        tokenizer: Tokenizer,
        sampler: Sampler,
        limits: GenerationLimits,
        on_text: Callable[[str], None],
        should_stop: Callable[[], bool],
    ) -> Answer:
        """``generate`` in the slot that suits ``ids``; raises what it raises, and the slot forgets then."""
        slot = self.choose(ids)
        self._answers += 1
        slot.used = self._answers
        slot.engine.rewind(slot.shared(ids))
        try:
            answer = generate(
                slot.engine,
                tokenizer,
                ids,
                sampler,
                limits=limits,
                on_text=on_text,
                should_stop=should_stop,
            )
        except BaseException:
            # What the engine holds now is unknown.
            slot.held = []
            slot.engine.rewind(0)
            raise
        slot.held = list(answer.held)
        return answer
