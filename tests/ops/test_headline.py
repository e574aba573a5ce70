"""Trouble that others caused is in the board's one word: storms of resets, what a boot does not get back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.screens.views.next_step import next_step
from orkbench_tui.sim.inprocess import InProcessBoard


def _after(tmp_path: Path, fault: str, seconds: int) -> tuple[str, str]:
    board, now = InProcessBoard(), [100.0]
    collector = Collector(board.files(), tmp_path, steady=lambda: now[0])
    try:
        collector.sample()
        if fault:
            board.machine.set_fault(fault)
        for _ in range(seconds):
            now[0] += 1.0
            board.clock.sit_out(1_000_000_000)
            sample = collector.sample()
        head = headline(sample)
        return f"{head.word} {head.reason}", next_step(sample)[0]
    finally:
        board.close()


def test_nothing_set_is_ok(tmp_path: Path) -> None:
    assert _after(tmp_path, "", 3) == ("OK ", "")


@pytest.mark.parametrize(
    ("count", "first_s", "word"), [(9, 92.0, "WARN"), (2, 92.0, "OK"), (9, 10.0, "OK"), (40, 10.0, "WARN")]
)
def test_a_storm_of_resets_is_trouble_and_a_few_are_not(
    tmp_path: Path, count: int, first_s: float, word: str
) -> None:
    board = InProcessBoard()
    sample = Collector(board.files(), tmp_path).sample()
    board.close()
    row = LogRow(
        "npu.reset", Severity.NOTICE, "soft reset, num: 6", "", "", count, int(first_s * 1e6), 99_000_000
    )
    sample = replace(sample, uptime_s=100.0, log=replace(sample.log, rows=(row,)))
    assert headline(sample).word == word
    assert ("NPU resets within 15 s" in headline(sample).reason) is (word == "WARN")
    assert ("drain (5)" in next_step(sample)[0]) is (word == "WARN")
    assert headline(replace(sample, uptime_s=200.0)).word == "OK"


@pytest.mark.parametrize(
    ("fault", "words"),
    [("iova-leak", "not taken back: address space is lost"), ("process-stuck-D", "task that hangs")],
)
def test_what_only_a_reboot_ends_is_trouble(tmp_path: Path, fault: str, words: str) -> None:
    said, step = _after(tmp_path, fault, 4)
    assert said.startswith("WARN ") and words in said
    assert "reboot (5)" in step
