"""Doorbells: progress, early end, growth, lost jobs, and every call in every state."""

import time

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.completion import ResultWatch
from orkbench_tui.driver.doorbell import DoorbellState
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT8
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.recovery import MAX_ATTEMPTS
from orkbench_tui.errors import NoDeviceError, RefusedError, UnhealthyError
from tests.driver.gated_board import FaultyDevice, Gate, gate_programs, is_nonblock
from tests.driver.path_operands import NARROW, expected, matches, random_matrix

K, N = 512, 32


@pytest.fixture
def random():
    return np.random.default_rng(23)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate()
    gate_programs(monkeypatch, gate)
    yield gate
    gate.let_all()


def _impatient(npu):
    """As if such jobs had been seen to take no time: the window is its floor of 50 ms."""
    for bits in range(48):
        npu.context.windows.of(1 << bits).learn(1e-5)


def _work(npu, random, count, rows=1, format=INT8):
    k, n = K, format.precision.kernel_group
    w = random_matrix(format, (n, k), random)
    weight = npu.load(format, "w", w)
    inputs = [random_matrix(format, (rows, k), random) for _ in range(count)]
    tasks = [ChainTask(weight, rows, a=a, convert=NARROW.get(format.name)) for a in inputs]
    return tasks, inputs, w


def _begun(npu, tasks, reserve=0, core=0):
    doorbell = npu.doorbell(core=core)
    doorbell.build(tasks, reserve=reserve)
    doorbell.begin()
    return doorbell


def _wait_for(doorbell, count):
    end = time.monotonic() + 10
    while doorbell.progress() < count:
        assert time.monotonic() < end
    assert doorbell.progress() == count


def test_begin_does_not_wait_and_progress_is_the_frontier(npu, random, gate):
    tasks, inputs, w = _work(npu, random, 6)
    doorbell = _begun(npu, tasks)
    assert doorbell.progress() == 0
    gate.let(2)
    _wait_for(doorbell, 2)
    gate.let_all()
    assert doorbell.end() == doorbell.progress() == 6
    for output, a in zip(doorbell.outputs, inputs, strict=True):
        np.testing.assert_array_equal(output, expected(INT8, a, w))


def test_progress_counts_without_a_gap(npu, random, gate):
    tasks, _, _ = _work(npu, random, 4)
    doorbell = _begun(npu, tasks)
    entries = doorbell._run.entries
    # A later result appears first: it does not count before the ones in front of it.
    entries[2].task.result.view[:] = 0
    assert doorbell.progress() == 0
    gate.let_all()
    assert doorbell.end() == 4


def test_halt_8_of_16_gives_9_outputs(npu, random, gate):
    tasks, inputs, w = _work(npu, random, 16)
    doorbell = _begun(npu, tasks)
    gate.let(3)
    gate.wait_started(4)
    assert doorbell.halt(8) is True
    assert doorbell.state is DoorbellState.HALTED
    gate.let_all()
    assert doorbell.end() == 9
    for output, a in zip(doorbell.outputs[:9], inputs, strict=False):
        np.testing.assert_array_equal(output, expected(INT8, a, w))
    untouched = doorbell._run.entries[9].task.result
    assert (untouched.view.view(np.int32)[-1:] == 0x7FFFFFFF).all(), "task 9 must not have run"


def test_halt_without_its_sync_does_not_reach_the_controller(npu, random, gate, monkeypatch):
    tasks, _, _ = _work(npu, random, 16)
    doorbell = _begun(npu, tasks)
    gate.let(3)
    gate.wait_started(4)
    sync = Memory.sync
    words = doorbell._run.linked.words.buffer
    monkeypatch.setattr(
        Memory,
        "sync",
        lambda self, part, way: None if getattr(part, "buffer", part) is words else sync(self, part, way),
    )
    doorbell.halt(8)
    gate.let_all()
    assert doorbell.end() == 16, "the run went on, and end counts what came"


