"""A wedged core is told from a busy one."""

from __future__ import annotations

import time
from pathlib import Path

from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.stillness import Stillness
from orkbench_tui.sim.inprocess import InProcessBoard


def test_only_full_load_without_completions_counts() -> None:
    still = Stillness()
    assert still.seconds(0, 100, 5, 10.0) == 0.0
    assert still.seconds(0, 100, 5, 13.0) == 3.0
    assert still.seconds(0, 100, 6, 14.0) == 0.0
    assert still.seconds(0, 99, 6, 15.0) == 0.0
    assert still.seconds(0, 100, 6, 16.0) == 0.0
    assert still.seconds(0, None, 6, 17.0) == 0.0


def test_a_wedge_set_elsewhere_becomes_the_headline_and_ends_with_a_reset(tmp_path: Path) -> None:
    board = InProcessBoard()
    now = [100.0]
    collector = Collector(board.files(), tmp_path, steady=lambda: now[0])

    def sampled() -> str:
        now[0] += 1.0
        board.clock.sit_out(1_000_000_000)
        found = headline(collector.sample())
        return f"{found.word} {found.reason}"

    assert sampled() == "OK "
    board.machine.set_fault("wedge")
    states = [sampled() for _ in range(5)]
    assert states[-1].startswith("ERROR wedged: core 0, 1, 2 busy for")
    board.kernel.scheduler.soft_reset()
    time.sleep(0.01)
    assert [sampled() for _ in range(3)][-1] == "OK "
    board.close()
