"""The guards, as rows by subject: what must not happen, what it did to a board, and what stops it here.

``enforced_in`` names the function that refuses or warns with the guard's id, as ``module:function``. A
new check sets it in its row and adds a trigger to tests/driver/test_guards.py. Where nothing carries the id,
``how`` says what holds the condition off and ``stands_in`` where; without a place no such path exists.
With neither, nothing stands in yet. docs/guards.md is printed from these rows by ``driver/guards.py``.

"Roadmap" is the optimization roadmap of the oRKLLM stack; what it measured is oRKLLM/ork-driver's.
"""

from __future__ import annotations

from orkbench_tui.driver.guard_table import arithmetic, board, figures, memory, packing, submits
from orkbench_tui.driver.guard_table.guard import Guard, Reaction

__all__ = ["GUARDS", "Guard", "Reaction"]

_TABLES = (submits, memory, arithmetic, packing, figures, board)

GUARDS: dict[str, Guard] = {
    guard.id: guard
    for guard in sorted((row for table in _TABLES for row in table.ROWS), key=lambda row: row.id)
}
