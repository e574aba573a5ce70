"""Plans carried out, taken back, resumed and kept apart."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from orkbench_tui.errors import BusyError, ExitCode, InvalidFileError, RefusedError
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.journal import folder, history, interrupted
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import Killed, SimEffects, guarded, nodes

NPU = "/sys/class/devfreq/fdab0000.npu/governor"
DDR = "/sys/class/devfreq/dmc/governor"


def _plan(board: GuardedBoard, *steps: Step, checks: tuple[Check, ...] = ()) -> Plan:
    def plan(board: GuardedBoard, words: Words) -> Plan:
        return Plan(operation, board.host, steps=steps, checks=checks, words=words)

    operation = Operation("test", "a test", Risk.REVERSIBLE, "to see", "", "", plan)
    return operation.plan(board, {})


def _up(node: str, before: str) -> Step:
    return Step("write", node, before, "performance")


def test_each_intent_is_in_the_journal_before_its_effect(sim: InProcessBoard, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    class Watching(SimEffects):
        def record(self, journal: Path, line: bytes) -> None:
            seen.append((json.loads(line)["event"], nodes(sim)[NPU]))
            super().record(journal, line)

    board = guarded(sim, tmp_path, Watching(sim))
    outcome = engine.run(board, _plan(board, _up(NPU, "rknpu_ondemand")))
    assert (outcome.kind, outcome.steps_done) == ("done", 1)
    old, new = "rknpu_ondemand", "performance"
    assert seen == [("begin", old), ("intent", old), ("done", new), ("end", new)]
    (run,) = history(tmp_path)
    assert dict(run.intents) == {0: old} and run.outcome == "done" and run.host == "rock-5b"
    assert folder(tmp_path).stat().st_mode & 0o777 == 0o700 and run.path.stat().st_mode & 0o777 == 0o600


def test_a_failed_step_takes_back_those_before_it(sim: InProcessBoard, tmp_path: Path) -> None:
    before = nodes(sim)
    board = guarded(sim, tmp_path, SimEffects(sim, fail_writes_to=DDR))
    outcome = engine.run(board, _plan(board, _up(NPU, "rknpu_ondemand"), _up(DDR, "dmc_ondemand")))
    assert outcome.kind == "rolled back" and "Input/output error" in outcome.text
    assert nodes(sim) == before and history(tmp_path)[0].undone == {0, 1}


def test_a_value_that_does_not_read_back_is_a_failure(sim: InProcessBoard, tmp_path: Path) -> None:
    class Deaf(SimEffects):
        def write(self, path: str, data: bytes) -> None:
            if path != DDR:
                super().write(path, data)

    before = nodes(sim)
    board = guarded(sim, tmp_path, Deaf(sim))
    outcome = engine.run(board, _plan(board, _up(NPU, "rknpu_ondemand"), _up(DDR, "dmc_ondemand")))
    assert outcome.kind == "rolled back" and "reads 'dmc_ondemand'" in outcome.text and nodes(sim) == before


def test_an_undo_that_fails_is_said_and_never_hidden(sim: InProcessBoard, tmp_path: Path) -> None:
    class Once(SimEffects):
        def write(self, path: str, data: bytes) -> None:
            if data == b"rknpu_ondemand\n" or path == DDR:
                raise OSError(5, "Input/output error")
            super().write(path, data)

    board = guarded(sim, tmp_path, Once(sim))
    outcome = engine.run(board, _plan(board, _up(NPU, "rknpu_ondemand"), _up(DDR, "dmc_ondemand")))
    assert outcome.kind == "inconsistent" and NPU in outcome.text and not outcome.ok


def test_a_plan_grown_old_is_not_carried_out(sim: InProcessBoard, tmp_path: Path) -> None:
    board = guarded(sim, tmp_path)
    plan = _plan(board, _up(NPU, "rknpu_ondemand"), _up(DDR, "dmc_ondemand"))
    sim.files().write(DDR, b"powersave\n")
    outcome = engine.run(board, plan)
    assert outcome.kind == "rolled back" and "the plan saw 'dmc_ondemand'" in outcome.text
    assert nodes(sim)[NPU] == "rknpu_ondemand" and nodes(sim)[DDR] == "powersave"


def test_a_failed_check_changes_nothing(sim: InProcessBoard, tmp_path: Path) -> None:
    board = guarded(sim, tmp_path)
    plan = _plan(board, _up(NPU, "rknpu_ondemand"), checks=(Check("fail", "a second way in", "none"),))
    with pytest.raises(RefusedError, match="a second way in: none"):
        engine.run(board, plan)
    assert history(tmp_path) == [] and nodes(sim)[NPU] == "rknpu_ondemand"


def _interrupted(sim: InProcessBoard, state: Path, at: int) -> None:
    board = guarded(sim, state, SimEffects(sim, stop_at=at, after=True))
    with pytest.raises(Killed):
        engine.run(board, OPERATIONS["governors"].plan(board, {}))


def test_after_an_interruption_nothing_starts_until_it_is_resumed(
    sim: InProcessBoard, tmp_path: Path
) -> None:
    before = nodes(sim)
    _interrupted(sim, tmp_path, 5)
    assert nodes(sim) != before
    board = guarded(sim, tmp_path)
    with pytest.raises(RefusedError, match="ork board resume"):
        engine.run(board, OPERATIONS["drop-caches"].plan(board, {}))
    (outcome,) = engine.resume(board)
    assert (outcome.kind, nodes(sim)) == ("rolled back", before)
    assert engine.run(board, OPERATIONS["drop-caches"].plan(board, {})).ok


def test_what_was_complete_is_closed_and_kept(sim: InProcessBoard, tmp_path: Path) -> None:
    total = SimEffects(sim)
    board = guarded(sim, tmp_path / "count", total)
    engine.run(board, OPERATIONS["governors"].plan(board, {}))
    engine.run(board, OPERATIONS["governors"].plan(board, {"mode": "restore"}))
    _interrupted(sim, tmp_path, total.count // 2 - 2)
    (outcome,) = engine.resume(guarded(sim, tmp_path))
    assert (outcome.kind, nodes(sim)[NPU]) == ("done", "performance")


def test_a_reboot_in_between_leaves_nothing_to_take_back(tmp_path: Path) -> None:
    first, second = InProcessBoard(), InProcessBoard()
    _interrupted(first, tmp_path, 5)
    second.files().write(NPU, b"powersave\n")
    (outcome,) = engine.resume(guarded(second, tmp_path))
    assert outcome.kind == "gone" and nodes(second)[NPU] == "powersave"
    assert interrupted(tmp_path, "sim") == []
    first.close()
    second.close()


def test_a_value_somebody_set_since_is_left_to_them(sim: InProcessBoard, tmp_path: Path) -> None:
    _interrupted(sim, tmp_path, 5)
    sim.files().write(NPU, b"powersave\n")
    (outcome,) = engine.resume(guarded(sim, tmp_path))
    assert outcome.kind == "inconsistent" and "powersave" in outcome.text
    assert nodes(sim)[NPU] == "powersave" and nodes(sim)[DDR] == "dmc_ondemand"


def test_two_operations_exclude_each_other(sim: InProcessBoard, tmp_path: Path) -> None:
    board = guarded(sim, tmp_path)
    with contextlib.closing(engine.operations_lock(board)), pytest.raises(BusyError, match="in use"):
        engine.operations_lock(board)
    engine.operations_lock(board).close()


def _changed(state: Path, change: str) -> None:
    (path,) = folder(state).glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    head = json.loads(lines[0])
    if change == "newer":
        head["version"] = 2
        lines[0] = json.dumps(head).encode() + b"\n"
    elif change == "damaged":
        lines[1] = b"\x00garbage\n"
    elif change == "foreign step":
        lines[1] = b'{"event": "intent", "step": 99, "found": null}\n'
    elif change == "pipe":
        path.unlink()
        os.mkfifo(path)
        return
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ("newer", RefusedError, ExitCode.REFUSED),
        ("damaged", InvalidFileError, ExitCode.FAILED),
        ("foreign step", InvalidFileError, ExitCode.FAILED),
        ("pipe", InvalidFileError, ExitCode.FAILED),
    ],
)
def test_a_journal_that_cannot_be_read_stops_everything(
    sim: InProcessBoard, tmp_path: Path, change: str, error: type[Exception], code: ExitCode
) -> None:
    _interrupted(sim, tmp_path, 5)
    _changed(tmp_path, change)
    now, board = nodes(sim), guarded(sim, tmp_path)
    for attempt in (
        lambda: engine.resume(board),
        lambda: engine.run(board, OPERATIONS["drop-caches"].plan(board, {})),
    ):
        with pytest.raises(error) as caught:
            attempt()
        assert caught.value.exit_code == code  # type: ignore[attr-defined]
    assert nodes(sim) == now
