"""Bodies of requests, checked field by field: bytes in, typed requests out, or an ``ApiError`` that names the field.

What OpenAI's API has and this server does not compute is refused, never ignored; values that mean "as usual"
(``n: 1``, ``logprobs: false``) are taken. Fields that only label a request are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from orkbench_tui.runner.serve.api_errors import ApiError, invalid, unsupported

__all__ = ["ChatRequest", "Choice", "TextRequest", "chat_request", "text_request"]

MAX_STOPS = 16
MAX_MESSAGES = 4096
DEFAULT_TEXT_TOKENS = 16
"""What OpenAI's completions give where nothing is asked for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose and where to end; ``sampling`` holds only what was given, by names of ``Sampling``."""

    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """``messages`` have the roles system, user and assistant. ``model`` None takes the one there is."""

    model: str | None
    messages: tuple[Mapping[str, str], ...]
    choice: Choice
    stream: bool = False
    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class TextRequest:
    """``prompt`` is text, or token ids."""

    model: str | None
    prompt: str | tuple[int, ...]
    choice: Choice
    stream: bool = False
    include_usage: bool = False


# field -> (kinds, lowest, highest, the name in Sampling)
_NUMBERS: dict[str, tuple[tuple[type, ...], float, float, str]] = {
    "temperature": ((int, float), 0.0, 2.0, "temperature"),
    "top_p": ((int, float), 0.0, 1.0, "top_p"),
    "top_k": ((int,), 0, 1 << 20, "top_k"),
    "min_p": ((int, float), 0.0, 1.0, "min_p"),
    "repeat_penalty": ((int, float), 0.01, 100.0, "repeat_penalty"),
    "seed": ((int,), -(1 << 63), (1 << 63) - 1, "seed"),
}
_WHOLE_NAMES = {int: "an integer", float: "a number", str: "a string", bool: "a boolean", list: "a list"}

