"""Threads that drive the NPU stay on the big processors; nothing else of the process moves."""

import os
import threading

import numpy as np
import pytest

from orkbench_tui.driver import affinity, precompiled, uapi
from orkbench_tui.driver.affinity import big_processors, on_big_processors, pin_this_thread
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu


def _cpus(folder, speeds, name="cpu_capacity"):
    for number, speed in enumerate(speeds):
        cpu = folder / f"cpu{number}"
        (cpu / name).parent.mkdir(parents=True)
        (cpu / name).write_text(f"{speed}\n")
    return folder


RK3588 = [414] * 4 + [1024, 1024, 1009, 1009]


@pytest.mark.parametrize(
    ("speeds", "allowed", "big"),
    [
        (RK3588, set(range(8)), {4, 5, 6, 7}),
        (RK3588, {0, 1, 6}, {6}),
        (RK3588, {0, 1}, {0, 1}),
        ([1024] * 4, {0, 1, 2, 3}, {0, 1, 2, 3}),
        ([485] * 4 + [1024] * 4, set(range(8)), {4, 5, 6, 7}),
    ],
)
def test_the_big_cluster_is_found(tmp_path, speeds, allowed, big):
    assert big_processors(_cpus(tmp_path, speeds), allowed) == big


def test_the_highest_clock_decides_where_there_is_no_capacity(tmp_path):
    cpus = _cpus(tmp_path, [1800000] * 4 + [2400000, 2400000, 2352000, 2352000], "cpufreq/cpuinfo_max_freq")
    assert big_processors(cpus, set(range(8))) == {4, 5, 6, 7}


def test_where_the_kernel_says_nothing_all_are_big(tmp_path):
    assert big_processors(tmp_path, {0, 3}) == {0, 3}


def test_a_set_that_is_not_allowed_changes_nothing():
    before = os.sched_getaffinity(0)
    assert not pin_this_thread(frozenset()) and not pin_this_thread(frozenset({4095}))
    assert os.sched_getaffinity(0) == before


def _where_workers_run(npu, random):
    seen = {}
    run_on = npu.context.submitter.run_on

    def watched(core, job):
        seen[threading.current_thread().name] = os.sched_getaffinity(0)
        run_on(core, job)

    npu.context.submitter.run_on = watched
    weight = npu.load(INT8, "w", random.integers(-9, 9, (320, 64)).astype("int8"))
    matmul = npu.matmul([weight], 400)
    for _ in range(40):
        matmul.run()
        if len(seen) == 3:
            break
    return seen


def test_workers_are_pinned_and_the_caller_is_not(board):
    mine = os.sched_getaffinity(0)
    one = frozenset({min(mine)})
    with Npu(board.device(), worker_cpus=one) as npu:
        seen = _where_workers_run(npu, np.random.default_rng(1))
    workers = {name: cpus for name, cpus in seen.items() if name.startswith("npu-core")}
    assert workers and all(cpus == one for cpus in workers.values())
    assert os.sched_getaffinity(0) == mine


def test_without_a_set_workers_run_where_the_process_does(board):
    with Npu(board.device(), worker_cpus=frozenset()) as npu:
        seen = _where_workers_run(npu, np.random.default_rng(2))
    assert all(cpus == os.sched_getaffinity(0) for cpus in seen.values())


@pytest.fixture
def two_kinds():
    """Two processors of this machine, taken for a little and a big one; the test's own thread is let loose after."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one processor")
    little, big = sorted(before)[:2]
    yield little, big
    os.sched_setaffinity(0, before)


def test_a_call_on_the_big_processors_ends_where_it_began(two_kinds):
    little, big = two_kinds
    for own in ({little}, {little, big}):
        os.sched_setaffinity(0, own)
        with on_big_processors(frozenset({big})):
            assert os.sched_getaffinity(0) == {big}
        assert os.sched_getaffinity(0) == own
    os.sched_setaffinity(0, {little})
    with pytest.raises(ZeroDivisionError), on_big_processors(frozenset({big})):
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == {little}


def test_who_is_there_already_is_not_moved_and_others_never(two_kinds, monkeypatch):
    little, big = two_kinds
    moves = []
    monkeypatch.setattr(affinity, "pin_this_thread", lambda processors: moves.append(processors))
    os.sched_setaffinity(0, {big})
    for processors in (frozenset({big}), frozenset({big, little}), frozenset()):
        with on_big_processors(processors):
            pass
    assert moves == []


def test_processors_that_are_all_alike_are_no_reason_to_move(monkeypatch):
    affinity.worth_moving_to.cache_clear()
    monkeypatch.setattr(affinity, "big_processors", lambda **_: frozenset(os.sched_getaffinity(0)))
    assert affinity.worth_moving_to() == frozenset()
    affinity.worth_moving_to.cache_clear()


def _where_submits_are_made(npu, monkeypatch):
    seen = []
    device = npu.context.submitter.device
    ioctl = type(device).ioctl

    def watched(self, request, argument):
        if request == uapi.RKNPU_SUBMIT:
            seen.append(os.sched_getaffinity(0))
        return ioctl(self, request, argument)

    monkeypatch.setattr(type(device), "ioctl", watched)
    return seen


def test_a_compiled_program_is_driven_from_a_big_processor_and_a_chain_s_doorbell_from_where_it_is(
    npu, monkeypatch, two_kinds
):
    little, big = two_kinds
    monkeypatch.setattr(precompiled, "worth_moving_to", lambda: frozenset({big}))
    random = np.random.default_rng(3)
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((1, 512), (64, 512)))
    weight = npu.load(INT8, "w", b)
    program = npu.compile(weight, a)
    seen = _where_submits_are_made(npu, monkeypatch)
    os.sched_setaffinity(0, {little})
    program.run()
    assert seen == [{big}] and os.sched_getaffinity(0) == {little}
    np.testing.assert_array_equal(program.outputs[0], a.astype(np.int32) @ b.T.astype(np.int32))
    with npu.doorbell() as doorbell:
        doorbell.build([ChainTask(weight, 1, a=a)] * 2)
        doorbell.begin()
        doorbell.end()
    assert seen == [{big}, {little}]
