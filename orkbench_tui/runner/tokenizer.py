"""Text to token ids and back, from the vocabulary a GGUF carries.

Byte-level BPE ("gpt2" models) with the pre-tokenizers of ``pretokenizers.py``. Merging is done by the
``tokenizers`` library; cutting out special tokens and turning ids into bytes is done here, because both
must be exact: text a user typed never becomes a control token, and a streamed answer never shows half
a character.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.plain_text import streamed
from orkbench_tui.runner.pretokenizers import PRETOKENIZERS, Pretokenizer

if TYPE_CHECKING:
    import tokenizers

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


class TokenKind(IntEnum):
    """``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _byte_alphabet() -> dict[str, int]:
    """Character → byte of byte-level BPE: printable bytes stand for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


_BYTES = _byte_alphabet()


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
        tokens: Sequence[str],
        merges: Sequence[str],
        kinds: Sequence[int],
        pre: Pretokenizer,
        *,
        bos_id: int | None = None,
        eos_id: int | None = None,
        end_ids: Iterable[int] = (),
        add_bos: bool | None = None,
    ) -> None:
        self._tokens = tokens
        self._kinds = kinds
        self.vocab_size = len(tokens)
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.add_bos = (pre.add_bos if add_bos is None else add_bos) and bos_id is not None
        self.end_ids = frozenset(end_ids) | {i for i, token in enumerate(tokens) if token in END_SPELLINGS}
        self._ids = {token: i for i, token in enumerate(tokens)}
        control = [tokens[i] for i, kind in enumerate(kinds) if kind == TokenKind.CONTROL and tokens[i]]
        user = [tokens[i] for i, kind in enumerate(kinds) if kind == TokenKind.USER_DEFINED and tokens[i]]
        # A spelling of one character cannot be broken up.
        self._breakable = _alternatives(spelling for spelling in control if len(spelling) > 1)
        self._user = _alternatives(user)
        self._both = _alternatives(control + user)
        self._core = _bpe(self._ids, merges, pre)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer a GGUF's metadata describes.

        Raises:
            RefusedError: a kind of tokenizer or pre-tokenizer we do not have, by name.
            InvalidFileError: missing or contradicting entries.
        """
        model = str(metadata.get("tokenizer.ggml.model", "none"))
        if model != "gpt2":
            raise RefusedError(
                f"tokenizer {model!r} is not supported",
                why="byte-level BPE ('gpt2') is" + (", SentencePiece is not yet" if model == "llama" else ""),
                do="choose a model of the SmolLM, Qwen 2 or Llama 3 families",
            )
        name = str(metadata.get("tokenizer.ggml.pre", "(none)"))
        pre = PRETOKENIZERS.get(name)
        if pre is None:
            raise RefusedError(
                f"pre-tokenizer {name!r} is not known",
                why=f"known: {', '.join(PRETOKENIZERS)}; a guess would give wrong tokens",
                do="choose another model",
            )
        tokens, merges = _strings(metadata, "tokens"), _strings(metadata, "merges")
        kinds_entry = metadata.get("tokenizer.ggml.token_type")
        kinds = (
            [TokenKind.NORMAL] * len(tokens) if kinds_entry is None else [int(kind) for kind in kinds_entry]
        )
        if len(kinds) != len(tokens):
            raise _damaged(f"{len(tokens)} tokens but {len(kinds)} token types")
        ends = [_id(metadata, key, len(tokens)) for key in _END_KEYS]
        add_bos = metadata.get("tokenizer.ggml.add_bos_token")
        return cls(
            tokens,
            merges,
            kinds,
            pre,
            bos_id=_id(metadata, "bos_token_id", len(tokens)),
            eos_id=ends[0],
            end_ids=[end for end in ends if end is not None],
            add_bos=None if add_bos is None else bool(add_bos),
        )

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool | None = None) -> list[int]:
        """Token ids of ``text``.

        Args:
            parse_special: whether control tokens spelled in the text become tokens. User-defined ones always do.
            add_bos: None obeys the vocabulary; True puts ``bos_id`` first unless it is there already.
        """
        ids: list[int] = []
        position = 0
        special = self._both if parse_special else self._user
        for match in special.finditer(text) if special else ():
            ids += self._plain(text[position : match.start()])
            ids.append(self._ids[match[0]])
            position = match.end()
        ids += self._plain(text[position:])
        if (
            (self.add_bos if add_bos is None else add_bos)
            and self.bos_id is not None
            and ids[:1] != [self.bos_id]
        ):
            ids.insert(0, self.bos_id)
        return ids

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
        text, kind = self._tokens[token], self._kinds[token]
        if kind == TokenKind.NORMAL:
            # Characters outside the alphabet stand for themselves; files with such tokens exist.
            return b"".join(bytes((_BYTES[c],)) if c in _BYTES else c.encode() for c in text)
        return text.encode() if kind == TokenKind.USER_DEFINED else b""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``, with incomplete characters replaced and control characters dropped."""
        stream = Detokenizer(self)
        return "".join(stream.push(token) for token in ids) + stream.flush()

    def _plain(self, text: str) -> list[int]:
        text = text.replace(SHIELD, "")
        if not text:
            return []
        ids: list[int] = self._core.encode(text, add_special_tokens=False).ids
        return ids


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
    """A pattern for any of the spellings, longest first, or None for no spelling."""
    ordered = sorted(set(spellings), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _bpe(ids: dict[str, int], merges: Sequence[str], pre: Pretokenizer) -> tokenizers.Tokenizer:
    from tokenizers import Regex, models, pre_tokenizers
    from tokenizers import Tokenizer as Core

    # A merge is two words with a space between; a space never begins the first.
    words = [merge.partition(" ") for merge in merges]
    if any(not gap for _, gap, _ in words):
        raise _damaged("a merge is not two words")
    pairs = [(left, right) for left, _, right in words]
    try:
        core = Core(models.BPE(vocab=ids, merges=pairs, ignore_merges=pre.ignore_merges))
    except Exception as error:
        raise _damaged(str(error)) from error
    splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in pre.patterns]
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return core


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list) or not value:
        raise _damaged(f"tokenizer.ggml.{key} is missing or empty")
    return value


def _id(metadata: Mapping[str, Any], key: str, vocab_size: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not 0 <= int(value) < vocab_size:
        raise _damaged(f"{key} is {value}, the vocabulary has {vocab_size} tokens")
    return int(value)


def _damaged(why: str) -> InvalidFileError:
    return InvalidFileError("the model's tokenizer is damaged", why=why, do="get the model file again")