def test_a_halt_that_comes_too_late_changes_nothing(npu, random, gate):
    tasks, _, _ = _work(npu, random, 8)
    doorbell = _begun(npu, tasks)
    gate.let(4)
    gate.wait_started(5)
    _wait_for(doorbell, 4)
    assert doorbell.halt(4) is False and doorbell.halt(2) is False
    assert doorbell.state is DoorbellState.SUBMITTED
    gate.let_all()
    assert doorbell.end() == 8


@pytest.mark.parametrize("at", [-1, 6, 7, 8, 100])
def test_halt_is_valid_below_the_last_but_one(npu, random, gate, at):
    tasks, _, _ = _work(npu, random, 8)
    doorbell = _begun(npu, tasks)
    with pytest.raises(RefusedError, match=f"at = {at} of 8 tasks; allowed: 0 to 5"):
        doorbell.halt(at)
    gate.let_all()
    assert doorbell.end() == 8


def test_tasks_are_appended_to_a_running_job(npu, random, gate):
    tasks, inputs, w = _work(npu, random, 6)
    doorbell = _begun(npu, tasks[:3], reserve=3)
    gate.wait_started(1)
    for task in tasks[3:]:
        assert doorbell.append(task) is True
    gate.let_all()
    assert doorbell.end() == 6
    for output, a in zip(doorbell.outputs, inputs, strict=True):
        np.testing.assert_array_equal(output, expected(INT8, a, w))
    assert npu.counters.submits == 1 and npu.counters.drops == 0


def test_an_unused_reserve_ends_the_run_early_and_well(npu, random):
    tasks, inputs, w = _work(npu, random, 3)
    doorbell = _begun(npu, tasks, reserve=5)
    assert doorbell.end() == 3
    np.testing.assert_array_equal(doorbell.outputs[2], expected(INT8, inputs[2], w))
    assert npu.counters.drops == 0


def test_an_append_too_late_changes_nothing(npu, random, gate):
    tasks, _, _ = _work(npu, random, 4)
    doorbell = _begun(npu, tasks[:3], reserve=1)
    gate.let(2)
    _wait_for(doorbell, 2)
    used = npu.memory.used_bytes(0)
    assert doorbell.append(tasks[3]) is False
    assert npu.memory.used_bytes(0) == used
    gate.let_all()
    assert doorbell.end() == 3


def test_an_append_the_controller_passed_by_is_run_all_the_same(npu, random, gate, monkeypatch):
    tasks, inputs, w = _work(npu, random, 4)
    doorbell = _begun(npu, tasks[:3], reserve=1)
    join = type(doorbell._run.linked).join

    def late(self, index):
        gate.let_all()
        end = time.monotonic() + 10
        while doorbell._run.look() and doorbell._run.done < 3:
            assert time.monotonic() < end
        join(self, index)

    monkeypatch.setattr(type(doorbell._run.linked), "join", late)
    assert doorbell.append(tasks[3]) is True
    assert doorbell.end() == 4
    np.testing.assert_array_equal(doorbell.outputs[3], expected(INT8, inputs[3], w))
    assert npu.counters.drops == 0 and npu.counters.resets == 1


def test_appends_beyond_the_reserve_or_of_another_kind_are_refused(npu, random, gate):
    tasks, _, _ = _work(npu, random, 6)
    wide, _, _ = _work(npu, random, 1, format=FP16)
    doorbell = _begun(npu, tasks[:4], reserve=1)
    used = npu.memory.used_bytes(0)
    with pytest.raises(RefusedError, match="fp16 in domain 0 cannot join a run of int8"):
        doorbell.append(wide[0])
    with pytest.raises(RefusedError, match="no activation"):
        doorbell.append(ChainTask(tasks[0].weight, 1))
    assert npu.memory.used_bytes(0) == used
    assert doorbell.append(tasks[4])
    with pytest.raises(RefusedError, match="1 programs, 0 of the reserve left"):
        doorbell.append(tasks[5])
    gate.let_all()
    assert doorbell.end() == 5


