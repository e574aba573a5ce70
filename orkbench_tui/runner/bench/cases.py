"""What is measured, in llama-bench's terms: every combination of the values given, one case each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from orkbench_tui.errors import UsageError

__all__ = [
    "MAX_TOKENS",
    "Case",
    "cases",
    "cases_of",
    "whole_numbers",
    "whole_pairs",
]

MAX_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """``prompt`` tokens read and ``generate`` tokens made, in batches of ``batch`` tokens.

    A batch goes through the layers in pieces of ``micro_batch`` rows at most. ``threads`` 0 takes the big cores.
    """

    prompt: int
    generate: int
    batch: int
    micro_batch: int
    threads: int

    @property
    def test(self) -> str:
        """``pp512``, ``tg128`` or ``pp512+tg128``."""
        parts = [f"pp{self.prompt}"] if self.prompt else []
        return "+".join([*parts, f"tg{self.generate}"] if self.generate else parts)

    @property
    def tokens(self) -> int:
        return self.prompt + self.generate

    @property
    def piece(self) -> int:
        """Tokens handed to the engine at once."""
        return min(self.batch, self.micro_batch)


def whole_numbers(text: str, flag: str, *, low: int = 0) -> tuple[int, ...]:
    """``512,1024`` as numbers.

    Raises:
        UsageError: anything else, or a number below ``low`` or above ``MAX_TOKENS``.
    """
    words = text.split(",")
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{flag} {shown!r}", why="expected whole numbers with commas between them")
    # int() refuses thousands of digits with an error of its own.
    if any(len(word) > 9 or not low <= int(word) <= MAX_TOKENS for word in words):
        raise UsageError(f"{flag} {shown!r}", why=f"allowed: {low} to {MAX_TOKENS}")
    return tuple(int(word) for word in words)


def whole_pairs(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Each ``512,128`` as (prompt, generate). UsageError for anything else."""
    pairs = []
    for text in texts:
        numbers = whole_numbers(text, "-pg", low=1)
        if len(numbers) != 2:
            raise UsageError(f"-pg {text!r}", why="expected two numbers: prompt,generate")
        pairs.append((numbers[0], numbers[1]))
    return tuple(pairs)


def cases(
    prompts: Sequence[int],
    generates: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    *,
    threads: Sequence[int],
    batches: Sequence[int],
    micro_batches: Sequence[int],
) -> tuple[Case, ...]:
    """Every combination; a prompt or generation of 0 tokens is none.

    Raises:
        UsageError: there is nothing to measure.
    """
    sizes = [(prompt, 0) for prompt in prompts if prompt]
    sizes += [(0, generate) for generate in generates if generate]
    sizes += pairs
    if not sizes:
        raise UsageError("nothing to measure", do="give -p, -n or -pg a number of tokens")
    return tuple(
        Case(prompt, generate, batch, micro, count)
        for count, batch, micro, (prompt, generate) in product(threads, batches, micro_batches, sizes)
    )


def cases_of(
    prompt: Sequence[str] | None,
    generate: Sequence[str] | None,
    pairs: Sequence[str] | None,
    threads: Sequence[str] | None,
    batch: Sequence[str] | None,
    micro_batch: Sequence[str] | None,
    *,
    default: int,
) -> tuple[Case, ...]:
    """The cases of llama-bench's flags, with its defaults where none of -p, -n and -pg is given.

    Raises:
        UsageError: a value that is no number or out of range.
    """
    # Not at the top: parsing words needs no numpy.
    from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK

    plain = not (prompt or generate or pairs)
    counts = _numbers(threads, "-t") if threads else (default,)
    if any(count > 256 for count in counts):
        raise UsageError("-t", why="allowed: 0 to 256")
    micro = _numbers(micro_batch, "-ub", low=1) if micro_batch else (ROWS_PER_CHUNK,)
    if any(value > ROWS_PER_CHUNK for value in micro):
        raise UsageError(f"-ub {max(micro)}", why=f"allowed: 1 to {ROWS_PER_CHUNK}")
    return cases(
        _numbers(prompt, "-p") if prompt else (512,) if plain else (),
        _numbers(generate, "-n") if generate else (128,) if plain else (),
        whole_pairs(pairs or ()),
        threads=counts,
        batches=_numbers(batch, "-b", low=1) if batch else (2048,),
        micro_batches=micro,
    )


def _numbers(texts: Sequence[str], flag: str, *, low: int = 0) -> tuple[int, ...]:
    return tuple(number for text in texts for number in whole_numbers(text, flag, low=low))
