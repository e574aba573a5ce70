"""Text to token ids and back, from the vocabulary a GGUF carries.

Byte-level BPE ("gpt2" models, ``bpe_words.py``) and SentencePiece ("llama" models,
``sentencepiece_words.py``). Cutting out special tokens and turning ids into bytes is done here, because
both must be exact: text a user typed never becomes a control token, and a streamed answer never shows
half a character.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from orkbench_tui.errors import RefusedError
from orkbench_tui.plain_text import streamed
from orkbench_tui.runner.bpe_words import BpeWords
from orkbench_tui.runner.pretokenizers import PRETOKENIZERS
from orkbench_tui.runner.sentencepiece_words import SentencePieceWords
from orkbench_tui.runner.vocabulary import (
    TokenKind,
    Vocabulary,
    Words,
    damaged,
    listed_values,
    read_vocabulary,
)

__all__ = ["Detokenizer", "TokenKind", "Tokenizer"]

# A noncharacter that no text may contain: put inside a special token's spelling, it keeps typed text text.
SHIELD = "\ufdd0"

# Spellings that end an answer in some family of models, beside the ids a file names.
END_SPELLINGS = frozenset(
    {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "< EOT >",
        "<end_of_utterance>",
        "<｜end▁of▁sentence｜>",
        "</s>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<reponame>",
    }
)
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


class Tokenizer:
    """The vocabulary of one model.

    Attributes:
        vocab_size: number of ids.
        bos_id, eos_id: ids the file names, or None.
        add_bos: whether a text begins with ``bos_id`` (what the file says, not whether there is an id).
        end_ids: ids that end an answer.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        words: Words,
        *,
        bos_id: int | None = None,
        eos_id: int | None = None,
        end_ids: Iterable[int] = (),
        add_bos: bool = False,
        add_eos: bool = False,
    ) -> None:
        tokens, kinds = vocabulary.tokens, vocabulary.kinds
        self._tokens = tokens
        self._longest = 0
        self._kinds = kinds
        self._words = words
        self.vocab_size = len(tokens)
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.add_bos = add_bos and bos_id is not None
        self.add_eos = add_eos and eos_id is not None
        self.end_ids = frozenset(end_ids) | {i for i, token in enumerate(tokens) if token in END_SPELLINGS}
        control = vocabulary.spellings(TokenKind.CONTROL)
        user = vocabulary.spellings(TokenKind.USER_DEFINED)
        # A spelling of one character cannot be broken up.
        self._breakable = _alternatives(spelling for spelling in control if len(spelling) > 1)
        self._user = _alternatives(user)
        self._both = _alternatives({**control, **user})
        self._special = {**control, **user}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer a GGUF's metadata describes.

        Raises:
            RefusedError: a kind of tokenizer or pre-tokenizer we do not have, by name.
            InvalidFileError: missing or contradicting entries.
        """
        model = str(metadata.get("tokenizer.ggml.model", "none"))
        if model not in _MODELS:
            raise RefusedError(
                f"tokenizer {model!r} is not supported",
                why="known are 'gpt2' (byte-level BPE) and 'llama' (SentencePiece)",
                do="choose a model of the families in docs/models.md",
            )
        vocabulary = read_vocabulary(metadata)
        words, adds_bos = _MODELS[model](metadata, vocabulary)
        ends = [_id(metadata, key, len(vocabulary.tokens)) for key in _END_KEYS]
        return cls(
            vocabulary,
            words,
            bos_id=_id(metadata, "bos_token_id", len(vocabulary.tokens)),
            eos_id=ends[0],
            end_ids=[end for end in ends if end is not None],
            add_bos=_flag(metadata, "add_bos_token", adds_bos),
            add_eos=_flag(metadata, "add_eos_token", False),
        )

    def encode(
        self,
        text: str,
        *,
        parse_special: bool = False,
        add_bos: bool | None = None,
        add_eos: bool = False,
    ) -> list[int]:
        """Token ids of ``text``.

        Args:
            parse_special: whether control tokens spelled in the text become tokens. User-defined ones always do.
            add_bos: None obeys the vocabulary; True puts ``bos_id`` first unless it is there already.
            add_eos: whether ``eos_id`` follows where the vocabulary wants it; a prompt to be answered goes without.
        """
        ids: list[int] = []
        position = 0
        special = self._both if parse_special else self._user
        for match in special.finditer(text) if special else ():
            ids += self._plain(text[position : match.start()])
            ids.append(self._special[match[0]])
            position = match.end()
        ids += self._plain(text[position:])
        if (
            (self.add_bos if add_bos is None else add_bos)
            and self.bos_id is not None
            and ids[:1] != [self.bos_id]
        ):
            ids.insert(0, self.bos_id)
        if add_eos and self.add_eos and self.eos_id is not None and ids[-1:] != [self.eos_id]:
            ids.append(self.eos_id)
        return ids

    def least_tokens(self, text: str) -> int:
        """No more tokens than ``encode`` gives, told at once: as if all were the longest there is."""
        if self._longest == 0:
            self._longest = max(len(token.encode("utf-8", "replace")) for token in self._tokens)
        return -(-len(text.replace(SHIELD, "").encode("utf-8")) // max(self._longest, 1))

    def shield(self, text: str) -> str:
        """``text`` such that ``encode(parse_special=True)`` sees no control token in it."""
        text = text.replace(SHIELD, "")
        if self._breakable is None:
            return text
        # A spelling can overlap another, so look again until none is left.
        while self._breakable.search(text):
            text = self._breakable.sub(lambda match: match[0][0] + SHIELD + match[0][1:], text)
        return text

    def spelling(self, token: int | None) -> str:
        """The token's own text as the file spells it; "" for None."""
        return "" if token is None else self._tokens[token]

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for in an answer; none for control tokens."""
        kind = self._kinds[token]
        if kind in (TokenKind.NORMAL, TokenKind.BYTE):
            return self._words.piece(token)
        return self._tokens[token].encode() if kind == TokenKind.USER_DEFINED else b""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``, with incomplete characters replaced and control characters dropped."""
        stream = Detokenizer(self)
        return "".join(stream.push(token) for token in ids) + stream.flush()

    def text_bytes(self, ids: Iterable[int]) -> bytes:
        """The exact text that ``encode`` made ``ids`` of, without the spaces it puts before words."""
        parts: list[bytes] = []
        fresh = True
        for token in ids:
            piece = self.piece(token)
            if fresh and self._words.space_prefix and self._kinds[token] == TokenKind.NORMAL:
                piece = piece.removeprefix(b" ")
            parts.append(piece)
            fresh = self._kinds[token] in (TokenKind.CONTROL, TokenKind.USER_DEFINED)
        return b"".join(parts)

    def _plain(self, text: str) -> list[int]:
        text = text.replace(SHIELD, "")
        return self._words.encode(text) if text else []


