"""What ``ork run bench read`` does: another tool's output as figures, shares of operations, or stacks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from orkbench_tui.cli import output
from orkbench_tui.cli.input import standard_input
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.plain_text import one_line
from orkbench_tui.user_files import read_text_bounded

__all__ = ["read_output"]

_BYTES = 8 << 20


def read_output(path: Path, *, json: bool) -> None:
    """Print what the text holds; figures first, else stacks, else shares of operations.

    Raises:
        InvalidFileError: nothing that is known.
    """
    from orkbench_tui.runner.bench.foreign import foreign_lines, read_foreign
    from orkbench_tui.runner.bench.profiles import op_shares, stack_profile

    text = standard_input(_BYTES) if str(path) == "-" else read_text_bounded(path, _BYTES, "output of a tool")
    try:
        figures = read_foreign(text)
    except InvalidFileError as error:
        unknown = error
    else:
        if json:
            _emit({"figures": [dataclasses.asdict(row) for row in figures]})
        else:
            output.emit("\n".join(one_line(line, 200) for line in foreign_lines(figures)))
        return
    try:
        stacks = stack_profile(text)
    except InvalidFileError:
        pass
    else:
        if json:
            _emit({"stacks": {**dataclasses.asdict(stacks), "dominant": stacks.dominant or None}})
            return
        output.emit(f"{stacks.samples} stacks: {stacks.dominant or 'nothing dominates'}")
        output.emit("\n".join(f"{count:>6}  {name}" for name, count in stacks.frames[:20]))
        return
    try:
        shares = op_shares(text)
    except InvalidFileError:
        raise unknown from None
    if json:
        _emit({"operations": [dataclasses.asdict(share) for share in shares]})
    else:
        output.emit("\n".join(f"{s.name:<24} {s.ms:>12.3f} ms {s.percent:>6.1f} %" for s in shares[:40]))


def _emit(data: dict[str, object]) -> None:
    output.emit_json("run.bench.read", data, source="host")
