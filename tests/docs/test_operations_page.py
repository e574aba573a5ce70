"""docs/operations.md says what the declarations say."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.ops.guard.confirmation import demanded
from orkbench_tui.ops.kernel.registry import KERNEL_OPERATIONS
from orkbench_tui.ops.operations.rebind import REBIND
from orkbench_tui.ops.operations.recover import LADDER, MAX_RUNG
from orkbench_tui.ops.operations.registry import OPERATIONS, table
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import guarded

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def test_the_table_is_that_of_the_declarations() -> None:
    assert table() in PAGE
    assert all(f"`ork board {name}`" in PAGE for name in OPERATIONS)


def test_the_word_after_the_host_name_is_the_one_asked_for(tmp_path: Path) -> None:
    board = InProcessBoard()
    plan = OPERATIONS["rebind"].plan(guarded(board, tmp_path), {})
    assert f"`--confirm 'HOST {demanded(plan).removeprefix(f'{plan.host} ')}'`" in table({"rebind": REBIND})
    assert "`--confirm 'HOST RELEASE'`" in table(KERNEL_OPERATIONS)
    board.close()


def test_the_table_of_kernels_is_that_of_the_declarations() -> None:
    assert table(KERNEL_OPERATIONS) in (Path(__file__).parents[2] / "docs" / "kernel.md").read_text()


def test_every_rung_is_described() -> None:
    rows = [
        line.split("|")[1:4] for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") == 4
    ]
    asked = {row[0].strip(): row[2].strip() for row in rows}
    assert {rung.name: "yes" if rung.risky else "no" for rung in LADDER}.items() <= asked.items()
    assert asked[str(MAX_RUNG)] == "yes"
