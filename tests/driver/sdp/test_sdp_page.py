"""docs/element-wise.md is what the tables print."""

from pathlib import Path

from orkbench_tui.driver.sdp.page import markdown
from orkbench_tui.driver.sdp.table import ROWS

PAGE = Path(__file__).parents[3] / "docs" / "element-wise.md"


def test_the_page_is_printed_from_the_tables():
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_every_row_has_a_line_of_its_own():
    lines = markdown().splitlines()
    for row in ROWS:
        assert sum(line.startswith(f"| {row.op} | {row.dtype} |") for line in lines) == 1
