"""What must be confirmed before a plan is carried out, by its class; enter alone is never a yes."""

from __future__ import annotations

from collections.abc import Callable

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.guard.declaration import Plan, Risk

__all__ = ["demanded", "require"]


def demanded(plan: Plan) -> str:
    """The exact words that confirm the plan."""
    words = {Risk.REVERSIBLE: "y", Risk.INTERRUPTS: plan.host, Risk.UNREACHABLE: f"{plan.host} {plan.phrase}"}
    return words[plan.operation.risk].strip()


def require(plan: Plan, *, yes: bool, confirm: str, ask: Callable[[str], str] | None, know: str = "") -> None:
    """Return when the plan is confirmed. ``confirm`` is what ``--confirm`` said, ``know`` what ``--i-know`` said
    (the operation's name, with ``--yes``); ``ask`` is None without a terminal.

    Raises:
        RefusedError: it is not, with the flag that would.
    """
    wanted = demanded(plan)
    reversible = plan.operation.risk is Risk.REVERSIBLE
    flag = "--yes" if reversible else f"--confirm '{wanted}'" if " " in wanted else f"--confirm {wanted}"
    if confirm and confirm != wanted and not reversible:
        raise RefusedError(
            f"--confirm {confirm!r} is not this board", why=f"it is {wanted!r}", do=f"use {flag}"
        )
    named = know in (plan.operation.name, plan.operation.called.rpartition(" ")[2])
    if know and not named:
        raise RefusedError(
            f"--i-know {know!r} is not this operation", why=f"it is {plan.operation.name!r}", do=f"use {flag}"
        )
    if (yes and (reversible or named)) or confirm == wanted:
        return
    if ask is None:
        raise RefusedError(
            f"{plan.operation.name} was not confirmed", why="there is no terminal to ask on", do=f"add {flag}"
        )
    question = "go on? [y/N] " if reversible else f"type {wanted!r} to go on: "
    answer = ask(question)
    if answer != wanted and not (reversible and answer in ("Y", "yes")):
        raise RefusedError(f"{plan.operation.name} was not confirmed", why="nothing was changed")