class Detokenizer:
    """Token ids in, printable text out, as soon as whole characters are there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that became complete with ``token``; may be empty."""
        return streamed(self._decoder.decode(self._tokenizer.piece(token)))

    def flush(self) -> str:
        """What was held back; an incomplete character shows as U+FFFD."""
        return streamed(self._decoder.decode(b"", final=True))


def _alternatives(spellings: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for any of the spellings, longest first, or None for no spelling.

    Grouped by their first character, so that a place in the text is ruled out by one look.
    """
    groups: dict[str, list[str]] = {}
    for spelling in sorted(set(spellings), key=len, reverse=True):
        groups.setdefault(spelling[0], []).append(re.escape(spelling[1:]))
    parts = [f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items()]
    return re.compile("|".join(parts)) if parts else None


def _bpe(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[Words, bool]:
    name = str(metadata.get("tokenizer.ggml.pre", "(none)"))
    pre = PRETOKENIZERS.get(name)
    if pre is None:
        raise RefusedError(
            f"pre-tokenizer {name!r} is not known",
            why=f"known: {', '.join(PRETOKENIZERS)}; a guess would give wrong tokens",
            do="choose another model",
        )
    return BpeWords(vocabulary, listed_values(metadata, "merges", str), pre), pre.add_bos


def _sentencepiece(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[Words, bool]:
    scores = listed_values(metadata, "scores", float)
    if not all(map(math.isfinite, scores)):
        raise damaged("tokenizer.ggml.scores holds a value that is not finite")
    return SentencePieceWords(
        vocabulary, scores, space_prefix=_flag(metadata, "add_space_prefix", True)
    ), True


# Each gives the words and whether a text begins with BOS where the file does not say.
_MODELS = {"gpt2": _bpe, "llama": _sentencepiece}


def _id(metadata: Mapping[str, Any], key: str, vocab_size: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocab_size:
        raise damaged(f"{key} is {value}, the vocabulary has {vocab_size} tokens")
    return value


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{key}", default)
    if not isinstance(value, int):
        raise damaged(f"{key} is {value!r}, expected true or false")
    return bool(value)
