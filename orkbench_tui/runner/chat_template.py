"""Chat templates: a model's own Jinja source turned into the text it was trained on.

A template is a program from a stranger, so it runs sandboxed and bounded (``template_sandbox.py``). What
it cannot do is the error of that one rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.plain_text import one_line

__all__ = ["ChatTemplate", "ChatTemplateError", "Message", "UnusableTemplate"]

MAX_SOURCE_CHARS = 1 << 18

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""


class ChatTemplateError(InvalidFileError):
    """A template that does not parse, refuses the conversation, or exceeds its budget."""


class ChatTemplate:
    """One compiled template. ``bos`` and ``eos`` are the spellings the template may print."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        if len(source) > MAX_SOURCE_CHARS:
            raise ChatTemplateError("the model's chat template is too long", why=f"{len(source)} characters")
        from orkbench_tui.runner.template_sandbox import TemplateSandbox

        self._bos, self._eos = bos, eos
        self._sandbox = TemplateSandbox()
        with _as_template_error("the model's chat template does not parse"):
            self._template = self._sandbox.compile_counted(source)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text for ``messages``; names not given stay undefined, as templates expect.

        A template that refuses a system message gets it folded into the first user message instead.

        Raises:
            ChatTemplateError: with the template's own message where it raised one.
        """
        from orkbench_tui.runner.template_sandbox import RaisedByTemplateError

        variables: dict[str, Any] = {"add_generation_prompt": add_generation_prompt}
        variables |= {"bos_token": self._bos, "eos_token": self._eos, **(extra or {})}
        plain = [dict(message) for message in messages]
        with _as_template_error("the model's chat template failed"):
            try:
                return self._sandbox.render_bounded(self._template, {**variables, "messages": plain})
            except RaisedByTemplateError as error:
                folded = _system_folded(plain)
                if folded is None or "system" not in str(error).lower():
                    raise
                return self._sandbox.render_bounded(self._template, {**variables, "messages": folded})


class UnusableTemplate(ChatTemplate):
    """A template that cannot be compiled: every conversation is refused with its error, plain text goes on."""

    def __init__(self, error: ChatTemplateError) -> None:
        self._error = error

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """Raises:
        ChatTemplateError: always.
        """
        raise self._error


def _system_folded(messages: list[dict[str, str]]) -> list[dict[str, str]] | None:
    """The conversation with its system text at the head of the first user message, or None without both."""
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        return None
    first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
    return [first, *messages[2:]]


@contextmanager
def _as_template_error(what: str) -> Iterator[None]:
    """Everything a template can throw, as one ChatTemplateError."""
    try:
        yield
    except Exception as error:
        raise ChatTemplateError(
            what,
            why=one_line(str(error), 200) or type(error).__name__,
            do="`ork run complete` continues plain text without it",
        ) from error
