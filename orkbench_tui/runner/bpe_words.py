"""Byte-level BPE: text cut by a pre-tokenizer, merged by rank by the ``tokenizers`` library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orkbench_tui.runner.pretokenizers import Pretokenizer
from orkbench_tui.runner.vocabulary import Vocabulary, damaged

if TYPE_CHECKING:
    import tokenizers

__all__ = ["BYTE_ALPHABET", "BpeWords"]


def _byte_alphabet() -> dict[str, int]:
    """Character → byte of byte-level BPE: printable bytes stand for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


BYTE_ALPHABET = _byte_alphabet()


class BpeWords:
    """``merges`` by rank, two words with a space between each. InvalidFileError where one is not in the vocabulary."""

    space_prefix = False

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[str], pre: Pretokenizer) -> None:
        self._tokens = vocabulary.tokens
        ids = {token: i for i, token in enumerate(vocabulary.tokens)}
        self._core = _core(ids, merges, pre)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._core.encode(text, add_special_tokens=False).ids
        return ids

    def piece(self, token: int) -> bytes:
        # Characters outside the alphabet stand for themselves; files with such tokens exist.
        return b"".join(
            bytes((BYTE_ALPHABET[c],)) if c in BYTE_ALPHABET else c.encode() for c in self._tokens[token]
        )


def _core(ids: dict[str, int], merges: Sequence[str], pre: Pretokenizer) -> tokenizers.Tokenizer:
    from tokenizers import Regex, models, pre_tokenizers
    from tokenizers import Tokenizer as Core

    # A merge is two words with a space between; a space never begins the first.
    words = [merge.partition(" ") for merge in merges]
    if any(not gap for _, gap, _ in words):
        raise damaged("a merge is not two words")
    pairs = [(left, right) for left, _, right in words]
    try:
        core = Core(models.BPE(vocab=ids, merges=pairs, ignore_merges=pre.ignore_merges))
    except Exception as error:
        raise damaged(str(error)) from error
    splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in pre.patterns]
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return core