# field -> values that mean "as usual"; None always does
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "reasoning_effort": ("none",),
    "verbosity": (),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "store": (False,),
}
_WHY: dict[str, str] = {
    "n": "one answer a request",
    "tools": "no tool calls are made",
    "functions": "no functions are called",
    "response_format": "answers are plain text",
}
_LABELS = frozenset(
    {
        "user",
        "metadata",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
_COMMON = frozenset({"model", "stream", "stream_options", "stop", "max_tokens", *_NUMBERS})
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def chat_request(body: bytes) -> ChatRequest:
    """The request in a body of ``/v1/chat/completions``."""
    given = _object(body)
    _check_names(given, _COMMON | {"messages", "max_completion_tokens"})
    stream, include_usage = _streaming(given)
    return ChatRequest(
        _text(given, "model"), _messages(given.get("messages")), _choice(given, None), stream, include_usage
    )


def text_request(body: bytes) -> TextRequest:
    """The request in a body of ``/v1/completions``."""
    given = _object(body)
    _check_names(given, _COMMON | {"prompt"})
    stream, include_usage = _streaming(given)
    return TextRequest(
        _text(given, "model"),
        _prompt(given.get("prompt")),
        _choice(given, DEFAULT_TEXT_TOKENS),
        stream,
        include_usage,
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8: byte {error.start}") from None
    try:
        given = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise invalid(f"the body is not JSON that can be read: {why}") from None
    if not isinstance(given, dict):
        raise invalid("the body must be a JSON object")
    _check_characters(text, given)
    return given


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _check_characters(text: str, given: Mapping[str, Any]) -> None:
    # Escapes can spell half a surrogate pair, which is no character and cannot be written as UTF-8.
    if "\\u" not in text:
        return
    try:
        json.dumps(given, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise invalid("a string in the body holds half a surrogate pair") from None


def _check_names(given: Mapping[str, Any], known: frozenset[str]) -> None:
    for name, value in given.items():
        if name in known or name in _LABELS or value is None:
            continue
        if name not in _NEUTRAL:
            raise invalid(f"unrecognized request argument: {name!r}", param=name, code="unknown_parameter")
        # 0 == False, so the kind decides as well.
        if not any(
            value == usual and isinstance(value, bool) == isinstance(usual, bool) for usual in _NEUTRAL[name]
        ):
            raise unsupported(name, _WHY.get(name, "leave it out"))


def _wrong_kind(name: str, wanted: str, value: Any) -> ApiError:
    found = _WHOLE_NAMES.get(type(value), "an object" if isinstance(value, dict) else "null")
    return invalid(f"{name!r} must be {wanted}, got {found}", param=name)


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong_kind(name, "a string", value)
    return value


def _flag(given: Mapping[str, Any], name: str, shown: str = "") -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong_kind(shown or name, "a boolean", value)
    return bool(value)


def _streaming(given: Mapping[str, Any]) -> tuple[bool, bool]:
    stream = _flag(given, "stream")
    options = given.get("stream_options")
    if options is None:
        return stream, False
    if not isinstance(options, dict):
        raise _wrong_kind("stream_options", "an object", options)
    if not stream:
        raise invalid("'stream_options' needs 'stream': true", param="stream_options")
    return stream, _flag(options, "include_usage", "stream_options.include_usage")


def _number(given: Mapping[str, Any], name: str) -> int | float | None:
    value = given.get(name)
    if value is None:
        return None
    kinds, low, high, _ = _NUMBERS[name]
    if not isinstance(value, int | float) or not isinstance(value, kinds) or isinstance(value, bool):
        raise _wrong_kind(name, _WHOLE_NAMES[kinds[-1]], value)
    if not low <= value <= high:
        raise invalid(f"{name!r} is {value}, allowed: {low} to {high}", param=name)
    return value


def _length(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_kind(name, "an integer", value)
    if value < 1:
        raise invalid(f"{name!r} is {value}, allowed: 1 and more", param=name)
    return value


def _choice(given: Mapping[str, Any], otherwise: int | None) -> Choice:
    sampling = {}
    for name, (_, _, _, ours) in _NUMBERS.items():
        value = _number(given, name)
        if value is not None:
            sampling[ours] = value
    if "seed" in sampling:
        sampling["seed"] = int(sampling["seed"]) & ((1 << 63) - 1)
    longest = _length(given, "max_completion_tokens")
    if longest is None:
        longest = _length(given, "max_tokens")
    return Choice(sampling, otherwise if longest is None else longest, _stops(given.get("stop")))


def _stops(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise _wrong_kind("stop", "a string or a list of strings", value)
    if len(stops) > MAX_STOPS or not all(stops):
        raise invalid(f"'stop' takes up to {MAX_STOPS} texts, none of them empty", param="stop")
    return tuple(stops)


def _messages(value: Any) -> tuple[Mapping[str, str], ...]:
    if value is None:
        raise invalid("'messages' is missing", param="messages", code="missing_required_parameter")
    if not isinstance(value, list):
        raise _wrong_kind("messages", "a list", value)
    if not 1 <= len(value) <= MAX_MESSAGES:
        raise invalid(f"'messages' has {len(value)} of them, allowed: 1 to {MAX_MESSAGES}", param="messages")
    return tuple(_message(f"messages[{number}]", message) for number, message in enumerate(value))


def _message(name: str, message: Any) -> Mapping[str, str]:
    if not isinstance(message, dict):
        raise _wrong_kind(name, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join(_ROLES)
        raise invalid(f"'{name}.role' must be one of {known}", param=f"{name}.role", code="invalid_value")
    if message.get("tool_calls") or message.get("function_call"):
        raise unsupported(f"{name}.tool_calls", "no tool calls are made")
    return {"role": _ROLES[role], "content": _content(f"{name}.content", message.get("content"), role)}


def _content(name: str, content: Any, role: str) -> str:
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    if not isinstance(content, list):
        raise _wrong_kind(name, "a string or a list of text parts", content)
    return "".join(_part(f"{name}[{number}]", part) for number, part in enumerate(content))


def _part(name: str, part: Any) -> str:
    if not isinstance(part, dict):
        raise _wrong_kind(name, "an object", part)
    if part.get("type") not in ("text", "input_text", "output_text"):
        raise unsupported(f"{name}.type", "content is text")
    if not isinstance(part.get("text"), str):
        raise _wrong_kind(f"{name}.text", "a string", part.get("text"))
    return str(part["text"])


def _prompt(value: Any) -> str | tuple[int, ...]:
    if value is None:
        raise invalid("'prompt' is missing", param="prompt", code="missing_required_parameter")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and _all_ids(value):
        return tuple(value)
    if isinstance(value, list) and value and all(isinstance(item, str | list) for item in value):
        raise unsupported("prompt", "one prompt a request")
    raise _wrong_kind("prompt", "a string or a list of token ids", value)


def _all_ids(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
