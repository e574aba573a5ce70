"""Doorbells over several cores: exact on every format, complete only when all cores are, whole after failures."""

import time

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.doorbell import DoorbellState
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT4, INT8
from orkbench_tui.driver.matmul.weights import column_view
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError, UnhealthyError
from tests.driver.gated_board import FaultyDevice, Gate, gate_programs
from tests.driver.path_operands import FORMAT_NAMES, NARROW, expected, matches, random_matrix

K = 512


@pytest.fixture
def random():
    return np.random.default_rng(31)


def _tasks(npu, random, shapes, format=INT8, k=K):
    tasks, pairs = [], []
    for index, (rows, n) in enumerate(shapes):
        w, a = random_matrix(format, (n, k), random), random_matrix(format, (rows, k), random)
        tasks.append(ChainTask(npu.load(format, f"w{index}", w), rows, a=a, convert=NARROW.get(format.name)))
        pairs.append((a, w))
    return tasks, pairs


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_every_format_is_right_over_the_cores(npu, random, name, rows):
    format = FORMATS[name]
    tasks, pairs = _tasks(npu, random, [(rows, 640), (rows, 192)], format)
    before = npu.counters
    with npu.spread_doorbell() as doorbell:
        doorbell.build(tasks)
        doorbell.begin()
        assert doorbell.end() == 2
        for output, (a, w) in zip(doorbell.outputs, pairs, strict=True):
            assert matches(format, output, a, w)
    used = npu.counters.since(before)
    assert all(count >= 1 for count in used.core_submits)


def test_no_submit_names_several_cores(random, board):
    device = FaultyDevice(board, lambda *call: False)
    with Npu(device, timeout_ms=2000) as npu:
        tasks, _ = _tasks(npu, random, [(1, 320)])
        with npu.spread_doorbell() as doorbell:
            doorbell.build(tasks)
            doorbell.begin()
    waited_for = [s for s in device.submits if not s.flags & uapi.JobFlag.NONBLOCK]
    assert {submit.core_mask for submit in device.submits} == {1, 2, 4} and not waited_for


@pytest.mark.parametrize(("cores", "n", "used"), [(1, 640, 1), (2, 640, 2), (3, 64, 2), (3, 32, 1)])
def test_cores_used_are_those_there_are_columns_for(npu, random, cores, n, used):
    tasks, pairs = _tasks(npu, random, [(3, n)])
    with npu.spread_doorbell(cores=cores) as doorbell:
        doorbell.build(tasks)
        assert doorbell.cores == used
        doorbell.begin()
        doorbell.end()
        np.testing.assert_array_equal(doorbell.outputs[0], expected(INT8, *pairs[0]))


def test_a_task_is_complete_when_all_its_cores_are(npu, random, monkeypatch):
    gate = Gate()
    gate_programs(monkeypatch, gate)
    tasks, _ = _tasks(npu, random, [(1, 96), (1, 32), (1, 96)])
    doorbell = npu.spread_doorbell()
    doorbell.build(tasks)
    try:
        doorbell.begin()
        assert doorbell.progress() == 0
        gate.let(2)
        end = time.monotonic() + 5
        seen = set()
        while time.monotonic() < end and len(seen) < 1:
            seen.add(doorbell.progress())
        assert max(seen) <= 1, "two programs of seven cannot complete the second task"
    finally:
        gate.let_all()
    assert doorbell.end() == doorbell.progress() == 3
    doorbell.close()


def test_activations_of_its_own_are_filled_between_build_and_begin(npu, random):
    w = random_matrix(INT8, (320, K), random)
    a = random_matrix(INT8, (4, K), random)
    with npu.spread_doorbell() as doorbell:
        doorbell.build([ChainTask(npu.load(INT8, "w", w), 4)])
        doorbell.activations[0][:] = a
        doorbell.begin()
        doorbell.end()
        np.testing.assert_array_equal(doorbell.outputs[0], expected(INT8, a, w))


def test_the_caller_s_output_is_the_one_written(npu, random):
    tasks, pairs = _tasks(npu, random, [(2, 320)])
    mine = np.zeros((2, 320), np.int32)
    with npu.spread_doorbell() as doorbell:
        doorbell.build([ChainTask(tasks[0].weight, 2, a=tasks[0].a, output=mine)])
        doorbell.begin()
        doorbell.end()
    np.testing.assert_array_equal(mine, expected(INT8, *pairs[0]))


