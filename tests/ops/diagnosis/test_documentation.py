"""docs/diagnosis.md lists the classes as the code has them."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.ops.diagnosis.classes import CLASSES

PAGE = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def table() -> str:
    """The table between the markers; to change it, change the code and paste this."""
    rows = ["| class | severity | means | looks at |", "|---|---|---|---|"]
    rows += [f"| `{c.name}` | {c.severity.word} | {c.meaning} | {c.looks_at} |" for c in CLASSES]
    return "\n".join(rows)


def test_the_class_table_is_the_code() -> None:
    text = PAGE.read_text()
    between = text.split("<!-- classes -->")[1].split("<!-- /classes -->")[0].strip()
    assert between == table()
