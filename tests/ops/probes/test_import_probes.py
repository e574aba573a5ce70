"""Probes of imports: they find the limits there are, and a wrong last column."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orkbench_tui.driver.domains import Domains
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.probes.asking import ask
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.ops.probes.declaration import Bench, Verdict
from orkbench_tui.ops.probes.imports import highest_that_works
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.kernel import domains as simulated


@pytest.fixture
def bench() -> Iterator[Bench]:
    board = InProcessBoard()
    with Npu(board.device(), heap=board.heap) as npu:
        yield Bench(npu, "sim", board.files())
    board.close()


def test_halving_finds_every_limit_with_few_tries() -> None:
    for limit in range(1, 25):
        tried: list[int] = []

        def works(count: int, limit: int = limit, tried: list[int] = tried) -> bool:
            tried.append(count)
            return count <= limit

        assert highest_that_works(works, 2, 24) == limit
        assert len(tried) == len(set(tried)) <= 5


def test_all_columns_are_right_with_the_anchor_and_the_last_is_not_without(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ask(PROBES["import-first"], bench)
    assert result.answer.verdict is Verdict.PASS
    assert [row[2:] for row in result.answer.rows] == [(18944, 18944)] * 5
    monkeypatch.setattr(Domains, "anchor", lambda self, domain: None)
    broken = PROBES["import-first"].ask(Bench(bench.npu, "sim"))
    assert broken.verdict is Verdict.PASS, "these domains are made already"
    board = InProcessBoard()
    with Npu(board.device(), heap=board.heap) as other:
        fresh = PROBES["import-first"].ask(Bench(other, "sim"))
    board.close()
    assert fresh.verdict is Verdict.FAIL
    assert all(row[2] == 18944 != row[3] for row in fresh.rows), "C[0] is right all the same"


@pytest.mark.parametrize("limit", [6, 11])
def test_the_count_found_is_the_simulated_kernel_s(
    bench: Bench, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "MAX_MAPPINGS", limit)
    result = ask(PROBES["import-count"], bench)
    assert result.answer.verdict is Verdict.PASS and result.answer.why.startswith(f"{limit} mappings work")
    assert {row[1] for row in result.answer.rows} == {"exact", "fails"}


def test_sizes_are_timed_and_the_board_s_memory_is_watched(bench: Bench) -> None:
    rows = ask(PROBES["import-size"], bench).answer.rows
    assert [row[1] for row in rows] == [16, 20, 24, 32, 48, 64] * 2
    assert [row[2] == "imported" for row in rows[:6]] == [True, False, False, False, False, False]
    assert all(isinstance(row[3], float) and row[3] > 0 for row in rows)
    assert all(row[4] == pytest.approx(242.3, abs=20) and row[5] is not None for row in rows)
    unwatched = ask(PROBES["import-size"], Bench(bench.npu, "sim")).answer.rows
    assert {row[4:] for row in unwatched} == {(None, None)}


def test_past_the_guards_only_with_consent(bench: Bench) -> None:
    for name in ("import-count", "import-size"):
        with pytest.raises(RefusedError, match="may disturb the board"):
            ask(PROBES[name], Bench(bench.npu, "board"))
