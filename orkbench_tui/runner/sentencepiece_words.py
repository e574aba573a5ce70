"""SentencePiece merging: neighbours join while their union is a token, the best score first.

Spaces are written as U+2581. A character no token stands for becomes its bytes, each a token ``<0xNN>``.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from functools import lru_cache

from orkbench_tui.runner.vocabulary import TokenKind, Vocabulary, damaged

__all__ = ["SentencePieceWords"]

SPACE = "\u2581"
_CACHED_WORDS = 1 << 14
_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
# Cut before a space that follows something else.
_WORD = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")


class SentencePieceWords:
    """``scores[id]``: the higher, the earlier a merge into that token. ``space_prefix``: a space before the text."""

    def __init__(self, vocabulary: Vocabulary, scores: Sequence[float], *, space_prefix: bool) -> None:
        if len(scores) != len(vocabulary.tokens):
            raise damaged(f"{len(vocabulary.tokens)} tokens but {len(scores)} scores")
        self.space_prefix = space_prefix
        self._scores = scores
        self._tokens = vocabulary.tokens
        self._byte_of = _byte_values(vocabulary)
        self._byte_ids = {byte: token for token, byte in self._byte_of.items()}
        self._unknown = next(iter(vocabulary.spellings(TokenKind.UNKNOWN).values()), None)
        if self._unknown is None and len(self._byte_ids) < 256:
            raise damaged("it has neither all 256 bytes nor an unknown token")
        # What a typed text must never become is not found by merging.
        kept = (TokenKind.NORMAL, TokenKind.USER_DEFINED, TokenKind.UNUSED)
        self._ids = {
            t: i
            for i, (t, k) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
            if k in kept
        }
        # Without a token over a word's border, words can be merged one by one, and common ones remembered.
        border = re.compile(f"[^{SPACE}]{SPACE}")
        self._by_word = not any(SPACE in token and border.search(token) for token in self._ids)
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._merged)

    def encode(self, text: str) -> list[int]:
        escaped = (" " + text if self.space_prefix else text).replace(" ", SPACE)
        if not self._by_word:
            return list(self._merged(escaped))
        return [token for word in _WORD.findall(escaped) for token in self._word(word)]

    def piece(self, token: int) -> bytes:
        byte = self._byte_of.get(token)
        return self._tokens[token].replace(SPACE, " ").encode() if byte is None else bytes((byte,))

    def _merged(self, text: str) -> tuple[int, ...]:
        """Ids of one text. Of equal scores the leftmost pair goes first."""
        parts: list[str] = list(text)
        following = [*range(1, len(parts)), -1]
        before = [-1, *range(len(parts) - 1)]
        pairs: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left < 0 or right < 0:
                return
            union = parts[left] + parts[right]
            token = self._ids.get(union)
            if token is not None:
                heapq.heappush(pairs, (-self._scores[token], left, right, union))

        for left in range(len(parts) - 1):
            offer(left, left + 1)
        while pairs:
            _, left, right, union = heapq.heappop(pairs)
            # One of the two may have grown or gone since the pair was offered.
            if not parts[left] or not parts[right] or parts[left] + parts[right] != union:
                continue
            parts[left], parts[right] = union, ""
            following[left] = following[right]
            if following[right] >= 0:
                before[following[right]] = left
            offer(before[left], left)
            offer(left, following[left])
        return tuple(token for part in parts if part for token in self._known(part))

    def _known(self, part: str) -> list[int]:
        token = self._ids.get(part)
        if token is not None:
            return [token]
        found = [self._byte_ids.get(byte, self._unknown) for byte in part.encode(errors="surrogatepass")]
        return [token for token in found if token is not None]


def _byte_values(vocabulary: Vocabulary) -> dict[int, int]:
    """Id → byte of the byte tokens."""
    values = {}
    for spelling, token in vocabulary.spellings(TokenKind.BYTE).items():
        match = _BYTE_TOKEN.fullmatch(spelling)
        if match is None:
            raise damaged(f"byte token {token} is spelled {spelling!r}, expected <0x00> to <0xFF>")
        values[token] = int(match[1], 16)
    return values
