"""Short seeded slices of what ``make fuzz`` and ``make soak`` run for long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orkbench_tui.driver.uapi import MemFlag
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import DATA, UNCACHED, Client
from tests.sim.robustness import fuzz, soak, starts
from tests.sim.robustness.guarded_memory import guarded


@pytest.mark.parametrize("flags", [DATA, UNCACHED])
@pytest.mark.parametrize("where", [-1, 0])
def test_a_byte_written_beside_a_buffer_is_noticed(flags: int, where: int) -> None:
    """The control: what the fuzzer looks for would be found."""
    with guarded() as memory:
        board = InProcessBoard()
        Client(board.device()).allocate(8192, flags)
        memory.check()
        page = memory.pages[where]
        page[17] ^= 1
        with pytest.raises(AssertionError, match="beside a buffer"):
            memory.check()
        board.close()
    assert (len(memory.pages) == 3) == bool(flags & MemFlag.CACHEABLE)


class _Chosen(random.Random):
    """Draws one given number."""

    which = 0

    def randrange(self, *arguments: int) -> int:
        return self.which


def test_every_program_that_mutations_start_from_runs() -> None:
    board, source = InProcessBoard(), _Chosen()
    for which in range(starts.COUNT):
        source.which = which
        client = Client(board.device())
        start = starts.make(client, source)
        _, tasks = client.write_programs([start.words[:-4]], start.enable)
        assert client.submit(tasks, 1).task_counter == 1, start.name
        client.device.close()
    board.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_programs_and_calls_break_nothing(seed: int) -> None:
    outcome = fuzz.run(400, seed)
    assert outcome.cases == 400
    assert outcome.endings["ok"] > 5, "mutations so heavy that nothing runs test little"
    assert outcome.endings["ETIMEDOUT"] > 20


def test_four_clients_at_once_get_exact_results_and_leave_nothing(runtime_dir: Path) -> None:
    found = soak.run(3.0, seed=1)
    assert found.jobs > 20
    assert found.wrong == 0
    assert found.npu_bytes == 0
