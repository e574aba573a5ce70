"""The one thread pool: any count, several callers, a forked child."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import numpy as np

from orkbench_tui.native.library import available_threads, instruction_set, lib, portable_kernels
from orkbench_tui.native.steps import Steps


def adding(rows: int, times: int) -> tuple[Steps, np.ndarray]:
    """A plan that counts to ``times`` in every element, one joined step at a time."""
    ones, total = np.ones((rows, 16), np.float32), np.zeros((rows, 16), np.float32)
    steps = Steps()
    for _ in range(times):
        steps.add(ones, total, accumulate=True)
    return steps, total


def test_more_and_fewer_threads_in_turn() -> None:
    for threads in (1, 2, 5, 3, 1, 2, 64, 1000):
        steps, total = adding(40, 30)
        steps.run(40, threads=threads)
        assert (total == 30).all(), threads
    assert lib.ork_pool_threads() <= 64


def test_callers_in_several_threads_take_turns() -> None:
    plans = [adding(16, 50) for _ in range(4)]

    def work(steps: Steps) -> None:
        for _ in range(20):
            steps.run(16, threads=2)

    callers = [threading.Thread(target=work, args=(steps,)) for steps, _ in plans]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((total == 50 * 20).all() for _, total in plans)


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    steps, total = adding(16, 20)
    steps.run(16, threads=2)
    child = os.fork()
    if child == 0:
        total[:] = 0
        steps.run(16, threads=2)
        os._exit(0 if (total == 20).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    steps.run(16, threads=2)
    assert (total == 40).all()


def test_a_plan_without_steps_runs() -> None:
    Steps().run(3, 7, threads=2)


def test_the_path_has_a_name_and_can_be_forced() -> None:
    usual = instruction_set()
    assert usual in ("avx2", "neon", "neon+dotprod", "portable")
    with portable_kernels():
        assert instruction_set() == "portable"
    assert instruction_set() == usual


def test_threads_are_those_we_may_use() -> None:
    assert available_threads() == min(64, len(os.sched_getaffinity(0)))


def _states() -> dict[int, str]:
    """Of every thread of this process but the one that asks."""
    states = {}
    for task in (path.name for path in Path("/proc/self/task").iterdir()):
        if int(task) != threading.get_native_id():
            with contextlib.suppress(OSError):
                states[int(task)] = (
                    Path(f"/proc/self/task/{task}/stat").read_text().rsplit(")", 1)[1].split()[0]
                )
    return states


def test_threads_sleep_once_there_is_nothing_to_do() -> None:
    """Those that drive the NPU get the cores meanwhile: a pool that spins starves them."""
    before = set(_states())
    steps, _ = adding(40, 30)
    steps.run(40, threads=3)
    mine = set(_states()) - before or before
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        states = _states()
        if all(states.get(thread, "S") == "S" for thread in mine):
            break
        time.sleep(0.001)
    else:
        raise AssertionError(f"threads of the pool still run: {_states()}")
