"""What makes figures not comparable."""

from __future__ import annotations

from orkbench_tui.runner.bench.conditions import BoardState, FileMark, changes_during, standing_reasons

QUIET = BoardState(
    "board",
    preflight=True,
    governors={"npu": "userspace", "cpu A76": "performance", "ddr": "dmc_ondemand"},
    clocks={"npu": 1_000_000_000, "cpu A76": 2_256_000_000, "ddr": 2_112_000_000},
    temperatures={"soc": 45.0},
    resets=1,
)
FILE = FileMark("/m/tiny.gguf", 100, 5, 7)


def changed(**fields: object) -> list[str]:
    values = {name: getattr(QUIET, name) for name in BoardState.__slots__} | fields
    return changes_during(QUIET, BoardState(**values), (FILE,), (FILE,), (0.0, 0.01))


def test_a_quiet_board_gives_no_reason() -> None:
    assert changed() == [] and standing_reasons(QUIET) == []
    assert QUIET.fit is True and BoardState("board").fit is None


def test_a_failed_preflight_and_the_simulated_board_are_named() -> None:
    state = BoardState("sim", failed=("npu.clock",), preflight=True)
    assert state.fit is False
    assert [reason.split(":")[0] for reason in standing_reasons(state)] == [
        "the preflight failed",
        "simulated board",
    ]
    assert "88 degrees" in standing_reasons(BoardState("board", temperatures={"soc": 88.0}))[0]


def test_throttling_in_mid_run_is_seen() -> None:
    assert changed(clocks={**QUIET.clocks, "npu": 800_000_000}) == [
        "throttled: npu fell from 1000 to 800 MHz"
    ]
    assert changed(temperatures={"soc": 86.2}) == ["reached 86 degrees"]


def test_a_clock_its_governor_moves_is_no_throttling() -> None:
    assert changed(clocks={**QUIET.clocks, "ddr": 528_000_000}) == []


def test_governors_and_resets_are_watched() -> None:
    assert changed(governors={**QUIET.governors, "cpu A76": "ondemand"}) == [
        "governor of cpu A76 changed from performance to ondemand"
    ]
    assert changed(resets=3) == ["2 NPU resets meanwhile"]


def test_another_file_in_the_model_s_place_is_seen() -> None:
    swapped = FileMark(FILE.path, 100, 6, 8)
    assert changes_during(QUIET, QUIET, (FILE,), (swapped,), ()) == ["/m/tiny.gguf was changed meanwhile"]
    assert changes_during(QUIET, QUIET, (FILE,), (), ()) == ["/m/tiny.gguf was changed meanwhile"]


def test_a_clock_that_was_set_is_seen() -> None:
    assert changes_during(QUIET, QUIET, (), (), (0.0, -3600.0)) == [
        "the clock was set by -3600.0 s meanwhile"
    ]
