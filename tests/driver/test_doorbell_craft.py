"""What a persistent run can and cannot do: results handed out while it runs, phases timed, and the walls."""

from __future__ import annotations

import time

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.doorbell import DoorbellState
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.matmul.assembly import PROGRAM_BYTES, TASK_BYTES
from orkbench_tui.driver.matmul.formats import FORMATS, INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.programs import BODY_WORDS
from orkbench_tui.driver.regcmd.registers import Enable
from orkbench_tui.driver.regcmd.words import trailer
from orkbench_tui.driver.submit import Job
from orkbench_tui.errors import UnhealthyError
from tests.driver.gated_board import Gate, gate_programs
from tests.driver.path_operands import NARROW, expected, matches, random_matrix


@pytest.fixture
def random():
    return np.random.default_rng(61)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate()
    gate_programs(monkeypatch, gate)
    yield gate
    gate.let_all()


def _built(npu, random, count, name="int8", reserve=0):
    format = FORMATS[name]
    w = random_matrix(format, (format.precision.kernel_group, 512), random)
    weight = npu.load(format, "w", w)
    inputs = [random_matrix(format, (2, 512), random) for _ in range(count)]
    doorbell = npu.doorbell()
    doorbell.build([ChainTask(weight, 2, a=a, convert=NARROW.get(name)) for a in inputs], reserve=reserve)
    return doorbell, inputs, w


# -- results while the run goes on --------------------------------------------------------------------


def test_a_result_is_handed_out_while_the_next_program_runs(npu, random, gate):
    doorbell, inputs, w = _built(npu, random, 4)
    doorbell.begin()
    gate.let(1)
    seen = []

    def requantize(index):
        # The next program has started and waits: this result came before it was over.
        gate.wait_started(min(index + 2, 4))
        narrow = np.clip(doorbell.outputs[index] >> 8, -128, 127).astype(np.int8)
        seen.append((index, doorbell.progress(), narrow))
        gate.let(1)

    assert doorbell.end(requantize) == 4
    assert [(index, done) for index, done, _ in seen] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    for (_, _, narrow), a in zip(seen, inputs, strict=True):
        np.testing.assert_array_equal(narrow, np.clip(expected(INT8, a, w) >> 8, -128, 127))


@pytest.mark.parametrize("name", ["int8", "fp16", "int4", "int16", "int8->int8"])
def test_every_result_is_handed_out_once_in_order_and_right(npu, random, name):
    doorbell, inputs, w = _built(npu, random, 5, name)
    doorbell.begin()
    seen = []

    def done(index):
        assert matches(FORMATS[name], doorbell.outputs[index], inputs[index], w)
        seen.append(index)

    assert doorbell.end(done) == 5
    assert seen == [0, 1, 2, 3, 4]


def test_what_the_function_raises_comes_when_the_run_is_over_and_spoils_nothing(npu, random):
    doorbell, inputs, w = _built(npu, random, 4)
    doorbell.begin()
    calls = []

    def fails(index):
        calls.append(index)
        raise ZeroDivisionError("requant")

    with pytest.raises(ZeroDivisionError, match="requant"):
        doorbell.end(fails)
    assert calls == [0]
    assert doorbell.state is DoorbellState.DRAINED and not npu.context.unattended
    for output, a in zip(doorbell.outputs, inputs, strict=True):
        np.testing.assert_array_equal(output, expected(INT8, a, w))
    doorbell.close()
    assert npu.counters.drops == 0


def test_the_next_submit_comes_after_the_requant_of_the_one_before(npu, random):
    """Poll, requant, submit: what one run leaves is the operand of the next."""
    format = FORMATS["int8"]
    w = random_matrix(format, (512, 512), random)
    weight = npu.load(format, "w", w)
    a = random_matrix(format, (1, 512), random)
    order = []
    for _ in range(3):
        narrowed = []
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weight, 1, a=a)])
            doorbell.begin()
            order.append("submit")

            def requant(index, doorbell=doorbell, narrowed=narrowed):
                order.append("requant")
                narrowed.append(np.clip(doorbell.outputs[index] >> 9, -128, 127).astype(np.int8))

            doorbell.end(requant)
        np.testing.assert_array_equal(narrowed[0], np.clip(expected(INT8, a, w) >> 9, -128, 127))
        a = narrowed[0]
    assert order == ["submit", "requant"] * 3


def test_phases_of_begin_and_end_are_timed(npu, random, gate):
    doorbell, _, _ = _built(npu, random, 3)
    assert doorbell.times.begin_s == doorbell.times.end_s == 0
    doorbell.begin()
    begun = doorbell.times.begin_s
    assert begun > 0 and doorbell.times.end_s == 0
    gate.let(1)
    held = 0.05
    doorbell_gate = time.monotonic() + held

    def slow(index):
        while index == 0 and time.monotonic() < doorbell_gate:
            time.sleep(0.005)
        gate.let_all()

    doorbell.end(slow)
    times = doorbell.times
    assert times.begin_s == begun == times.refresh_s + times.seed_s + times.submit_s
    assert times.poll_s > 0 and times.fetch_s > 0
    assert times.end_s == times.poll_s + times.fetch_s


# -- walls --------------------------------------------------------------------------------------------


def _link(doorbell, index, address):
    """Point program ``index`` somewhere else, behind the driver's back."""
    linked = doorbell._run.linked
    offset = PROGRAM_BYTES * index + 8 * BODY_WORDS
    words = linked.words.view[offset : offset + 16].view(np.uint64)
    words[:] = trailer(Enable.MATMUL, address, BODY_WORDS if address else 0)[:2]
    doorbell._context.memory.sync(linked.words, uapi.SyncFlag.TO_DEVICE)


