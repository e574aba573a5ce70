"""What a file is, told from its first bytes: names for the things people get instead of a model."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from types import MappingProxyType

from orkbench_tui.plain_text import one_line

__all__ = ["HEAD_BYTES", "MEANT_FOR", "foreign_kind", "kind_in_words"]

HEAD_BYTES = 512
_SHOWN_CHARACTERS = 32

_GGUF, _PACK = "a GGUF model", "an orkpack weight pack"

MEANT_FOR: Mapping[str, str] = MappingProxyType(
    {
        _GGUF: "a model becomes a pack by: ork pack build MODEL",
        _PACK: "name the model it was made from; `ork pack info` reads packs",
    }
)
"""What to do with a whole file that was given where another kind belongs."""

_PREFIXES: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to"),
    (b"PK\x03\x04", "a zip archive or wheel"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"FUGG", "a byte-swapped GGUF file"),
    (b"lmgg", "a GGML file of the format before GGUF"),
    (b"fmgg", "a GGML file of the format before GGUF"),
    (b"tjgg", "a GGML file of the format before GGUF"),
    (b"GGUF", _GGUF),
    (b"ORKPACK1", _PACK),
    (b"\x7fELF", "a program"),
)
_TEXT_PREFIXES: tuple[tuple[bytes, str], ...] = (
    (b"<!doctype", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<head", "an HTML page"),
    (b"<?xml", "an XML or HTML page"),
    (b"{", "a JSON document"),
)


def foreign_kind(head: bytes) -> str:
    """A name for a file that begins with ``head`` (up to 512 bytes of it), or "" when it is none we know."""
    if not head:
        return "an empty file"
    for prefix, kind in _PREFIXES:
        if head.startswith(prefix):
            return kind
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for prefix, kind in _TEXT_PREFIXES:
        if text.startswith(prefix):
            return kind
    # safetensors: u64 header length, then JSON.
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return "a safetensors file"
    if not any(head):
        return "a file of zeros"
    return ""


def kind_in_words(head: bytes) -> str:
    """``foreign_kind``, and for a kind we do not know its beginning: as text where it is text, else in hex."""
    if kind := foreign_kind(head):
        return kind
    try:
        # Not the last character if the head's end cuts it in half.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        text = ""
    begins = one_line(text, _SHOWN_CHARACTERS)
    if begins and all(char.isprintable() or char in "\r\n\t" for char in text):
        return f'a text file that begins "{begins}"'
    return f"a file of another kind that begins with the bytes {head[:8].hex(' ')}"
