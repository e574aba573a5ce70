"""The key/value blocks of a pack: GGUF's value encoding with 32-bit key lengths, so copies lose nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from orkbench_tui.runner.gguf_types import ValueType
from orkbench_tui.runner.gguf_values import Cursor, Metadata

__all__ = ["encode_block", "encode_text", "is_tokenizer_array", "read_blocks"]

Item = tuple[str, ValueType, bytes | memoryview]


def encode_text(key: str, text: str) -> Item:
    data = text.encode("utf-8")
    return key, ValueType.STRING, struct.pack("<Q", len(data)) + data


def encode_block(items: Iterable[Item]) -> bytes:
    parts: list[bytes | memoryview] = []
    count = 0
    for key, type_, value in items:
        name = key.encode("ascii")
        parts += (struct.pack("<I", len(name)), name, struct.pack("<I", type_), value)
        count += 1
    return b"".join((struct.pack("<Q", count), *parts))


def is_tokenizer_array(metadata: Metadata, key: str) -> bool:
    """Tokens, scores, types and merges: the large part, kept in a section of its own."""
    return key.startswith("tokenizer.") and metadata.span(key).type is ValueType.ARRAY


def read_blocks(label: str, blocks: Iterable[memoryview]) -> Metadata:
    """The pairs of several blocks as one mapping; InvalidFileError where a block is damaged."""
    metadata = Metadata(label)
    for block in blocks:
        cursor = Cursor(block, label)
        count = cursor.u64("metadata count")
        if count * 10 > cursor.end:
            raise cursor.fail(f"it claims {count} metadata pairs in {cursor.end} bytes")
        metadata.read_pairs(cursor, count, key_length_bytes=4)
    return metadata
