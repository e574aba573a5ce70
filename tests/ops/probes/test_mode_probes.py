"""Probes of precisions and lost rounds: what they count is what happened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orkbench_tui.driver.modes import ModeKnobs
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.timing.submits import reset_ns
from orkbench_tui.ops.probes import transitions
from orkbench_tui.ops.probes.asking import ask
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.ops.probes.concurrency import count_stalls
from orkbench_tui.ops.probes.declaration import Bench, Verdict
from orkbench_tui.ops.probes.transitions import handoff_resets
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.driver.gated_board import FaultyDevice, is_nonblock


@pytest.fixture
def board() -> Iterator[InProcessBoard]:
    board = InProcessBoard()
    yield board
    board.close()


def test_a_transition_costs_milliseconds_and_only_int4_pays(board: InProcessBoard) -> None:
    with Npu(board.device()) as npu:
        result = ask(PROBES["transition-cost"], Bench(npu, "sim"))
    cost = {(row[0], row[1]): (row[2], row[3], row[4]) for row in result.answer.rows}
    assert result.answer.verdict is Verdict.PASS
    assert cost["int8", "int4"] == cost["int4", "int8"] == (0, 1, 105.0)
    assert cost["fp16", "int8"] == cost["int4", "int4"] == (0, 0, 0.0)


def test_without_keeping_warm_the_same_probe_says_so(board: InProcessBoard) -> None:
    with Npu(board.device(), knobs=ModeKnobs(f16warm=False)) as npu:
        result = ask(PROBES["transition-cost"], Bench(npu, "sim"))
    cost = {(row[0], row[1]): row[3] for row in result.answer.rows}
    assert result.answer.verdict is Verdict.FAIL and cost["fp16", "int8"] == 1
    assert cost["int4", "int4"] == 0, "back to back is one mode, whatever is kept warm"


@pytest.mark.parametrize("warm", [True, False])
def test_resets_of_a_pass_are_those_the_table_foretells(board: InProcessBoard, warm: bool) -> None:
    knobs = ModeKnobs(f16warm=warm)
    with Npu(board.device(), knobs=knobs) as npu:
        result = ask(PROBES["keep-warm"], Bench(npu, "sim"))
    layers, resets, without = result.answer.rows[0]
    assert resets == handoff_resets(4, knobs) and layers == 4 and isinstance(without, int)
    assert result.answer.verdict is (Verdict.PASS if warm else Verdict.FAIL)
    saved = next(figure for figure in result.answer.figures if figure.name == "saved a layer")
    assert saved.label == "predicted"
    assert saved.value == pytest.approx(reset_ns(without - resets) / 1e6 / 4)


def test_a_reset_s_time_is_recovered_only_where_leaving_it_out_gains_it(
    board: InProcessBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Npu(board.device()) as npu:
        bench = Bench(npu, "board")
        times = iter((100.0, 210_100.0, 100.0, 40_000.0))
        spans = iter([0, 105_000_000] * 200)

        def clocked(step: object, repeat: int = 5) -> float:
            step()  # type: ignore[operator]
            return next(times)

        monkeypatch.setattr(transitions, "median_us", clocked)
        monkeypatch.setattr(transitions.time, "perf_counter_ns", lambda: next(spans))
        assert transitions._gap(bench).verdict is Verdict.PASS
        found = transitions._gap(bench)
        assert found.verdict is Verdict.FAIL and "a wait that is paid anyway" in found.why


@pytest.mark.parametrize("every", [0, 10, 50])
def test_lost_rounds_are_counted_and_come_back_right(board: InProcessBoard, every: int) -> None:
    rounds, seen = 50, [0]

    def lost(request: int, argument: bytearray, nth: int) -> bool:
        if not every or not is_nonblock(request, argument):
            return False
        seen[0] += 1
        return seen[0] % every == 0

    with Npu(FaultyDevice(board, lost), timeout_ms=50) as npu:
        found = count_stalls(npu, 64, 544, rounds)
    assert (found.failed, found.mismatches) == (0, 0)
    assert found.stalls == (seen[0] // every if every else 0)
    assert found.rate == pytest.approx({0: 0.0, 10: 0.1, 50: 0.02}[every], abs=0.021)
