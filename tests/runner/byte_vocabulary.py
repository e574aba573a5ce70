"""A small byte-level vocabulary for tests: all 256 bytes, a few merges, special tokens at the end."""

from __future__ import annotations

from typing import Any

from orkbench_tui.runner.bpe_words import BYTE_ALPHABET
from orkbench_tui.runner.tokenizer import Tokenizer, TokenKind

MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r")
SPECIAL = ("<s>", "<|im_start|>", "<|im_end|>", "<tool>", "unused")
KINDS = (TokenKind.CONTROL, TokenKind.CONTROL, TokenKind.CONTROL, TokenKind.USER_DEFINED, TokenKind.UNUSED)


def metadata(**changes: Any) -> dict[str, Any]:
    """Tokenizer entries as a GGUF holds them; a change of None removes an entry."""
    tokens = [*BYTE_ALPHABET, *(merge.replace(" ", "") for merge in MERGES), *SPECIAL]
    kinds = [TokenKind.NORMAL] * (len(tokens) - len(SPECIAL)) + list(KINDS)
    entries: dict[str, Any] = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "merges": list(MERGES),
        "token_type": [int(kind) for kind in kinds],
        "bos_token_id": tokens.index("<s>"),
        "eos_token_id": tokens.index("<|im_end|>"),
        "add_bos_token": False,
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in entries.items() if value is not None}


def tokenizer(**changes: Any) -> Tokenizer:
    return Tokenizer.from_metadata(metadata(**changes))
