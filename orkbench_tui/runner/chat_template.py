"""Chat templates: a model's own Jinja source turned into the text it was trained on.

A template is a program from a stranger, so it runs sandboxed, with a budget of steps, a deadline and a
limit on what it may build. What it cannot do is the error of that one rendering.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.plain_text import one_line

if TYPE_CHECKING:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["ChatTemplate", "ChatTemplateError", "Message"]

MAX_SOURCE_CHARS = 1 << 18
MAX_STEPS = 200_000
MAX_TEXT_CHARS = 4 << 20
MAX_SECONDS = 5.0

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""


class ChatTemplateError(InvalidFileError):
    """A template that does not parse, refuses the conversation, or exceeds its budget."""


class _RaisedByTemplate(Exception):
    """The template called ``raise_exception``."""


class _BudgetExceeded(Exception):
    """The template ran too long or built too much."""


@dataclass(slots=True)
class _Budget:
    """What one rendering may still use."""

    steps: int
    deadline: float

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise _BudgetExceeded(f"more than {MAX_STEPS} steps")
        if time.monotonic() > self.deadline:
            raise _BudgetExceeded(f"more than {MAX_SECONDS:.0f} s")


class ChatTemplate:
    """One compiled template. ``bos`` and ``eos`` are the spellings the template may print."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        if len(source) > MAX_SOURCE_CHARS:
            raise ChatTemplateError("the model's chat template is too long", why=f"{len(source)} characters")
        self._bos, self._eos = bos, eos
        self._environment: Any = _environment_class()()
        with _as_template_error("the model's chat template does not parse"):
            self._template: jinja2.Template = self._environment.compile_counted(source)

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, extra: Mapping[str, Any] | None = None
    ) -> str:
        """The prompt text for ``messages``.

        A template that refuses a system message gets it folded into the first user message instead.

        Raises:
            ChatTemplateError: with the template's own message where it raised one.
        """
        variables = {"add_generation_prompt": add_generation_prompt, "bos_token": self._bos, "eos_token": self._eos}
        variables |= dict(extra or {})
        with _as_template_error("the model's chat template failed"):
            try:
                return self._rendered({**variables, "messages": [dict(message) for message in messages]})
            except _RaisedByTemplate as error:
                folded = _system_folded(messages)
                if folded is None or "system" not in str(error).lower():
                    raise
                return self._rendered({**variables, "messages": folded})

    def _rendered(self, variables: dict[str, Any]) -> str:
        self._environment.budget = _Budget(MAX_STEPS, time.monotonic() + MAX_SECONDS)
        pieces: list[str] = []
        length = 0
        for piece in self._template.generate(**variables):
            self._environment.budget.spend()
            length += len(piece)
            if length > MAX_TEXT_CHARS:
                raise _BudgetExceeded(f"more than {MAX_TEXT_CHARS} characters")
            pieces.append(piece)
        return "".join(pieces)


def _system_folded(messages: Sequence[Message]) -> list[dict[str, str]] | None:
    """The conversation with its system text at the head of the first user message, or None without both."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return None
    first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
    return [first, *(dict(message) for message in messages[2:])]


class _as_template_error:  # noqa: N801 - reads as a statement where it is used
    """Everything a template can throw, as one ChatTemplateError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ChatTemplateError):
            why = one_line(str(error), 200) or type(error).__name__
            do = "the conversation is kept; /reset starts a new one" if isinstance(error, _RaisedByTemplate) else ""
            raise ChatTemplateError(self._what, why=why, do=do) from error