def test_k_slices_and_columns_together(npu, random):
    tasks, pairs = _tasks(npu, random, [(5, 320)], INT4, k=960)
    with npu.spread_doorbell() as doorbell:
        doorbell.build(tasks)
        doorbell.begin()
        doorbell.end()
        assert matches(INT4, doorbell.outputs[0], *pairs[0])


def test_what_may_not_run_is_refused_and_nothing_stays(npu, random):
    tasks, _ = _tasks(npu, random, [(1, 96)])
    wide, _ = _tasks(npu, random, [(1, 96)], FP16)
    before, memory = npu.counters, npu.domains()
    for cores in (0, 4, -1):
        with pytest.raises(OperandError, match="allowed: 1 to 3"):
            npu.spread_doorbell(cores=cores)
    for bad, why in (
        ([], "no tasks"),
        ([ChainTask(tasks[0].weight, 65)], "allowed: 1 to 64"),
        ([ChainTask(tasks[0].weight, 0)], "allowed: 1 to 64"),
        ([*tasks, *wide], "SW"),
        ([ChainTask(tasks[0].weight, 1, a=np.zeros((1, K), np.int16))], "expected int8"),
        ([ChainTask(tasks[0].weight, 1, output=np.zeros((1, 96), np.int8))], "expected int32"),
    ):
        doorbell = npu.spread_doorbell()
        with pytest.raises(RefusedError, match=why):
            doorbell.build(bad)
        assert doorbell.state is DoorbellState.IDLE
    assert npu.counters.since(before).submits == 0
    assert npu.domains() == memory


def test_calls_in_a_wrong_state_raise(npu, random):
    tasks, _ = _tasks(npu, random, [(1, 96)])
    doorbell = npu.spread_doorbell()
    for call in (doorbell.begin, doorbell.end, doorbell.progress):
        with pytest.raises(LifetimeError, match="it is idle"):
            call()
    doorbell.build(tasks)
    with pytest.raises(LifetimeError, match="it is built"):
        doorbell.build(tasks)
    doorbell.begin()
    with pytest.raises(LifetimeError, match="it is submitted"):
        doorbell.close()
    doorbell.end()
    with pytest.raises(LifetimeError, match="it is drained"):
        doorbell.end()
    doorbell.close()
    doorbell.close()
    with pytest.raises(LifetimeError, match="it is freed"):
        doorbell.begin()


def test_a_core_that_is_busy_leaves_the_others_free(npu, random):
    tasks, pairs = _tasks(npu, random, [(1, 320)])
    other = npu.doorbell(core=1)
    other.build(tasks)
    other.begin()
    spread = npu.spread_doorbell()
    spread.build(tasks)
    with pytest.raises(LifetimeError, match="core 1 has a doorbell running"):
        spread.begin()
    assert set(npu.context.unattended) == {1}
    other.end()
    other.close()
    with npu.spread_doorbell() as again:
        again.build(tasks)
        again.begin()
        again.end()
        np.testing.assert_array_equal(again.outputs[0], expected(INT8, *pairs[0]))


def test_a_result_that_never_comes_on_one_core_raises_for_all(board, random):
    def lose(request, argument, nth):
        return request == uapi.RKNPU_SUBMIT and uapi.Submit.from_buffer_copy(argument).core_mask == 2

    with Npu(FaultyDevice(board, lose), timeout_ms=2000) as npu:
        for bits in range(48):
            npu.context.windows.of(1 << bits).learn(1e-5)
        tasks, _ = _tasks(npu, random, [(1, 320)])
        doorbell = npu.spread_doorbell()
        doorbell.build(tasks)
        doorbell.begin()
        with pytest.raises(UnhealthyError, match="core 1 never finished"):
            doorbell.end()
        assert not npu.context.unattended
        doorbell.close()


def test_columns_of_a_weight_are_whole_groups_of_it(npu, random):
    weight = npu.load(INT8, "w", random_matrix(INT8, (96, K), random))
    view = column_view(weight, 32, 64)
    np.testing.assert_array_equal(view.tiles, weight.tiles[32 * K :])
    for column, width in ((16, 32), (0, 16), (64, 64), (-32, 32), (0, 0)):
        with pytest.raises(OperandError, match="whole groups of 32 within 96"):
            column_view(weight, column, width)