# -- lost jobs ------------------------------------------------------------------------------------


def _dropping(board, drops):
    """A device whose first ``drops`` submits that do not wait are never dispatched."""
    lost = []

    def fault(request, argument, nth):
        if is_nonblock(request, argument) and len(lost) < drops:
            lost.append(nth)
            return True
        return False

    return FaultyDevice(board, fault)


@pytest.mark.parametrize("drops", [1, 3, MAX_ATTEMPTS])
@pytest.mark.parametrize("name", ["int8", "fp16", "int4"])
def test_a_job_never_dispatched_is_recovered(board, random, name, drops):
    with Npu(_dropping(board, drops), timeout_ms=2000) as npu:
        format = FORMATS[name]
        tasks, inputs, w = _work(npu, random, 4, format=format)
        _impatient(npu)
        npu.context.windows.of(1)
        doorbell = _begun(npu, tasks)
        resets = npu.counters.resets
        if drops == MAX_ATTEMPTS:
            pytest.MonkeyPatch().setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.05)
        assert doorbell.end() == 4
        used = npu.counters
        assert (used.drops, used.resubmits, used.recovered, used.failed) == (drops, drops, 1, 0)
        assert used.resets - resets == drops
        for output, a in zip(doorbell.outputs, inputs, strict=True):
            assert matches(format, output, a, w)


def test_a_job_that_is_always_lost_raises_and_is_no_result(board, random, monkeypatch):
    monkeypatch.setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.05)
    with Npu(_dropping(board, 99), timeout_ms=2000) as npu:
        tasks, _, _ = _work(npu, random, 2)
        _impatient(npu)
        doorbell = _begun(npu, tasks)
        with pytest.raises(
            UnhealthyError, match=r"never finished: task 0 of 2 .w. wrote no result in 7 submits"
        ):
            doorbell.end()
        used = npu.counters
        assert (used.drops, used.resubmits, used.recovered, used.failed) == (7, 6, 0, 1)
        assert doorbell.state is DoorbellState.DRAINED
        held = npu.memory.used_bytes(0)
        doorbell.close()
        assert npu.memory.used_bytes(0) == held, "the lost job may still write there"
        assert npu.modes.last_mode == "cold"
        assert npu.domain_switching.dirty == (0,)


def test_only_what_is_missing_is_submitted_again(board, random, monkeypatch):
    """The job dies in its fourth program; the three results before it stay as they are."""
    gate = Gate()
    gate.open = True
    with Npu(board.device(), timeout_ms=1) as npu:
        tasks, inputs, w = _work(npu, random, 6)
        _impatient(npu)
        doorbell = npu.doorbell()
        doorbell.build(tasks)
        entry = doorbell._run.entries[3]
        words = doorbell._run.linked.words
        at = entry.first * 896
        whole = words.view[at : at + 8].copy()
        words.view[at : at + 8] = 255
        npu.memory.sync(words, uapi.SyncFlag.TO_DEVICE)
        reset = npu.context.reset

        def repaired():
            words.view[at : at + 8] = whole
            npu.memory.sync(words, uapi.SyncFlag.TO_DEVICE)
            reset()

        doorbell.begin()
        npu.context.reset = repaired
        assert doorbell.end() == 6
        assert npu.counters.drops == 1 and npu.counters.tasks == 6 + 3
        for output, a in zip(doorbell.outputs, inputs, strict=True):
            np.testing.assert_array_equal(output, expected(INT8, a, w))


def test_without_the_pattern_old_memory_passes_for_a_result(npu, random, gate, monkeypatch):
    monkeypatch.setattr(ResultWatch, "seed", lambda self, attempt=0: None)
    tasks, inputs, w = _work(npu, random, 2)
    doorbell = _begun(npu, tasks)
    assert doorbell.end() == 2
    assert not np.array_equal(doorbell.outputs[0], expected(INT8, inputs[0], w))
    gate.let_all()


