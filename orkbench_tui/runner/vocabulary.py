"""The tokens of a model as its file lists them, and what cutting a text into them must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from orkbench_tui.errors import InvalidFileError

__all__ = ["TokenKind", "Vocabulary", "Words", "damaged", "listed_values", "read_vocabulary"]

_Value = TypeVar("_Value", str, int, float)


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
    tokens = listed_values(metadata, "tokens", str)
    given = metadata.get("tokenizer.ggml.token_type") is not None
    listed = listed_values(metadata, "token_type", int) if given else [int(TokenKind.NORMAL)] * len(tokens)
    if len(listed) != len(tokens):
        raise damaged(f"{len(tokens)} tokens but {len(listed)} token types")
    return Vocabulary(tokens, listed)


def listed_values(metadata: Mapping[str, Any], key: str, kind: type[_Value]) -> list[_Value]:
    """The list ``tokenizer.ggml.key``; InvalidFileError where it is missing, empty or of other values."""
    values: Any = metadata.get(f"tokenizer.ggml.{key}")
    # Numbers of a model file come as an array of numpy's, which this module need not know.
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, list) or not values:
        raise damaged(f"tokenizer.ggml.{key} is missing or empty")
    # A list of a model file holds values of one kind.
    if not isinstance(values[0], kind) or isinstance(values[0], bool):
        raise damaged(f"tokenizer.ggml.{key} holds {type(values[0]).__name__}, expected {kind.__name__}")
    return values


def damaged(why: str) -> InvalidFileError:
    return InvalidFileError("the model's tokenizer is damaged", why=why, do="get the model file again")
