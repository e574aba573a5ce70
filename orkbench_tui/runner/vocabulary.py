"""The tokens of a model as its file lists them, and what cutting a text into them must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from orkbench_tui.errors import InvalidFileError

__all__ = ["TokenKind", "Vocabulary", "Words", "damaged", "read_vocabulary"]


class TokenKind(IntEnum):
    """``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Spelling and kind of every id."""

    tokens: Sequence[str]
    kinds: Sequence[int]

    def spellings(self, kind: TokenKind) -> dict[str, int]:
        """Spelling → id of the tokens of one kind; the last of equal spellings counts."""
        return {self.tokens[i]: i for i, k in enumerate(self.kinds) if k == kind and self.tokens[i]}


class Words(Protocol):
    """Text without special tokens to ids, and ids to bytes."""

    @property
    def space_prefix(self) -> bool:
        """Whether ``encode`` puts a space before the text."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text that is not empty."""

    def piece(self, token: int) -> bytes:
        """The bytes a normal or byte token stands for."""


def read_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of a model file; InvalidFileError for missing or contradicting entries."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise damaged("tokenizer.ggml.tokens is missing or empty")
    kinds = metadata.get("tokenizer.ggml.token_type")
    listed = [int(TokenKind.NORMAL)] * len(tokens) if kinds is None else [int(kind) for kind in kinds]
    if len(listed) != len(tokens):
        raise damaged(f"{len(tokens)} tokens but {len(listed)} token types")
    return Vocabulary(tokens, listed)


def damaged(why: str) -> InvalidFileError:
    return InvalidFileError("the model's tokenizer is damaged", why=why, do="get the model file again")