def _raise_exception(message: object) -> NoReturn:
    raise _RaisedByTemplate(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter, as models were trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_WIDE_FORMAT = re.compile(r"\d{5}|\{[^{}]*\{")
_HIDDEN_METHODS = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs"})
_HIDDEN_FILTERS = ("center", "format", "wordwrap", "pprint")
_HIDDEN_GLOBALS = ("lipsum",)


@cache
def _environment_class() -> type[ImmutableSandboxedEnvironment]:
    """The sandbox. Built on first use, so that importing this module does not import jinja2."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.visitor import NodeTransformer

    class Generation(Extension):
        """Passes ``{% generation %}…{% endgeneration %}`` through: the tag only marks what training masks."""

        tags = {"generation"}  # noqa: RUF012 - the base class declares it so

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class _WithoutConcat(NodeTransformer):
        """``a ~ b`` as a filter, because the sandbox sees filters and not this operator."""

        def visit_Concat(self, node: Any) -> Any:  # noqa: N802 - the visitor's naming
            items = nodes.List([self.visit(item) for item in node.nodes], lineno=node.lineno)
            return nodes.Filter(items, "_joined", [], [], None, None, lineno=node.lineno)

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def __init__(self) -> None:
            super().__init__(
                trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
            )
            self.budget = _Budget(MAX_STEPS, float("inf"))
            self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
            self.filters |= {"tojson": _tojson, "_counted": self._counted, "_joined": self._joined}
            self.filters |= {"replace": _replace, "indent": _indent}
            for name in _HIDDEN_FILTERS:
                del self.filters[name]
            for name in _HIDDEN_GLOBALS:
                del self.globals[name]

        def compile_counted(self, source: str) -> jinja2.Template:
            """Compile with every loop drawing on the budget."""
            tree = self.parse(source)
            for loop in tree.find_all(nodes.For):
                loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
            return self.from_string(_WithoutConcat().visit(tree))

        def _joined(self, values: Sequence[Any]) -> str:
            self.budget.spend()
            return _bounded("".join(_bounded([str(value) for value in values])))

        def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
            for value in values:
                self.budget.spend()
                yield value

        def call(self, context: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            self.budget.spend()
            owner = getattr(function, "__self__", None)
            if isinstance(owner, str):
                _check_method(owner, getattr(function, "__name__", ""), args)
            return _bounded(super().call(context, function, *args, **kwargs))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            self.budget.spend()
            if operator == "**" or (operator == "%" and isinstance(left, str)):
                raise _BudgetExceeded(f"{operator!r} is not available to templates")
            if operator == "*":
                _check_product(left, right)
            return _bounded(super().call_binop(context, operator, left, right))

        def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
            formatter = super().wrap_str_format(value)
            if formatter is not None and _WIDE_FORMAT.search(str(value.__self__)):
                raise _BudgetExceeded("a format with a computed or very wide field")
            return formatter

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in _HIDDEN_METHODS and super().is_safe_attribute(obj, attr, value)

    return Sandbox


def _check_product(left: Any, right: Any) -> None:
    """Refuse ``text * number`` before it is built."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple) and isinstance(other, int) and len(one) * other > MAX_TEXT_CHARS:
            raise _BudgetExceeded(f"more than {MAX_TEXT_CHARS} characters")
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 1024:
        raise _BudgetExceeded("a number of more than 1024 bits")


def _check_method(text: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Refuse string methods whose result can be far larger than what they are given."""
    if name == "replace" and len(arguments) >= 2:
        _check_replace(text, str(arguments[0]), str(arguments[1]))
    if name == "join" and arguments and isinstance(arguments[0], list | tuple):
        _check_product(text, len(arguments[0]))


def _check_replace(text: str, old: str, new: str) -> None:
    times = text.count(old)
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT_CHARS:
        raise _BudgetExceeded(f"more than {MAX_TEXT_CHARS} characters")


def _replace(text: object, old: object, new: object, count: int = -1) -> str:
    _check_replace(str(text), str(old), str(new))
    return str(text).replace(str(old), str(new), count)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, 256)
    lines = str(text).split("\n")
    _check_product(margin, len(lines))
    return "\n".join(
        margin + line if (first or i) and (blank or line.strip()) else line for i, line in enumerate(lines)
    )


def _bounded(value: Any) -> Any:
    """``value``, unless it is longer than a rendering may be."""
    if isinstance(value, str | list | tuple) and len(value) > MAX_TEXT_CHARS:
        raise _BudgetExceeded(f"more than {MAX_TEXT_CHARS} characters")
    return value