@pytest.mark.parametrize("cached", [True, False])
def test_results_in_memory_of_the_caller_s(npu, random, cached):
    tasks, inputs, w = _work(npu, random, 3, rows=4)
    outs = [npu.dma_array((4, N), np.int32, cached=cached) for _ in tasks]
    tasks = [ChainTask(t.weight, 4, a=t.a, output=out) for t, out in zip(tasks, outs, strict=True)]
    doorbell = _begun(npu, tasks)
    assert doorbell.end() == 3
    for out, output, a in zip(outs, doorbell.outputs, inputs, strict=True):
        assert out is output
        np.testing.assert_array_equal(out, expected(INT8, a, w))


def test_a_cached_result_polled_without_invalidating_never_comes(npu, random, monkeypatch):
    monkeypatch.setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.05)
    tasks, _, _ = _work(npu, random, 1)
    out = npu.dma_array((1, N), np.int32)
    _impatient(npu)
    doorbell = _begun(npu, [ChainTask(tasks[0].weight, 1, a=tasks[0].a, output=out)])
    touched = doorbell._run.entries[0].watch.touched
    sync = Memory.sync
    monkeypatch.setattr(
        Memory, "sync", lambda self, part, way: None if part == touched else sync(self, part, way)
    )
    with pytest.raises(UnhealthyError, match="never finished"):
        doorbell.end()


# -- states ---------------------------------------------------------------------------------------


def test_calls_in_a_wrong_state_raise_and_submit_nothing(npu, random):
    tasks, _, _ = _work(npu, random, 4)
    doorbell = npu.doorbell()
    calls = {
        "build": lambda: doorbell.build(tasks),
        "begin": doorbell.begin,
        "progress": doorbell.progress,
        "halt": lambda: doorbell.halt(1),
        "append": lambda: doorbell.append(tasks[0]),
        "end": doorbell.end,
        "listing": doorbell.listing,
        "outputs": lambda: doorbell.outputs,
    }

    def refused(*names):
        state, before = doorbell.state, npu.counters
        for name in names:
            with pytest.raises(LifetimeError, match=f"doorbell.{name}: it is {state}; allowed when"):
                calls[name]()
        assert doorbell.state is state and npu.counters == before

    assert doorbell.state is DoorbellState.IDLE
    refused("begin", "progress", "halt", "append", "end", "listing", "outputs")
    calls["build"]()
    refused("build", "progress", "halt", "append", "end")
    calls["begin"]()
    refused("build", "begin")
    with pytest.raises(LifetimeError, match=r"doorbell\.close"):
        doorbell.close()
    assert calls["end"]() == 4
    assert doorbell.progress() == 4 and all("complete" in line for line in doorbell.listing())
    refused("build", "begin", "halt", "append", "end")
    doorbell.close()
    assert doorbell.state is DoorbellState.FREED
    refused("build", "begin", "progress", "halt", "append", "end")


def test_one_doorbell_per_core_and_other_paths_beside_it(npu, random, gate):
    tasks, inputs, w = _work(npu, random, 3)
    doorbell = _begun(npu, tasks)
    second = npu.doorbell()
    second.build(tasks)
    with pytest.raises(LifetimeError, match="core 0 has a doorbell running"):
        second.begin()
    third = _begun(npu, tasks, core=1)
    gate.let_all()
    matmul = npu.matmul([tasks[0].weight], 1)
    matmul.a[:] = inputs[0]
    matmul.run()
    np.testing.assert_array_equal(matmul.outputs[0], expected(INT8, inputs[0], w))
    assert doorbell.end() == third.end() == 3
    second.begin()
    assert second.end() == 3
    assert npu.counters.resets == 1


def test_another_mode_waits_for_no_doorbell_it_raises(npu, random, gate):
    tasks, _, _ = _work(npu, random, 2)
    four, _, _ = _work(npu, random, 1, format=FORMATS["int4"])
    doorbell = _begun(npu, tasks)
    with pytest.raises(LifetimeError, match="entering mode I4"):
        npu.chain(four).run()
    gate.let_all()
    doorbell.end()
    npu.chain(four).run()


