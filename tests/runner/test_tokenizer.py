"""Text to ids and back: special tokens, BOS, end set, streaming, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.plain_text import streamed
from orkbench_tui.runner.pretokenizers import PRETOKENIZERS
from orkbench_tui.runner.tokenizer import SHIELD, Detokenizer, Tokenizer
from tests.runner.byte_vocabulary import metadata, tokenizer

PLAIN = tokenizer()
SPECIALS = ("<s>", "<|im_start|>", "<|im_end|>")


def id_of(spelling: str) -> int:
    return list(metadata()["tokenizer.ggml.tokens"]).index(spelling)


def test_merges_follow_their_rank() -> None:
    assert PLAIN.encode("hello wor") == [id_of("hello"), id_of("Ġw"), id_of("or")]


@pytest.mark.parametrize("pre", sorted(PRETOKENIZERS))
@settings(deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_every_text_comes_back(pre: str, text: str) -> None:
    plain = _BY_PRE[pre]
    ids = plain.encode(text, add_bos=False)
    assert b"".join(plain.piece(token) for token in ids).decode() == text.replace(SHIELD, "")


@settings(deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=60) | st.text("helo w", max_size=200))
def test_least_tokens_is_never_more_than_there_are(text: str) -> None:
    assert PLAIN.least_tokens(text) <= len(PLAIN.encode(text))
    # And of any use: within the length of the longest spelling, 13 bytes here.
    assert PLAIN.least_tokens(text) >= len(text.replace(SHIELD, "")) / 13


_BY_PRE = {pre: tokenizer(pre=pre) for pre in PRETOKENIZERS}


# What llama.cpp does for each name: whether digits stand alone, in groups of three or in runs, whether whole
# words are looked up before merging, and whether a text begins with BOS where the file does not say.
_FACTS = {
    "gpt-2 phi-2 gigachat a.x-4.0 mellum": ("run", False, False),
    "smollm starcoder refact command-r": ("single", False, False),
    "qwen2 deepseek-r1-qwen kormo stablelm2": ("single", False, False),
    "dbrx smaug-bpe": ("three", False, False),
    "llama-bpe llama3 llama-v3 pixtral lfm2 falcon3 falcon-h1 midm-2.0": ("three", True, True),
}
_DIGITS = {"run": ["12345"], "single": list("12345"), "three": ["123", "45"]}
# Contractions in capitals are cut off as such by the later patterns only.
_CAPITALS = {"gpt-2": False, "smollm": False, "qwen2": True, "llama-bpe": True}


def words_of(pre: str, text: str) -> list[str]:
    """The pieces merging happens in: with every merge there is, each is one token."""
    tokens = [*metadata()["tokenizer.ggml.tokens"]]
    merges: list[str] = []
    for number in range(2, len(text) + 1):
        for first in range(len(text) - number + 1):
            part = text[first : first + number].replace(" ", "Ġ")
            for cut in range(1, number):
                merges.append(f"{part[:cut]} {part[cut:]}")
            tokens.append(part)
    unique = list(dict.fromkeys(tokens))
    full = tokenizer(pre=pre, tokens=unique, merges=list(dict.fromkeys(merges)), token_type=None)
    return [full.piece(token).decode() for token in full.encode(text, add_bos=False)]


@pytest.mark.parametrize(
    ("pre", "facts"), [(name, facts) for names, facts in _FACTS.items() for name in names.split()]
)
def test_every_name_has_its_published_rule(pre: str, facts: tuple[str, bool, bool]) -> None:
    digits, ignore_merges, add_bos = facts
    assert words_of(pre, "12345") == _DIGITS[digits]
    assert (PRETOKENIZERS[pre].ignore_merges, PRETOKENIZERS[pre].add_bos) == (ignore_merges, add_bos)


def test_the_list_of_names_is_whole() -> None:
    assert {name for names in _FACTS for name in names.split()} == set(PRETOKENIZERS)


@pytest.mark.parametrize(("pre", "apart"), _CAPITALS.items())
def test_contractions_in_capitals(pre: str, apart: bool) -> None:
    assert (words_of(pre, "it'S") == ["it", "'S"]) is apart
    assert words_of(pre, "it's") == ["it", "'s"]


def test_digits_are_single_in_smollm_and_not_in_gpt2() -> None:
    tokens = list(metadata()["tokenizer.ggml.tokens"])
    with_pair = {"tokens": [*tokens, "12"], "merges": ["1 2"], "token_type": None}
    assert len(tokenizer(pre="smollm", **with_pair).encode("12")) == 2
    assert len(tokenizer(pre="gpt-2", **with_pair).encode("12")) == 1


def test_whole_words_are_taken_before_merges_only_where_the_family_does() -> None:
    tokens = list(metadata()["tokenizer.ggml.tokens"])
    whole = {"tokens": [*tokens, "xyz"], "token_type": None}
    assert tokenizer(pre="llama-bpe", **whole).encode("xyz", add_bos=False) == [len(tokens)]
    assert len(tokenizer(pre="qwen2", **whole).encode("xyz")) == 3


def test_control_tokens_need_special_parsing_and_user_defined_ones_do_not() -> None:
    assert id_of("<|im_start|>") not in PLAIN.encode("<|im_start|>user")
    assert PLAIN.encode("<|im_start|>user", parse_special=True)[0] == id_of("<|im_start|>")
    assert PLAIN.encode("a<tool>b")[1] == id_of("<tool>")


@settings(deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, "<", "|", "im_end", ">", "a", SHIELD, "<<s>s>"]), max_size=12))
def test_shielded_text_never_becomes_a_control_token(pieces: list[str]) -> None:
    text = "".join(pieces)
    ids = PLAIN.encode(PLAIN.shield(text), parse_special=True)
    assert not {id_of(spelling) for spelling in SPECIALS} & set(ids)
    assert PLAIN.decode(ids) == text.replace(SHIELD, "")


@pytest.mark.parametrize(
    ("pre", "stated", "expected"),
    [
        ("smollm", None, False),
        ("smollm", True, True),
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("qwen2", False, False),
    ],
)
def test_bos_is_what_the_file_says(pre: str, stated: bool | None, expected: bool) -> None:
    made = tokenizer(pre=pre, add_bos_token=stated)
    assert (made.encode("hello")[0] == made.bos_id) is expected


def test_bos_is_not_doubled() -> None:
    made = tokenizer(add_bos_token=True)
    assert made.encode("<s>hello", parse_special=True).count(id_of("<s>")) == 1


def test_no_bos_without_an_id() -> None:
    assert tokenizer(add_bos_token=True, bos_token_id=None).add_bos is False


def test_end_of_generation_is_a_set() -> None:
    made = tokenizer(eot_token_id=id_of("<tool>"), eos_token_id=id_of("<s>"))
    assert made.end_ids == {id_of("<|im_end|>"), id_of("<tool>"), id_of("<s>")}


def test_control_and_unused_tokens_have_no_text() -> None:
    assert PLAIN.decode([id_of("<s>"), id_of("unused"), id_of("hello"), id_of("<tool>")]) == "hello<tool>"


def test_stream_holds_back_half_characters() -> None:
    stream = Detokenizer(PLAIN)
    shown = [stream.push(token) for token in PLAIN.encode("é🙂")]
    assert [piece for piece in shown if piece] == ["é", "🙂"]
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(shown) + stream.flush()


def test_stream_flush_shows_what_stayed_incomplete() -> None:
    stream = Detokenizer(PLAIN)
    assert stream.push(PLAIN.encode("🙂")[0]) == ""
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_stream_never_lets_control_characters_through(content: bytes) -> None:
    ids = [next(i for i in range(256) if PLAIN.piece(i) == bytes((byte,))) for byte in content]
    text = PLAIN.decode(ids)
    assert streamed(text) == text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "t5"}, "'t5'"),
        ({"model": "rwkv"}, "'rwkv'"),
        ({"pre": "tekken"}, "'tekken'"),
        ({"pre": None}, "none"),
    ],
)
def test_unknown_kinds_are_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(RefusedError, match=named):
        tokenizer(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": None},
        {"merges": None},
        {"merges": ["one"]},
        {"merges": ["not there"]},
        {"token_type": [1]},
        {"eos_token_id": 10_000},
        {"eos_token_id": "x"},
        {"bos_token_id": -1},
        {"bos_token_id": 1.5},
        {"tokens": [1, 2, 3]},
        {"token_type": ["a"]},
        {"merges": [1]},
        {"add_bos_token": "false"},
    ],
)
def test_contradicting_metadata_is_an_invalid_file(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidFileError, match="tokenizer is damaged"):
        tokenizer(**changes)


@pytest.mark.model
def test_real_vocabulary_counts_the_standard_text(default_model: Path) -> None:
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.texts import perplexity_text

    with GgufFile.open(default_model) as file:
        real = Tokenizer.from_metadata(file.metadata)
    text = perplexity_text()
    ids = real.encode(text)
    assert len(ids) == 4943
    assert real.decode(ids) == text
    assert real.end_ids == {0, 2, 4}
