"""Files that hold words, and files that do not."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd import word_files
from orkbench_tui.driver.regcmd.word_files import parse_words, read_words
from orkbench_tui.errors import InvalidFileError
from tests.driver.regcmd import captures

GOLDEN = captures.golden()


@pytest.mark.parametrize(
    "data",
    [
        np.array(GOLDEN, dtype="<u8").tobytes(),
        json.dumps(GOLDEN).encode(),
        json.dumps([f"{word:016x}" for word in GOLDEN]).encode(),
        json.dumps([f"{word:#x}" for word in GOLDEN]).encode(),
        json.dumps({"schema": "x", "data": {"words": [f"{word:016x}" for word in GOLDEN]}}).encode(),
        json.dumps({"words": GOLDEN}).encode(),
        b"\xef\xbb\xbf" + json.dumps(GOLDEN).encode(),
        captures.MTX_GOLDEN.encode(),
        "\n".join(f"0x{word:x}" for word in GOLDEN).encode() + b"\n",
        ", ".join(f"{word:X}" for word in GOLDEN).encode(),
    ],
)
def test_every_form_gives_the_same_words(data):
    assert parse_words(data, "f").tolist() == GOLDEN


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\n  \n", "holds no words"),
        (b"\0" * 64, "holds no words"),
        (b"\x04\x40\x0e", "3 bytes are not a whole number"),
        (b"\x04\x40\x0e\x00\x00\x00\x01\x10\x04", "9 bytes"),
        (b"[1, 2", "is not JSON"),
        (b"[" + b"9" * 5000 + b"]", "thousands of digits"),
        (b"[" * 100_000, "is"),
        (b"[]", "empty list"),
        (b"{}", "no list of words"),
        (b'{"data": {"words": 3}}', "no list of words"),
        (b'["10010000000e4004", "zz"]', "entry 1 is 'zz'"),
        (b"[1.5]", "entry 0 is 1.5"),
        (b"[true]", "entry 0 is True"),
        (b"[null]", "entry 0 is None"),
        (b"[[1]]", "entry 0 is a list"),
        (b"[-1]", "entry 0 is -1"),
        (b"[18446744073709551616]", "entry 0 is 18446744073709551616"),
        (b'["10010000000e40040"]', "entry 0"),
        (b"hello world", "entry 0 is 'hello'"),
        (b"[\xff\xfe]", "neither text nor words"),
    ],
)
def test_what_is_no_program_is_one_sentence(data, why):
    with pytest.raises(InvalidFileError, match=r"^the file: ") as error:
        parse_words(data, "the file")
    assert why in error.value.line() and "\n" not in error.value.line()


def test_a_huge_file_is_refused_without_reading_all_of_it(monkeypatch):
    monkeypatch.setattr(word_files, "MAX_BYTES", 1 << 20)
    stream = io.BytesIO(b"\1" * (3 << 20))
    with pytest.raises(InvalidFileError, match="over 1 MiB"):
        read_words(stream, "f")
    assert stream.tell() == (1 << 20) + 1


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_words_or_one_error(data):
    try:
        words = parse_words(data, "f")
    except InvalidFileError:
        return
    assert words.dtype == np.uint64 and len(words) > 0