def test_another_domain_waits_for_no_doorbell_it_raises(npu, random, gate):
    tasks, _, _ = _work(npu, random, 2)
    far = npu.load(INT8, "far", random_matrix(INT8, (N, K), random), domain=1)
    chain = npu.chain([ChainTask(far, 1)])
    matmul = npu.matmul([far], 1)
    program = npu.compile(far, np.zeros((1, K), np.int8))
    beside = npu.doorbell(core=1)
    beside.build([ChainTask(far, 1)])
    doorbell = _begun(npu, tasks)
    for run in (chain.run, program.run, beside.begin, matmul.run):
        with pytest.raises(LifetimeError, match="entering domain 1"):
            run()
    near = npu.chain(tasks, core=1)
    gate.let_all()
    near.run()
    assert doorbell.end() == 2
    chain.run()
    assert npu.counters.resets == 1, "what was refused did not make the cores cold"


def test_leaving_the_block_ends_the_run(npu, random):
    tasks, inputs, w = _work(npu, random, 2)
    with npu.doorbell() as doorbell:
        doorbell.build(tasks)
        doorbell.begin()
    assert doorbell.state is DoorbellState.FREED
    np.testing.assert_array_equal(doorbell.outputs[1], expected(INT8, inputs[1], w))


def test_closing_the_npu_waits_for_a_running_doorbell(board, random, gate):
    npu = Npu(board.device())
    tasks, inputs, w = _work(npu, random, 3)
    doorbell = _begun(npu, tasks)
    gate.let_all()
    npu.close()
    assert doorbell.state is DoorbellState.DRAINED
    np.testing.assert_array_equal(doorbell.outputs[2], expected(INT8, inputs[2], w))
    with pytest.raises(NoDeviceError):
        npu.doorbell().build(tasks)


def test_bad_tasks_are_refused_untouched(npu, random):
    tasks, _, _ = _work(npu, random, 1)
    weight = tasks[0].weight
    for rows in (0, 65, 1000):
        with pytest.raises(RefusedError, match=f"task of {rows} rows; allowed: 1 to 64"):
            npu.doorbell().build([ChainTask(weight, rows)])
    with pytest.raises(RefusedError, match="reserve -1"):
        npu.doorbell().build(tasks, reserve=-1)
    with pytest.raises(RefusedError, match="1025 programs"):
        npu.doorbell().build(tasks, reserve=1024)
    doorbell = npu.doorbell()
    doorbell.build(tasks)
    npu.free(weight)
    with pytest.raises(LifetimeError, match="was freed"):
        doorbell.begin()
    assert doorbell.state is DoorbellState.BUILT and npu.counters.submits == 0


def test_a_submit_the_kernel_refuses_leaves_it_built(board, random):
    def fault(request, argument, nth):
        if is_nonblock(request, argument) and nth == 0:
            raise OSError(5, "io")
        return False

    with Npu(FaultyDevice(board, fault)) as npu:
        tasks, inputs, w = _work(npu, random, 2)
        doorbell = npu.doorbell()
        doorbell.build(tasks)
        with pytest.raises(UnhealthyError):
            doorbell.begin()
        assert doorbell.state is DoorbellState.BUILT
        doorbell.begin()
        assert doorbell.end() == 2
        np.testing.assert_array_equal(doorbell.outputs[0], expected(INT8, inputs[0], w))


def test_submits_do_not_wait_and_name_one_core(board, random):
    device = FaultyDevice(board, lambda request, argument, nth: False)
    with Npu(device) as npu:
        tasks, _, _ = _work(npu, random, 2)
        doorbell = _begun(npu, tasks, reserve=2, core=2)
        doorbell.end()
    (submit,) = device.submits
    assert submit.flags == 0x7 and submit.core_mask == 4 and submit.task_number == 4
