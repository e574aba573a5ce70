"""The options that every command of a guarded operation has, said once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

__all__ = ["Consent", "JsonOption", "TargetOption", "with_consent"]

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]


@dataclass(frozen=True, slots=True)
class Consent:
    """How far a command may go without asking, and what it works on. ``i_know`` is the operation's name."""

    dry_run: bool
    yes: bool
    i_know: str
    confirm: str
    json: bool
    target: str | None


def _options(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; with --i-know for what is risky.")] = False,
    i_know: Annotated[
        str,
        typer.Option("--i-know", metavar="OPERATION", help="With --yes: do not ask; the operation's name."),
    ] = "",
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="HOST", help="Do not ask; what would have to be typed.")
    ] = "",
    json: JsonOption = False,
    target: TargetOption = None,
) -> None: ...


_SHARED = tuple(inspect.signature(_options, eval_str=True).parameters.values())


def with_consent(act: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the options of ``act`` after its first parameter, a Consent, and the shared ones."""
    own = list(inspect.signature(act, eval_str=True).parameters.values())[1:]

    def command(**given: Any) -> None:
        act(Consent(**{shared.name: given.pop(shared.name) for shared in _SHARED}), **given)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *_SHARED)]
    command.__name__, command.__doc__ = act.__name__, act.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