def _address(doorbell, index):
    return doorbell._run.linked._address(index)


def _run(npu, doorbell, count):
    linked = doorbell._run.linked
    npu.context.submitter.run_on(0, Job(linked.tasks, linked.tasks.offset // TASK_BYTES, count))


def test_a_program_that_points_to_itself_ends_with_the_count(npu, random, board):
    doorbell, _, _ = _built(npu, random, 1)
    _link(doorbell, 0, _address(doorbell, 0))
    before = npu.counters.tasks
    _run(npu, doorbell, 1)
    assert npu.counters.tasks == before + 1, "it completes instead of spinning, and nothing times out"
    assert board.kernel.scheduler.jobs_failed == 0


@pytest.mark.parametrize("count", [4, 64, 1000])
def test_a_ring_of_programs_runs_as_often_as_the_count_says(board, random, count):
    with Npu(board.device(), timeout_ms=60_000) as npu:
        doorbell, _, _ = _built(npu, random, 2, reserve=1022)
        _link(doorbell, 1, _address(doorbell, 0))
        _run(npu, doorbell, count)
        assert board.kernel.scheduler.jobs_failed == 0
        assert board.kernel.scheduler.cores[0].interrupts >= 1


def test_a_live_redirect_backwards_completes_and_does_not_spin(npu, random, gate):
    doorbell, inputs, w = _built(npu, random, 4)
    doorbell.begin()
    gate.wait_started(1)
    _link(doorbell, 2, _address(doorbell, 1))
    gate.let_all()
    npu.context.windows.of(1)
    # 0, 1, 2, then 1 again: four programs, the count; the fourth task's own never ran.
    deadline = time.monotonic() + 10
    while doorbell.progress() < 3:
        assert time.monotonic() < deadline
    assert doorbell.progress() == 3
    _link(doorbell, 2, _address(doorbell, 3))
    for bits in range(48):
        npu.context.windows.of(1 << bits).learn(1e-5)
    assert doorbell.end() == 4, "what is missing is run again"
    for output, a in zip(doorbell.outputs, inputs, strict=True):
        np.testing.assert_array_equal(output, expected(INT8, a, w))


def test_a_redirect_forward_beyond_the_count_aborts(npu, random):
    doorbell, _, _ = _built(npu, random, 3)
    with pytest.raises(UnhealthyError, match="EINVAL"):
        _run(npu, doorbell, 2)


def test_descriptors_changed_in_mid_run_are_not_read_again(npu, random, gate):
    doorbell, inputs, w = _built(npu, random, 3)
    doorbell.begin()
    gate.wait_started(1)
    tasks = doorbell._run.linked.tasks
    marker = uapi.Task.from_buffer(tasks.view.data, TASK_BYTES)
    marker.regcmd_addr, marker.regcfg_amount = 0x3000, 1
    gate.let_all()
    assert doorbell.end() == 3
    np.testing.assert_array_equal(doorbell.outputs[1], expected(INT8, inputs[1], w))


def test_a_job_that_never_completes_ends_in_a_time_out_a_reset_and_a_board_that_works(board, random):
    with Npu(board.device(), timeout_ms=300) as npu:
        doorbell, inputs, w = _built(npu, random, 2)
        linked = doorbell._run.linked
        broken = linked.words.view[:8].copy()
        linked.words.view[:8] = 255
        npu.memory.sync(linked.words, uapi.SyncFlag.TO_DEVICE)
        resets = board.kernel.scheduler.resets
        with pytest.raises(UnhealthyError, match="ETIMEDOUT"):
            _run(npu, doorbell, 2)
        assert board.kernel.scheduler.resets == resets + 1
        linked.words.view[:8] = broken
        npu.memory.sync(linked.words, uapi.SyncFlag.TO_DEVICE)
        doorbell.begin()
        assert doorbell.end() == 2
        np.testing.assert_array_equal(doorbell.outputs[1], expected(INT8, inputs[1], w))


def test_the_filler_program_changes_nothing_but_its_own_zeros(npu, random):
    """A matmul of zeros, the smallest there is: what a core runs to show that it is idle."""
    _built(npu, random, 1)
    filler = drain_of(npu.context, INT8, 0)
    held = [b for b in npu.memory.buffers(0) if not b.flags & uapi.MemFlag.KERNEL_MAPPING]
    before = [bytes(b.view) for b in held]
    for core in range(3):
        filler.run(core)
    for buffer in held:
        npu.memory.sync(buffer, uapi.SyncFlag.FROM_DEVICE)
    assert [bytes(b.view) for b in held] == before
    assert len(filler._jobs) == 1 and filler._jobs[0].tasks == 1


# -- the spine knows no number format -----------------------------------------------------------------

SPINE = ("doorbell", "doorbell_spread", "polled_run", "recovery", "drain", "submit", "mode_gate", "domains")
PRECISE = {"INT8", "FP16", "INT4", "INT16", "Precision", "INT8_TO_INT32", "int8", "int4", "fp16", "int16"}


def precision_names(source: str) -> list[str]:
    """Names and strings of code that speak of one number format; documentation is left out."""
    import ast

    tree = ast.parse(source)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            name = node.value
        if isinstance(name, str) and name in PRECISE:
            found.append(name)
    return found


@pytest.mark.parametrize("module", SPINE)
def test_the_spine_of_polled_runs_names_no_precision(module):
    from pathlib import Path

    import orkbench_tui.driver

    source = (Path(orkbench_tui.driver.__file__).parent / f"{module}.py").read_text()
    assert precision_names(source) == []


def test_the_scan_sees_a_precision_where_there_is_one():
    source = 'from x import INT8\n"""int8"""\na = f == "int4" or b.FP16'
    assert sorted(precision_names(source)) == ["FP16", "INT8", "int4"]
