"""The one way a guard says no. ``python -m orkbench_tui.driver.guards`` prints docs/guards.md."""

from __future__ import annotations

import sys
from typing import NoReturn

from orkbench_tui.driver.guard_table import GUARDS, Guard, Reaction
from orkbench_tui.errors import RefusedError

__all__ = ["GUARDS", "Guard", "Reaction", "markdown", "refuse", "warning"]


def refuse(guard_id: str, *, seen: str, do: str = "") -> NoReturn:
    """Raise the refusal of one guard, before anything has been touched.

    ``seen`` is the offending value with the allowed range; ``do`` replaces the table's way out.

    Raises:
        RefusedError: always; its line names the guard, the value, the consequence and the evidence.
    """
    guard = GUARDS[guard_id]
    raise RefusedError(
        f"{guard.id}, {guard.condition}",
        why=f"{seen}; {guard.consequence} [{guard.evidence}]",
        do=do or guard.action,
    )


def warning(guard_id: str, *, seen: str) -> str:
    """The line of a guard that warns and goes on."""
    guard = GUARDS[guard_id]
    return f"{guard.id}, {guard.condition}: {seen}; {guard.consequence} [{guard.evidence}]; {guard.action}"


_INTRODUCTION = """\
# Guards

What must not happen on this hardware, and what stops it. A guard speaks before the device is touched; its
message names the guard, the value seen, the consequence and the evidence, and a refusal ends the command with
exit code 7. `ork npu guards` prints the same rows, `ork npu guards GRD-02` one of them.

- **refuse**: no flag lifts it. **refuse unless**: a probe or a named unsafe setting lifts it, and the result is
  marked. **run on CPU**: the work is done there. **warn**: shown, and the work goes on. **not offered**: no such path
  exists in this program.
- **enforced** names the function that refuses or warns with the guard's id. *otherwise*: what holds the condition off
  in other words or by construction, and where. *by absence*: why no such path exists. *not yet*: nothing stands in.

This page is printed from `orkbench_tui/driver/guard_table` by `python -m orkbench_tui.driver.guards`.
"""


def markdown() -> str:
    """docs/guards.md."""
    lines = [
        _INTRODUCTION,
        "| id | concerns | condition | consequence | reaction | instead | enforced | evidence |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for guard in GUARDS.values():
        enforced = f"`{guard.enforced_in}`" if guard.enforced_in else guard.enforced
        if guard.how:
            enforced += f": {guard.how}"
        if guard.stands_in:
            enforced += f" (`{guard.stands_in}`)"
        cells = (
            guard.id,
            guard.place,
            guard.condition,
            guard.consequence,
            guard.reaction,
            guard.action,
            enforced,
            guard.evidence,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
