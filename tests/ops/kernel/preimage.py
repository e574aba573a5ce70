"""The smallest source tree a series applies to: the lines its hunks name, at their places, and filler between."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.ops.kernel.patch_series import Series

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(eq=False)
class _Cell:
    """One line; None until a hunk says what it holds."""

    text: str | None = None


def make_tree(folder: Path, series: Series, variant: str, driver: str = "drivers/rknpu") -> None:
    """Write the pre-images of every patch of a variant below ``folder``."""
    first: dict[str, list[_Cell]] = {}
    now: dict[str, list[_Cell]] = {}
    for patch in series.patches:
        file = patch.files.get(variant)
        if file is not None:
            for name, hunks in _hunks(file.read_text()).items():
                if name is not None:
                    _apply(first.setdefault(name, []), now.setdefault(name, []), hunks)
    for name, cells in first.items():
        place = folder / driver / name.removeprefix("drivers/rknpu/")
        place.parent.mkdir(parents=True, exist_ok=True)
        lines = [cell.text if cell.text is not None else f"/* line {n} */" for n, cell in enumerate(cells, 1)]
        place.write_text("".join(f"{line}\n" for line in lines))
    header = folder / driver / "include" / "rknpu_drv.h"
    major, minor, level = variant.split(".")
    says = f"#define DRIVER_MAJOR {major}\n#define DRIVER_MINOR {minor}\n#define DRIVER_PATCHLEVEL {level}\n"
    # At the end, so that no line moves.
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text((header.read_text() if header.exists() else "") + says)


def _hunks(text: str) -> dict[str | None, list[tuple[int, list[str]]]]:
    """Per changed file (None for a new one) its hunks: first old line and the hunk's lines."""
    found: dict[str | None, list[tuple[int, list[str]]]] = {}
    name: str | None = None
    left = [0, 0]
    for line in text.split("\n"):
        hunk = _HUNK.match(line)
        if left == [0, 0] and line.startswith("--- "):
            name = None if line == "--- /dev/null" else line.removeprefix("--- a/")
        elif left == [0, 0] and hunk is not None:
            found.setdefault(name, []).append((int(hunk[1]), []))
            left = [int(hunk[2] or 1), int(hunk[4] or 1)]
        elif left != [0, 0]:
            found[name][-1][1].append(line)
            left[0] -= line[:1] in (" ", "-", "")
            left[1] -= line[:1] in (" ", "+", "")
    return found


def _apply(first: list[_Cell], now: list[_Cell], hunks: list[tuple[int, list[str]]]) -> None:
    """Fill in what the hunks want to find, and change ``now`` as they do."""
    out: list[_Cell] = []
    at = 0
    for start, lines in hunks:
        end = start - 1 + sum(line[:1] in (" ", "-", "") for line in lines)
        while len(now) < end:
            cell = _Cell()
            now.append(cell)
            first.append(cell)
        out += now[at : start - 1]
        at = start - 1
        for line in lines:
            if line[:1] == "+":
                out.append(_Cell(line[1:]))
                continue
            cell = now[at]
            assert cell.text in (None, line[1:]), (at + 1, cell.text, line)
            cell.text = line[1:]
            at += 1
            if line[:1] != "-":
                out.append(cell)
    now[:] = [*out, *now[at:]]
