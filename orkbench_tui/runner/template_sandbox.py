"""The sandbox chat templates run in: jinja2's, with a budget and limits on what may be built.

Every value a template builds is weighed before it can be used for a larger one, so none outgrows a fixed
size, and what they come to in all is limited too. Importing this module imports jinja2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orkbench_tui.runner.template_budget import (
    MAX_TEXT_CHARS,
    Budget,
    BudgetError,
    require_product,
    too_long,
)
from orkbench_tui.runner.template_filters import FILTERS, TEXT_METHODS, require_replacement
from orkbench_tui.runner.template_rewrite import COUNTED, JOINED, TAKEN, WEIGHED, GenerationTag, rewritten

__all__ = ["BudgetError", "RaisedByTemplateError", "TemplateSandbox"]

_WIDE_FORMAT = re.compile(r"\d{5}|\{[^{}]*\{")
_HIDDEN_GLOBALS = ("lipsum",)


class RaisedByTemplateError(Exception):
    """The template called ``raise_exception``."""


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One template's environment; the budget is renewed for each rendering."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            finalize=self._printed,
        )
        self.budget = Budget.fresh()
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        for name in _HIDDEN_GLOBALS:
            del self.globals[name]
        self.filters: dict[str, Callable[..., Any]] = {
            name: self._bounded(function) for name, function in FILTERS.items()
        }
        self.filters |= {
            COUNTED: self._counted,
            JOINED: self._joined,
            TAKEN: self._taken,
            WEIGHED: self._weighed,
        }
        tests: dict[str, Any] = dict(self.tests)
        self.tests = {name: self._bounded(function) for name, function in tests.items()}

    def compile_counted(self, source: str) -> jinja2.Template:
        """Compile so that everything draws on the budget; what is constant is computed here, within one too."""
        self.budget = Budget.fresh()
        return self.from_string(rewritten(self.parse(source)))

    def render_bounded(self, template: jinja2.Template, variables: dict[str, Any]) -> str:
        """The text of one rendering within a fresh budget, or BudgetError."""
        self.budget = Budget.fresh()
        pieces: list[str] = []
        length = 0
        for piece in template.generate(**variables):
            self.budget.spend()
            length += len(piece)
            if length > MAX_TEXT_CHARS:
                raise too_long()
            pieces.append(piece)
        return "".join(pieces)

    def call(self, context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.budget.spend()
        self._weight_of(args, kwargs)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str):
            args = _checked_arguments(owner, getattr(function, "__name__", ""), args)
        return self.budget.take(super().call(context, function, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.budget.spend()
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise BudgetError(f"{operator!r} is not available to templates")
        if operator == "*":
            require_product(left, right)
        return self.budget.take(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None
        template = str(value.__self__)
        if _WIDE_FORMAT.search(template):
            raise BudgetError("a format with a computed or very wide field")

        @wraps(formatter)
        def bounded(*args: Any, **kwargs: Any) -> str:
            # At worst every field is the whole of what is given.
            if len(template) + template.count("{") * self._weight_of(args, kwargs) > MAX_TEXT_CHARS:
                raise too_long()
            return formatter(*args, **kwargs)

        return bounded

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        # Methods of numbers write them as bytes of any length.
        return not isinstance(obj, int | float | complex | bytes) and super().is_safe_attribute(
            obj, attr, value
        )

    @jinja2.pass_context
    def _printed(self, context: Any, value: Any) -> str:
        """What is written for an expression: also within macros and blocks, whose text nobody else sees grow.

        With a context, so that no constant is written beforehand and then repeated for nothing.
        """
        self.budget.weigh(value)
        text: str = self.budget.take(value if isinstance(value, str) else str(value))
        return text

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter or test that weighs what it gets and what it gives; what it gives bit by bit is counted."""

        @wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._weight_of(args, kwargs)
            found = function(*args, **kwargs)
            return self._counted(found) if isinstance(found, Iterator) else self.budget.take(found)

        return bounded

    def _weight_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Of all that is given to a function; BudgetError where that is too much for one value."""
        total = sum(self.budget.weigh(given) for given in (*args, *kwargs.values()))
        if total > MAX_TEXT_CHARS:
            raise too_long()
        return total

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.budget.spend()
            yield value

    def _joined(self, values: Sequence[Any]) -> str:
        self.budget.spend()
        self.budget.weigh(values)
        return str(self.budget.take("".join([str(value) for value in values])))

    def _taken(self, value: Any) -> Any:
        return self.budget.take(value)

    def _weighed(self, value: Any) -> Any:
        self.budget.weigh(value)
        return value


def _raise_exception(message: object) -> NoReturn:
    raise RaisedByTemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _checked_arguments(text: str, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse string methods whose result can be far larger than what they are given."""
    if name == "replace" and len(arguments) >= 2:
        require_replacement(text, str(arguments[0]), str(arguments[1]))
    if name == "join" and arguments:
        parts = list(arguments[0])
        require_product(text, len(parts))
        return (parts, *arguments[1:])
    return arguments
