"""The sandbox chat templates run in: jinja2's, with a budget and limits on what may be built.

Importing this module imports jinja2.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

__all__ = ["Budget", "BudgetError", "RaisedByTemplateError", "TemplateSandbox"]

MAX_STEPS = 200_000
MAX_TEXT_CHARS = 4 << 20
MAX_SECONDS = 5.0
MAX_INDENT = 256

_WIDE_FORMAT = re.compile(r"\d{5}|\{[^{}]*\{")
_HIDDEN_METHODS = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs"})
_HIDDEN_FILTERS = ("center", "format", "wordwrap", "pprint")
_HIDDEN_GLOBALS = ("lipsum",)


class RaisedByTemplateError(Exception):
    """The template called ``raise_exception``."""


class BudgetError(Exception):
    """The template ran too long or built too much."""


@dataclass(slots=True)
class Budget:
    """What one rendering may still use."""

    steps: int = MAX_STEPS
    deadline: float = float("inf")

    @staticmethod
    def fresh() -> Budget:
        return Budget(MAX_STEPS, time.monotonic() + MAX_SECONDS)

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise BudgetError(f"more than {MAX_STEPS} steps")
        if time.monotonic() > self.deadline:
            raise BudgetError(f"more than {MAX_SECONDS:.0f} s")


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One template's environment; ``budget`` is renewed for each rendering."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        self.budget = Budget()
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        self.filters |= {"tojson": _tojson, "replace": _replace, "indent": _indent}
        self.filters |= {"_counted": self._counted, "_joined": self._joined}
        for name in _HIDDEN_FILTERS:
            del self.filters[name]
        for name in _HIDDEN_GLOBALS:
            del self.globals[name]

    def compile_counted(self, source: str) -> jinja2.Template:
        """Compile with every loop and every ``~`` drawing on the budget."""
        tree = self.parse(source)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        return self.from_string(_WithoutConcat().visit(tree))

    def render_bounded(self, template: jinja2.Template, variables: dict[str, Any]) -> str:
        """The text of one rendering within a fresh budget, or BudgetError."""
        self.budget = Budget.fresh()
        pieces: list[str] = []
        length = 0
        for piece in template.generate(**variables):
            self.budget.spend()
            length += len(piece)
            if length > MAX_TEXT_CHARS:
                raise _too_long()
            pieces.append(piece)
        return "".join(pieces)

    def call(self, context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.budget.spend()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str):
            _check_method(owner, getattr(function, "__name__", ""), args)
        return _bounded(super().call(context, function, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.budget.spend()
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise BudgetError(f"{operator!r} is not available to templates")
        if operator == "*":
            _check_product(left, right)
        return _bounded(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatter = super().wrap_str_format(value)
        if formatter is not None and _WIDE_FORMAT.search(str(value.__self__)):
            raise BudgetError("a format with a computed or very wide field")
        return formatter

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _HIDDEN_METHODS and super().is_safe_attribute(obj, attr, value)

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.budget.spend()
            yield value

    def _joined(self, values: Sequence[Any]) -> str:
        self.budget.spend()
        texts = [str(value) for value in values]
        if sum(map(len, texts)) > MAX_TEXT_CHARS:
            raise _too_long()
        return "".join(texts)


class _Generation(Extension):
    """Passes ``{% generation %}…{% endgeneration %}`` through: the tag only marks what training masks."""

    tags: set[str] = {"generation"}  # noqa: RUF012 - an instance attribute of the base class

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _WithoutConcat(NodeTransformer):
    """``a ~ b`` as a filter, because the sandbox sees filters and not this operator."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        items = nodes.List([self.visit(item) for item in node.nodes], lineno=node.lineno)
        return nodes.Filter(items, "_joined", [], [], None, None, lineno=node.lineno)


def _raise_exception(message: object) -> NoReturn:
    raise RaisedByTemplateError(str(message))


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
    narrow = None if indent is None else min(indent, MAX_INDENT)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=narrow, separators=separators, sort_keys=sort_keys
    )


def _replace(text: object, old: object, new: object, count: int | None = None) -> str:
    _check_replace(str(text), str(old), str(new))
    return str(text).replace(str(old), str(new), -1 if count is None else count)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, MAX_INDENT)
    lines = str(text).split("\n")
    _check_product(margin, len(lines))
    return "\n".join(
        margin + line if (first or number) and (blank or line.strip()) else line
        for number, line in enumerate(lines)
    )


def _check_product(left: Any, right: Any) -> None:
    """Refuse ``text * number`` before it is built."""
    for one, other in ((left, right), (right, left)):
        if (
            isinstance(one, str | list | tuple)
            and isinstance(other, int)
            and len(one) * other > MAX_TEXT_CHARS
        ):
            raise _too_long()
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 1024:
        raise BudgetError("a number of more than 1024 bits")


def _check_method(text: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Refuse string methods whose result can be far larger than what they are given."""
    if name == "replace" and len(arguments) >= 2:
        _check_replace(text, str(arguments[0]), str(arguments[1]))
    if name == "join" and arguments and isinstance(arguments[0], list | tuple):
        _check_product(text, len(arguments[0]))


def _check_replace(text: str, old: str, new: str) -> None:
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT_CHARS:
        raise _too_long()


def _bounded(value: Any) -> Any:
    """``value``, unless it is longer than a rendering may be."""
    if isinstance(value, str | list | tuple) and len(value) > MAX_TEXT_CHARS:
        raise _too_long()
    return value


def _too_long() -> BudgetError:
    return BudgetError(f"more than {MAX_TEXT_CHARS} characters")
