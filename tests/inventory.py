"""Which rows of the product's inventory are covered by which tests.

``python -m tests.inventory`` prints covered/total per section and fails when a named test does not
exist. The rows themselves are numbered INV-001.. and GRD-01..; ``inventory.toml`` maps ids to tests.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("inventory.toml")


@dataclass(frozen=True, slots=True)
class Section:
    """A run of rows with one prefix, ``first`` to ``last``."""

    number: int
    title: str
    prefix: str
    first: int
    last: int

    @property
    def ids(self) -> list[str]:
        width = 3 if self.prefix == "INV" else 2
        return [f"{self.prefix}-{number:0{width}}" for number in range(self.first, self.last + 1)]


def load(path: Path = TABLE) -> tuple[list[Section], dict[str, list[str]]]:
    """Sections, and test ids by row id."""
    table = tomllib.loads(path.read_text())
    return [Section(**section) for section in table["section"]], table["covered"]


def defined_tests(path: Path) -> set[str]:
    """Names of the test functions and classes a file defines."""
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def problems(sections: list[Section], covered: dict[str, list[str]]) -> list[str]:
    """What is wrong with the table: unknown rows, rows without tests, tests that do not exist."""
    known = {row for section in sections for row in section.ids}
    found = []
    for row, tests in covered.items():
        if row not in known:
            found.append(f"{row}: no such row")
        if not tests:
            found.append(f"{row}: no test named")
        for test in tests:
            file, _, name = test.partition("::")
            if name.partition("[")[0] not in defined_tests(ROOT / file):
                found.append(f"{row}: no test {test}")
    return found


def main() -> int:
    sections, covered = load()
    for section in sections:
        count = sum(row in covered for row in section.ids)
        print(f"{section.number:>3}  {section.title:<42} {count:>3}/{len(section.ids)}")
    total = sum(len(section.ids) for section in sections)
    print(f"     {'all':<42} {len(covered):>3}/{total}")
    wrong = problems(sections, covered)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
