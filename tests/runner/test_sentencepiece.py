"""SentencePiece vocabularies: merging by score, bytes, literal spaces in user-defined tokens, prefixes, round trips."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.runner.tokenizer import Tokenizer, TokenKind

S = "\u2581"
# Spelling, score: the higher, the earlier.
_MERGED = [(f"{S}h", -5), ("el", -1), ("he", -2), ("lo", -3), ("ell", -7), ("hello", -20), (f"{S}hello", -9)]
_MERGED += [("hel", -4), (f"{S}a", -6), ("llo", -8), (f"{S}hell", -21), ("ab", -30), ("bc", -30)]
_CHARACTERS = f"helo abc{S}<>".replace(" ", "")
_USER = ("  ", "   ", "\n\n", "<b>", "a  b")


def entries(**changes: Any) -> dict[str, Any]:
    rows: list[tuple[str, float, TokenKind]] = [
        ("<unk>", 0, TokenKind.UNKNOWN),
        ("<s>", 0, TokenKind.CONTROL),
        ("</s>", 0, TokenKind.CONTROL),
        *((f"<0x{byte:02X}>", 0, TokenKind.BYTE) for byte in range(256)),
        *((spelling, 0, TokenKind.USER_DEFINED) for spelling in _USER),
        *((character, -100, TokenKind.NORMAL) for character in dict.fromkeys(_CHARACTERS)),
        *((spelling, score, TokenKind.NORMAL) for spelling, score in _MERGED),
        ("é", -100, TokenKind.NORMAL),
    ]
    values: dict[str, Any] = {
        "model": "llama",
        "tokens": [row[0] for row in rows],
        "scores": [float(row[1]) for row in rows],
        "token_type": [int(row[2]) for row in rows],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_space_prefix": False,
        "add_bos_token": False,
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def tokenizer(**changes: Any) -> Tokenizer:
    return Tokenizer.from_metadata(entries(**changes))


def spelled(text: str, *, parse_special: bool = False, **changes: Any) -> list[str]:
    made = tokenizer(**changes)
    return [made.spelling(token) for token in made.encode(text, parse_special=parse_special)]


def test_the_best_score_merges_first_whatever_is_left_of_it() -> None:
    assert spelled("helo") == ["hel", "o"]
    assert spelled("hlo") == ["h", "lo"]
    assert spelled(" hello") == [f"{S}hello"]


def test_of_equal_scores_the_leftmost_pair_merges() -> None:
    assert spelled("abc") == ["ab", "c"]


def test_unknown_characters_become_their_bytes() -> None:
    assert spelled("é") == ["é"]
    assert spelled("ß\t") == ["<0xC3>", "<0x9F>", "<0x09>"]
    assert spelled("e😀") == ["e", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]


def test_user_defined_tokens_with_literal_spaces_are_cut_out_first() -> None:
    assert spelled("a  b") == ["a  b"]
    assert spelled("h   a") == ["h", "   ", "a"]
    assert spelled("h    a") == ["h", "   ", f"{S}a"]
    assert spelled("a\n\n<b>") == ["a", "\n\n", "<b>"]


def test_a_typed_control_token_stays_text_unless_asked_for() -> None:
    assert "<s>" not in spelled("<s>a")
    assert spelled("<s>a", parse_special=True) == ["<s>", "a"]
    made = tokenizer()
    assert made.text_bytes(made.encode("<s></s><0x41>")) == b"<s></s><0x41>"


def test_a_space_goes_before_the_text_and_after_special_tokens() -> None:
    assert spelled("a", add_space_prefix=True) == [f"{S}a"]
    assert spelled("<b>a", add_space_prefix=None) == ["<b>", f"{S}a"]
    assert spelled("", add_space_prefix=True) == []


def test_beginning_and_end_are_added_where_the_file_says_or_by_default() -> None:
    assert spelled("a", add_bos_token=None) == ["<s>", "a"]
    assert spelled("<s>a", add_bos_token=True, parse_special=True) == ["<s>", "a"]
    made = tokenizer(add_eos_token=True)
    assert made.spelling(made.encode("a", add_eos=True)[-1]) == "</s>"
    assert made.spelling(made.encode("a")[-1]) == "a"
    assert made.spelling(tokenizer().encode("a", add_eos=True)[-1]) == "a"


@settings(max_examples=200, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_characters=[S, "\ufdd0"], exclude_categories=["Cs"])),
    st.booleans(),
)
def test_round_trip_is_exact(text: str, prefix: bool) -> None:
    made = _PREFIXED if prefix else _PLAIN
    assert made.text_bytes(made.encode(text)).decode() == text
    assert made.least_tokens(text) <= len(made.encode(text))


_PLAIN, _PREFIXED = tokenizer(), tokenizer(add_space_prefix=True)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="helo abc<>\n"), st.booleans())
def test_words_merged_alone_give_what_merging_the_whole_text_gives(text: str, prefix: bool) -> None:
    # A token over a border makes the whole text one piece; it is never reached here.
    whole = tokenizer(
        tokens=[*entries()["tokenizer.ggml.tokens"], f"q{S}q"],
        scores=[*entries()["tokenizer.ggml.scores"], -1.0],
        token_type=[*entries()["tokenizer.ggml.token_type"], 1],
        add_space_prefix=prefix,
    )
    assert whole.encode(text) == (_PREFIXED if prefix else _PLAIN).encode(text)


def test_a_text_without_spaces_is_merged_in_reasonable_steps() -> None:
    made = tokenizer()
    assert len(made.encode("hello" * 4000)) == 4000


def test_damage_is_named() -> None:
    with pytest.raises(InvalidFileError, match="scores is missing"):
        tokenizer(scores=None)
    with pytest.raises(InvalidFileError, match="3 scores"):
        tokenizer(scores=[0.0, 0.0, 0.0])
    tokens = [*entries()["tokenizer.ggml.tokens"]]
    tokens[5] = "<0xZZ>"
    with pytest.raises(InvalidFileError, match="byte token 5"):
        tokenizer(tokens=tokens)
    with pytest.raises(RefusedError, match=r"'t5'.*llama"):
        tokenizer(model="t5")
