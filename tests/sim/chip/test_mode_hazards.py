"""What a run leaves in a core: residue of a precision, and cold first results; per core, until a reset."""

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.first_output import CleanMarks
from orkbench_tui.sim.chip.mode_residue import SPOILS, ModeResidue, RunKind, run_kind
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import UNCACHED, Client, matmul

CLEAN, INVALIDATE = 1, 2


@pytest.fixture
def board():
    board = InProcessBoard()
    yield board
    board.close()


@pytest.fixture
def client(board):
    return Client(board.device())


# -- residue --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "linked", "kind"),
    [
        (Precision.INT8, False, RunKind.INT8),
        (Precision.INT8, True, RunKind.INT8),
        (Precision.INT4, False, RunKind.INT4),
        (Precision.INT4, True, RunKind.INT4_LINKED),
        (Precision.FP16, True, RunKind.WIDE),
        (Precision.INT16, False, RunKind.WIDE),
        (Precision.TF32, True, RunKind.WIDE),
    ],
)
def test_kinds_of_runs(precision, linked, kind):
    assert run_kind(precision, linked=linked) is kind


@pytest.mark.parametrize("left", RunKind)
@pytest.mark.parametrize("kind", RunKind)
def test_every_pair_of_runs(left, kind):
    residue = ModeResidue()
    assert residue.run(left) is False, "nothing spoils the first run after a reset"
    assert residue.run(kind) is ((left, kind) in SPOILS)


def test_the_pairs_that_spoil():
    assert {
        ("linked int4", "int8"),
        ("int8", "linked int4"),
        ("16 bits or more", "linked int4"),
    } == SPOILS


def test_a_spoiled_core_stays_so_through_integer_runs_and_a_wide_run_ends_it():
    residue = ModeResidue()
    runs = [RunKind.INT8, RunKind.INT4_LINKED, RunKind.INT4, RunKind.INT4_LINKED, RunKind.INT8]
    assert [residue.run(kind) for kind in runs] == [False, True, True, True, True]
    assert residue.run(RunKind.WIDE) is False
    assert residue.run(RunKind.INT8) is False


# -- cold first results ---------------------------------------------------------------------------


def test_pages_that_were_not_cleaned_since_the_owner_s_reset_are_stale():
    marks = CleanMarks(3 * uapi.PAGE)
    at = np.array([0, uapi.PAGE - 16, uapi.PAGE, 2 * uapi.PAGE])
    assert marks.stale(at).all()
    marks.clean(uapi.PAGE, 1)
    assert marks.stale(at).tolist() == [True, True, False, True]
    marks.owner_resets()
    assert marks.stale(at).all()
    marks.clean(0, 3 * uapi.PAGE)
    assert not marks.stale(at).any()


def _dirty_matmul(client, flags=0x403, seed=0):
    """A matmul whose result buffer was allocated and never synced, as a careless program does it."""
    work = matmul(client, 4, 32, 32, seed=seed)
    plain = uapi.MemCreate(flags=flags, size=work.memory_c.size)
    made = client.call(uapi.RKNPU_MEM_CREATE, plain)
    offset = client.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=made.handle)).offset
    work.memory_c.view = np.frombuffer(client.device.mmap(offset, made.size), np.uint8)
    work.memory_c.obj_addr, work.memory_c.handle = made.obj_addr, made.handle
    words = work.commands.view.view(np.uint64)
    old, new = work.memory_c.iova, made.dma_addr
    for index, word in enumerate(words.tolist()):
        if word >> 16 & 0xFFFF_FFFF == old:
            words[index] = word & ~(0xFFFF_FFFF << 16) | new << 16
    work.memory_c.iova = new
    client.sync(work.commands, CLEAN)
    return work


def _is_right(work, sync=True):
    return np.array_equal(work.result(sync=sync), work.expected)


def test_the_first_result_into_a_fresh_cached_buffer_is_covered_and_a_warm_pass_cures_it(client):
    work = _dirty_matmul(client)
    client.submit(work.tasks, 1)
    assert not _is_right(work) and not work.result().any()
    client.submit(work.tasks, 1)
    assert _is_right(work)


def test_a_clean_before_the_run_cures_it_too(client):
    work = _dirty_matmul(client)
    client.sync(work.memory_c, CLEAN)
    client.submit(work.tasks, 1)
    assert _is_right(work)


def test_uncached_memory_has_no_lines_that_could_cover_a_result(client):
    work = _dirty_matmul(client, UNCACHED)
    client.submit(work.tasks, 1)
    assert _is_right(work, sync=False)


def test_a_core_is_warm_whatever_it_ran_and_every_core_for_itself(client):
    first, second = _dirty_matmul(client), _dirty_matmul(client, seed=1)
    client.submit(first.tasks, 1)
    client.submit(second.tasks, 1)
    assert _is_right(second), "core 0 was warmed by another program"
    client.submit(first.tasks, 1, core_mask=2, slots={1: (0, 1)})
    client.submit(second.tasks, 1)
    third = _dirty_matmul(client, seed=2)
    client.submit(third.tasks, 1, core_mask=4, slots={2: (0, 1)})
    assert not _is_right(third), "core 2 had run nothing"


def test_a_reset_makes_every_core_cold_again(client):
    work = _dirty_matmul(client)
    client.sync(work.memory_c, CLEAN)
    client.submit(work.tasks, 1)
    assert _is_right(work)
    client.action(uapi.ActionCode.ACT_RESET)
    work.memory_c.view[:] = 0
    client.sync(work.memory_c, INVALIDATE)
    before = work.result().copy()
    work.a[:] = -work.a
    client.put(work.memory_a, work.a)
    client.submit(work.tasks, 1)
    np.testing.assert_array_equal(work.result(), before)
    client.submit(work.tasks, 1)
    assert _is_right(work)


def test_another_client_s_reset_takes_no_results_of_memory_that_was_cleaned(board, client):
    work = _dirty_matmul(client)
    client.sync(work.memory_c, CLEAN)
    client.submit(work.tasks, 1)
    Client(board.device()).action(uapi.ActionCode.ACT_RESET)
    work.a[:] = -work.a
    client.put(work.memory_a, work.a)
    client.submit(work.tasks, 1)
    assert _is_right(work)


def test_within_the_cold_run_later_programs_still_see_what_was_written(client):
    """The lines are written back when the run is over, and the whole run is one first output."""
    work = _dirty_matmul(client)
    twice = matmul(client, 4, 32, 32, copies=3)
    client.submit(twice.tasks, 3)
    assert _is_right(twice)
    client.submit(work.tasks, 1)
    assert _is_right(work)
