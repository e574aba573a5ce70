"""Register programs in files: JSON lists, the documents ``ork npu regcmd --json`` prints, hex text,
raw little-endian words, records of ``ork sim exec``.
"""

from __future__ import annotations

import json
import re
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.regcmd.recorded_words import is_record, recorded_words
from orkbench_tui.errors import InvalidFileError

__all__ = ["MAX_BYTES", "parse_words", "read_words"]

MAX_BYTES = 64 << 20
WORD_BYTES = 8

_TEXT = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))
_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")
_PRESENT_FORMS = "a JSON list of hex words, lines of hex words, or raw little-endian 64-bit words"


def read_words(stream: BinaryIO, name: str) -> NDArray[np.uint64]:
    """Read and parse a stream to its end; ``name`` is what errors call it.

    Raises:
        InvalidFileError: more than ``MAX_BYTES``, or see ``parse_words``.
    """
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidFileError(name, why=f"over {MAX_BYTES >> 20} MiB; a register program has a few KB")
    return parse_words(data, name)


def parse_words(data: bytes, name: str) -> NDArray[np.uint64]:
    """Words of a file, uint64 [n], n ≥ 1.

    Text is told from raw words by its bytes: every register word has a byte that is no text.

    Raises:
        InvalidFileError: empty, a length that is not whole words, bad JSON, or an entry that is no
            64-bit number.
    """
    if not data.strip(b"\0 \t\r\n"):
        raise InvalidFileError(
            name, why="holds no words" if data else "is empty", do=f"give {_PRESENT_FORMS}"
        )
    body = data.removeprefix(b"\xef\xbb\xbf")
    if is_record(body):
        return _of_record(body, name)
    text_start = body.lstrip()[:1]
    if text_start in (b"[", b"{") or _is_text(body):
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidFileError(name, why=f"is neither text nor words: {error.reason}") from None
        entries = (
            _json_words(text, name)
            if text_start in (b"[", b"{")
            else re.split(r"[\s,]+", text.strip(" \t\r\n,"))
        )
        return np.array([_word(entry, at, name) for at, entry in enumerate(entries)], dtype=np.uint64)
    if len(data) % WORD_BYTES:
        raise InvalidFileError(
            name,
            why=f"{len(data)} bytes are not a whole number of {WORD_BYTES}-byte words",
            do=f"give {_PRESENT_FORMS}",
        )
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _of_record(data: bytes, name: str) -> NDArray[np.uint64]:
    try:
        entries = recorded_words(data.decode("utf-8"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFileError(name, why=f"is a damaged record: {error}") from None
    if not entries:
        raise InvalidFileError(name, why="is a record without register programs")
    return np.array([_word(entry, at, name) for at, entry in enumerate(entries)], dtype=np.uint64)


def _is_text(data: bytes) -> bool:
    head = data[:4096]
    return all(byte in _TEXT for byte in head) and not data.translate(None, bytes(_TEXT))


def _json_words(text: str, name: str) -> list[Any]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise InvalidFileError(name, why="is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidFileError(name, why=f"is not JSON: {error}") from None
    except ValueError:
        raise InvalidFileError(name, why="holds a number of thousands of digits") from None
    for key in ("data", "words"):
        if isinstance(document, dict) and key in document:
            document = document[key]
    if not isinstance(document, list):
        raise InvalidFileError(name, why="holds no list of words", do=f"give {_PRESENT_FORMS}")
    if not document:
        raise InvalidFileError(name, why="holds an empty list")
    return document


def _word(entry: object, at: int, name: str) -> int:
    if isinstance(entry, str) and _HEX.fullmatch(entry.strip()):
        return int(entry.strip(), 16)
    if isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < 1 << 64:
        return entry
    shown = (
        repr(entry) if isinstance(entry, (str, int, float)) or entry is None else f"a {type(entry).__name__}"
    )
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    raise InvalidFileError(name, why=f"entry {at} is {shown}, not a hex word or a number of 64 bits")
