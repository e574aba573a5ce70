"""A disk that fills up under the journal: nothing that is not written down is done, and resume takes the rest back."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from orkbench_tui.errors import DeniedError, NoMemoryError
from orkbench_tui.ops.guard import effects, engine
from orkbench_tui.ops.guard.effects import append_durably
from orkbench_tui.ops.guard.journal import history, interrupted
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded, nodes


class FullDisk(SimEffects):
    """The disk takes half of the line after so many, and no more."""

    lines_left = 0

    def record(self, journal: Path, line: bytes) -> None:
        if self.lines_left == 0:
            append_durably(journal, line[: len(line) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(journal))
        self.lines_left -= 1
        super().record(journal, line)


@pytest.mark.parametrize("lines", range(1, 12))
def test_it_stops_there_says_what_to_do_and_resume_puts_the_board_right(
    sim: InProcessBoard, tmp_path: Path, lines: int
) -> None:
    before = nodes(sim)
    full = FullDisk(sim)
    full.lines_left = lines
    board = guarded(sim, tmp_path, full)
    plan = OPERATIONS["governors"].plan(board, {"mode": "performance"})
    with pytest.raises(NoMemoryError) as caught:
        engine.run(board, plan)
    assert caught.value.do.endswith("free some, then run `ork board resume`")
    (run,) = interrupted(tmp_path, "sim")
    assert run.torn and len(run.done) <= len(run.intents) <= len(plan.steps)
    written = sum(now != was for now, was in zip(nodes(sim).values(), before.values(), strict=True))
    assert written <= len(run.intents), "a step was done that is not in the journal"
    engine.resume(guarded(sim, tmp_path))
    after = before | {step.subject: step.after for step in plan.steps}
    assert nodes(sim) in (before, after) and interrupted(tmp_path, "sim") == []


def test_before_the_first_line_nothing_was_begun(sim: InProcessBoard, tmp_path: Path) -> None:
    before = nodes(sim)
    board = guarded(sim, tmp_path, FullDisk(sim))
    with pytest.raises(NoMemoryError) as caught:
        engine.run(board, OPERATIONS["governors"].plan(board, {"mode": "performance"}))
    assert "resume" not in caught.value.line()
    assert history(tmp_path) == [] and nodes(sim) == before
    assert engine.run(guarded(sim, tmp_path), OPERATIONS["drop-caches"].plan(board, {})).ok


def test_a_place_for_journals_that_cannot_be_made_is_named(sim: InProcessBoard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    board = guarded(sim, tmp_path / "file")
    with pytest.raises(DeniedError, match="journal of operations"):
        engine.run(board, OPERATIONS["drop-caches"].plan(guarded(sim, tmp_path), {}))


def test_a_line_the_disk_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(effects.os, "write", lambda fd, data: write(fd, data[:7]))
    path = tmp_path / "journal.jsonl"
    for number in range(3):
        append_durably(path, json.dumps({"event": "intent", "step": number}).encode() + b"\n")
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1, 2]
