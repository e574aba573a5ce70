"""Every probe on the simulated board, and that its control can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.timing.hypotheses import closed
from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.probes import attention, chains, experts, memory, modes, submits, walls
from orkbench_tui.ops.probes.asking import ask, closed_warnings
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import linear_fit
from orkbench_tui.sim.inprocess import InProcessBoard

NEEDS_A_BOARD = {"submit-split", "cpu-shadow", "overlap-ceiling", "fill", "percore-mode", "reset-gap"}
"""Their verdict is about speed, or about what nobody has seen on silicon."""

RACES = {"halt", "live-patch"}
"""They change a run that goes on meanwhile, and may come too late on a machine that is busy."""

_FIGURE = re.compile(r"\b\d+(?:\.\d+)? (?:us|ns|ms|GB/s)\b")
_QUANTITY = re.compile(r"\b(?:us|GB/s|share|ratio|speed-up|ceiling|gain)\b")
_LABELS = ("(host)", "(predicted)", "(published)")
_AN_INPUT = "us/tile"
"""What a tile is taken to cost, not what it cost."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    board = InProcessBoard()
    with Npu(board.device(), heap=board.heap) as npu:
        yield Bench(npu, "sim")
    board.close()


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_answers_on_the_simulated_board(name: str, bench: Bench) -> None:
    result = ask(PROBES[name], bench)
    assert result.control.ok or name in RACES, result.control.seen
    if name in NEEDS_A_BOARD:
        assert result.answer.verdict is Verdict.INCONCLUSIVE and result.answer.why
    elif name in RACES:
        assert result.answer.verdict is not Verdict.FAIL
    else:
        assert result.answer.verdict is Verdict.PASS, result.answer.why
    labels = {figure.label for figure in result.answer.figures}
    assert labels <= {"host", "predicted", "published"}
    assert not any("(measured)" in column for column in result.answer.columns)
    for text in (result.control.seen, result.answer.why):
        assert not _FIGURE.search(text) or any(label in text for label in _LABELS), text
    for column in result.answer.columns:
        assert column == _AN_INPUT or not _QUANTITY.search(column) or column.endswith(_LABELS), column
    widths = {len(row) for row in result.answer.rows}
    assert widths <= {len(result.answer.columns)}
    json.dumps(result.document(), allow_nan=False)


def test_every_probe_says_what_it_asks_and_how_it_judges() -> None:
    assert len(PROBES) >= 20
    for name, probe in PROBES.items():
        assert name == probe.name
        assert probe.question.endswith("?") and probe.formula and probe.rule and probe.positive
        for hypothesis in probe.closed:
            assert closed(hypothesis)


def test_closed_hypotheses_are_warned_of_with_their_evidence() -> None:
    lines = closed_warnings(PROBES["decode-bandwidth"])
    assert len(lines) == 9 and all("GRD-57" in line for line in lines)
    assert "8.81 GB/s" in lines[0]


def _probe(control: Control, answer: Answer, harm: str = "") -> Probe:
    return Probe("p", "q?", "f", "r", "c", lambda bench: control, lambda bench: answer, harm=harm)


def test_a_control_that_fails_leaves_the_verdict_open(bench: Bench) -> None:
    found = ask(_probe(Control(False, "nothing"), Answer(Verdict.PASS, "fine")), bench)
    assert found.answer.verdict is Verdict.INCONCLUSIVE and "nothing" in found.answer.why


def test_what_may_disturb_a_board_needs_consent(bench: Bench) -> None:
    board = Bench(bench.npu, "board")
    harmful = _probe(Control(True, "s"), Answer(Verdict.PASS, "w"), harm="it may reset")
    with pytest.raises(RefusedError, match=r"it may reset.*--consent"):
        ask(harmful, board)
    assert ask(harmful, board, consent=True).answer.verdict is Verdict.PASS
    assert ask(harmful, bench).answer.verdict is Verdict.PASS


def test_a_figure_that_is_no_number_is_unknown(bench: Bench) -> None:
    answer = Answer(Verdict.PASS, "w", (Figure("rate", float("inf"), "GB/s", "host"),))
    found = ask(_probe(Control(True, "s"), answer), bench)
    assert found.answer.figures[0].value is None


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("chain-bench", chains),
        ("core-scaling", submits),
        ("kv-append", attention),
        ("self-loop", walls),
        ("expert-gemm", experts),
        ("expert-phases", experts),
        ("domain-switch", memory),
    ],
)
def test_results_that_are_not_what_they_must_be_pass_nothing(
    name: str, module: ModuleType, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = module.exact
    monkeypatch.setattr(module, "exact", lambda a, b: right(a, b) + 1)
    assert ask(PROBES[name], bench).answer.verdict is not Verdict.PASS


def test_a_mode_is_inconclusive_where_the_hazard_does_not_show(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "_without_reset", lambda bench, first, second: 0)
    found = ask(PROBES["percore-mode"], bench)
    assert not found.control.ok and found.answer.verdict is Verdict.INCONCLUSIVE


def test_a_mode_on_a_board_is_judged_by_the_other_core(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Bench(bench.npu, "board")
    monkeypatch.setattr(modes, "_without_reset", lambda bench, first, second: 7 if first == second else 0)
    assert ask(PROBES["percore-mode"], board, consent=True).answer.verdict is Verdict.PASS
    monkeypatch.setattr(modes, "_without_reset", lambda bench, first, second: 7)
    assert ask(PROBES["percore-mode"], board, consent=True).answer.verdict is Verdict.FAIL


def test_a_line_is_fitted() -> None:
    assert linear_fit([1, 2, 3], [5, 7, 9]) == (3.0, 2.0, 1.0)
    assert linear_fit([1, 2, 3, 4], [5, 1, 9, 2])[2] < 0.1
    for xs, ys in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 2])):
        with pytest.raises(ValueError, match=r"line needs|same x"):
            linear_fit(xs, ys)
