"""The filters and methods chat templates may use: those whose work and result are bounded by what they are given.

Jinja has more; ``slice``, ``batch`` and ``round`` can make any amount out of one number. A template that names a
filter which is not here does not parse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from jinja2 import pass_environment, pass_eval_context
from jinja2.defaults import DEFAULT_FILTERS
from jinja2.nodes import EvalContext

from orkbench_tui.runner.template_budget import MAX_TEXT_CHARS, require_product, too_long

__all__ = ["FILTERS", "TEXT_METHODS", "require_replacement"]

MAX_INDENT = 256
_MAX_DIGITS = 100

_PLAIN = """
    abs capitalize count d default dictsort e escape first float forceescape groupby int items last length list
    lower map max min reject rejectattr reverse safe select selectattr sort string striptags title trim truncate
    unique upper urlencode wordcount
"""

_METHODS = """
    capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric
    isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition
    rsplit rstrip split splitlines startswith strip swapcase title upper
"""

TEXT_METHODS = frozenset(_METHODS.split())
"""Methods of a text; ``translate``, ``ljust``, ``zfill`` and the like make far more than they are given."""


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter, as models were trained on."""
    narrow = None if indent is None else min(indent, MAX_INDENT)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=narrow, separators=separators, sort_keys=sort_keys
    )
    pieces: list[str] = []
    length = 0
    # Indented, something deep is far longer than what it holds.
    for piece in encoder.iterencode(value):
        length += len(piece)
        if length > MAX_TEXT_CHARS:
            raise too_long()
        pieces.append(piece)
    return "".join(pieces)


def require_replacement(text: str, old: str, new: str) -> None:
    """Refuse a replacement before it is built."""
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT_CHARS:
        raise too_long()


def _replace(text: object, old: object, new: object, count: int | None = None) -> str:
    require_replacement(str(text), str(old), str(new))
    return str(text).replace(str(old), str(new), -1 if count is None else count)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, MAX_INDENT)
    lines = str(text).split("\n")
    require_product(margin, len(lines))
    return "\n".join(
        margin + line if (first or number) and (blank or line.strip()) else line
        for number, line in enumerate(lines)
    )


@pass_eval_context
def _join(eval_ctx: EvalContext, values: Iterable[Any], d: str = "", attribute: str | None = None) -> Any:
    whole = list(islice(values, MAX_TEXT_CHARS))
    require_product(str(d), len(whole))
    return DEFAULT_FILTERS["join"](eval_ctx, whole, d, attribute)


@pass_environment
def _sum(environment: Any, values: Iterable[Any], attribute: str | None = None) -> Any:
    """Of numbers alone: lists added one to the other take the square of what they hold."""
    return DEFAULT_FILTERS["sum"](environment, values, attribute)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    digits = max(-_MAX_DIGITS, min(precision, _MAX_DIGITS))
    return float(DEFAULT_FILTERS["round"](value, digits, method))


FILTERS: dict[str, Callable[..., Any]] = {
    **{name: DEFAULT_FILTERS[name] for name in _PLAIN.split()},
    "tojson": _tojson,
    "replace": _replace,
    "indent": _indent,
    "join": _join,
    "sum": _sum,
    "round": _round,
}
