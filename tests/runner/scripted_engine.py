"""An engine that says what it is told to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

# What the engine does before a step; may raise or press Ctrl-C.
Hook = Callable[[], None]


class ScriptedEngine:
    """After any prompt it answers with ``script``, one id a step, over and over for each prompt."""

    micro_batch = 256

    def __init__(
        self, vocab_size: int, script: Sequence[int], *, context: int = 256, before_decode: Hook | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.context = context
        self.held: list[int] = []
        self.prefills: list[list[int]] = []
        self.rewinds: list[int] = []
        self._script = list(script)
        self._answered = 0
        self._before_decode = before_decode

    @property
    def position(self) -> int:
        return len(self.held)

    def prefill(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        assert tokens, "a prefill of nothing"
        assert len(self.held) + len(tokens) <= self.context
        self.prefills.append(list(tokens))
        self.held += tokens
        self._answered = 0
        return self._next()

    def prefill_until(
        self, tokens: Sequence[int], should_stop: Callable[[], bool]
    ) -> NDArray[np.float32] | None:
        """In micro-batches of ``micro_batch`` tokens."""
        logits: NDArray[np.float32] | None = None
        for first in range(0, len(tokens), self.micro_batch):
            if first and should_stop():
                return None
            logits = self.prefill(tokens[first : first + self.micro_batch])
        return logits

    def decode(self, token: int) -> NDArray[np.float32]:
        assert len(self.held) < self.context
        if self._before_decode is not None:
            self._before_decode()
        self.held.append(token)
        return self._next()

    def rewind(self, position: int) -> None:
        assert 0 <= position <= len(self.held)
        self.rewinds.append(position)
        del self.held[position:]

    def another(self) -> ScriptedEngine:
        """A second session that says the same."""
        return ScriptedEngine(
            self.vocab_size, self._script, context=self.context, before_decode=self._before_decode
        )

    def _next(self) -> NDArray[np.float32]:
        logits = np.zeros(self.vocab_size, dtype=np.float32)
        logits[self._script[self._answered % len(self._script)]] = 20.0
        self._answered += 1
        return logits
