"""Bodies of requests: what is taken, what is refused, and by which name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.runner.serve.api_errors import ApiError
from orkbench_tui.runner.serve.request_fields import Choice, chat_request, text_request

HELLO = [{"role": "user", "content": "hello"}]


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": HELLO} | fields).encode()


def refusal(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        chat_request(body)
    assert caught.value.status == 400
    return caught.value


def test_everything_that_is_computed_is_taken() -> None:
    request = chat_request(
        chat(
            temperature=0.5,
            top_p=1,
            top_k=3,
            min_p=0.1,
            seed=7,
            max_tokens=5,
            stop=["a", "b"],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert request.choice == Choice(
        {"temperature": 0.5, "top_p": 1, "top_k": 3, "min_p": 0.1, "seed": 7}, 5, ("a", "b")
    )
    assert (request.stream, request.include_usage, request.model) == (True, True, "m")


def test_nothing_given_is_nothing_chosen() -> None:
    request = chat_request(chat(temperature=None, stop=None, stream=None))
    assert request.choice == Choice()
    assert not request.stream


def test_newer_name_of_the_limit_wins() -> None:
    assert chat_request(chat(max_tokens=5, max_completion_tokens=9)).choice.max_tokens == 9


def test_negative_seeds_are_seeds() -> None:
    seed = chat_request(chat(seed=-1)).choice.sampling["seed"]
    assert 0 <= seed < 1 << 63
    assert seed != chat_request(chat(seed=1)).choice.sampling["seed"]


def test_roles_and_parts() -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "c", "name": "x"},
    ]
    assert [dict(message) for message in chat_request(chat(messages=messages)).messages] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "c"},
    ]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"seed": 1 << 63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"model": 3}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": "king", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": [], "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal(chat(**fields)).param == param


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", True),
        ("tools", [{"type": "function"}]),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("frequency_penalty", 0.5),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"5": 1}),
    ],
)
def test_what_is_not_computed_is_refused(name: str, value: Any) -> None:
    error = refusal(chat(**{name: value}))
    assert (error.param, error.code) == (name, "unsupported_parameter")


def test_values_that_mean_as_usual_are_taken() -> None:
    usual = {"n": 1, "logprobs": False, "frequency_penalty": 0, "presence_penalty": 0.0, "tools": []}
    usual |= {"response_format": {"type": "text"}, "user": "me", "metadata": {"a": "b"}, "top_logprobs": None}
    assert chat_request(chat(**usual)).choice == Choice()


def test_misspelt_arguments_are_not_passed_over() -> None:
    error = refusal(chat(temprature=0))
    assert (error.param, error.code) == ("temprature", "unknown_parameter")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b'{"messages": NaN}',
        b'{"messages": ' + b"[" * 100_000,
        b'{"messages": ' + b"9" * 5000 + b"}",
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
)
def test_bodies_that_are_no_request(body: bytes) -> None:
    assert refusal(body).body["error"]["type"] == "invalid_request_error"


def test_control_characters_come_back_as_escapes() -> None:
    assert "\x1b" not in refusal(chat(**{"\x1b[2J": 1})).message


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(
        ["messages", "stop", "stream_options", "temperature", "seed", "model", "tools", "prompt"]
    ),
)
def test_any_value_is_a_request_or_a_refusal(value: Any, name: str) -> None:
    body = json.dumps({"messages": HELLO, name: value} if name != "prompt" else {name: value}).encode()
    try:
        (text_request if name == "prompt" else chat_request)(body)
    except ApiError as error:
        assert error.status == 400
        json.dumps(error.body)


@pytest.mark.parametrize(
    ("prompt", "taken"), [("a", "a"), (["a"], "a"), ([1, 2], (1, 2)), ([[1, 2]], (1, 2)), ("", "")]
)
def test_prompts(prompt: Any, taken: Any) -> None:
    request = text_request(json.dumps({"prompt": prompt}).encode())
    assert request.prompt == taken
    assert request.choice.max_tokens == 16


@pytest.mark.parametrize("prompt", [None, 3, ["a", "b"], [1, "a"], [True], {"a": 1}])
def test_prompts_that_are_none(prompt: Any) -> None:
    with pytest.raises(ApiError) as caught:
        text_request(json.dumps({"prompt": prompt}).encode())
    assert caught.value.param == "prompt"
