"""Answers as OpenAI's JSON: whole documents and the chunks of a stream."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from orkbench_tui.runner.chat import Answer

__all__ = ["DONE", "Reply", "event", "finish_reason", "model_document"]

Kind = Literal["chat", "text"]

DONE = b"data: [DONE]\n\n"

_ID_PREFIX: dict[Kind, str] = {"chat": "chatcmpl-", "text": "cmpl-"}
_OBJECTS: dict[tuple[Kind, bool], str] = {
    ("chat", False): "chat.completion",
    ("chat", True): "chat.completion.chunk",
    ("text", False): "text_completion",
    ("text", True): "text_completion",
}
_FINISH = {"end": "stop", "stop": "stop", "length": "length", "context": "length"}


def finish_reason(answer: Answer) -> str:
    """``stop`` where the model or a stop text ended it, ``length`` at the limit or a full context."""
    return _FINISH.get(answer.stop_reason, "stop")


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event. The JSON is ASCII without line ends, so nothing in it can end the event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request: id and time are the same in all its chunks."""

    kind: Kind
    model: str
    fingerprint: str
    include_usage: bool = False
    ident: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def _document(self, choices: list[dict[str, Any]], *, chunk: bool) -> dict[str, Any]:
        return {
            "id": _ID_PREFIX[self.kind] + self.ident,
            "object": _OBJECTS[self.kind, chunk],
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The document of a request that did not ask for a stream."""
        content: dict[str, Any] = (
            {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
            if self.kind == "chat"
            else {"text": answer.text}
        )
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason(answer)}
        return self._document([choice], chunk=False) | {"usage": usage(answer)}

    def first(self) -> dict[str, Any] | None:
        """The chunk that names the role, where there is one."""
        return self._chunk({"role": "assistant", "content": ""}, None) if self.kind == "chat" else None

    def piece(self, text: str) -> dict[str, Any]:
        """A chunk of text."""
        return self._chunk({"content": text} if self.kind == "chat" else text, None)

    def last(self, answer: Answer) -> list[dict[str, Any]]:
        """The chunk that says why it ended, then the one with the usage where it was asked for."""
        chunks = [self._chunk({} if self.kind == "chat" else "", finish_reason(answer))]
        if self.include_usage:
            chunks.append(self._document([], chunk=True) | {"usage": usage(answer)})
        return chunks

    def _chunk(self, content: dict[str, Any] | str, reason: str | None) -> dict[str, Any]:
        name = "delta" if self.kind == "chat" else "text"
        choice = {"index": 0, name: content, "logprobs": None, "finish_reason": reason}
        document = self._document([choice], chunk=True)
        return document | {"usage": None} if self.include_usage else document


def usage(answer: Answer) -> dict[str, Any]:
    """Tokens of prompt and answer; ``cached_tokens`` were not computed again."""
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.generated_tokens,
        "total_tokens": answer.prompt_tokens + answer.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.reused_tokens},
    }


def model_document(name: str, created: int) -> dict[str, Any]:
    """A row of ``/v1/models``."""
    return {"id": name, "object": "model", "created": created, "owned_by": "ork"}
