"""Chains: one submit, all checks before it, and nothing of them lost when one is removed."""

import threading

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT4, INT8
from orkbench_tui.driver.matmul.operands import cores_for_outputs
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import NoDeviceError, RefusedError, UnhealthyError
from tests.driver.gated_board import FaultyDevice
from tests.driver.path_operands import expected, random_matrix


@pytest.fixture
def random():
    return np.random.default_rng(11)


def _weight(npu, random, n=32, k=512, format=INT8, name="w"):
    w = random_matrix(format, (n, k), random)
    return npu.load(format, name, w), w


def _unsubmitted(npu, make, match, error=RefusedError):
    before = npu.counters
    with pytest.raises(error, match=match):
        make()
    assert npu.counters == before


def test_tasks_keep_their_own_operands_and_results(npu, random):
    weight, w = _weight(npu, random)
    chain = npu.chain([ChainTask(weight, rows) for rows in (1, 9, 3)])
    inputs = [random_matrix(INT8, (rows, 512), random) for rows in (1, 9, 3)]
    for array, a in zip(chain.activations, inputs, strict=True):
        array[:] = a
    chain.run()
    for output, a in zip(chain.outputs, inputs, strict=True):
        np.testing.assert_array_equal(output, expected(INT8, a, w))


def test_rows_beyond_the_cap_become_more_programs_of_the_same_submit(npu, random):
    weight, w = _weight(npu, random, k=4096)
    chain = npu.chain([ChainTask(weight, 200)])
    chain.activations[0][:] = a = random_matrix(INT8, (200, 4096), random)
    before = npu.counters
    chain.run()
    assert chain.steps > 1 and npu.counters.since(before).submits == 1
    np.testing.assert_array_equal(chain.outputs[0], expected(INT8, a, w))


@pytest.mark.parametrize("k", [32, 480, 768, 4608, 8192])
def test_int8_outside_the_full_k_envelope_is_refused(npu, random, k):
    weight, _ = _weight(npu, random, k=k)
    _unsubmitted(
        npu, lambda: npu.chain([ChainTask(weight, 2)]), f"GRD-10.*K = {k}, allowed: multiples of 512"
    )


def test_more_than_1024_programs_are_refused_and_1024_run(board, random):
    # The chip here takes its time to read so many programs for the first time.
    with Npu(board.device(), timeout_ms=60_000) as npu:
        weight, w = _weight(npu, random)
        a = random_matrix(INT8, (1, 512), random)
        tasks = [ChainTask(weight, 1, a=a)] * 1024
        _unsubmitted(npu, lambda: npu.chain([*tasks, tasks[0]]), "1025 programs, allowed: 1 to 1024")
        chain = npu.chain(tasks)
        chain.run()
        for output in chain.outputs:
            np.testing.assert_array_equal(output, expected(INT8, a, w))


def test_no_tasks_are_refused(npu):
    _unsubmitted(npu, lambda: npu.chain([]), "no tasks")


def test_formats_do_not_mix_where_no_hardware_edge_is_known(npu, random):
    int8, _ = _weight(npu, random)
    fp16, _ = _weight(npu, random, format=FP16)
    int4, _ = _weight(npu, random, format=INT4, n=64)
    int16, _ = _weight(npu, random, format=FORMATS["int16"])
    _unsubmitted(npu, lambda: npu.chain([ChainTask(int8, 1), ChainTask(fp16, 1)]), "matmul_w16a16 is SW")
    _unsubmitted(npu, lambda: npu.chain([ChainTask(int4, 1), ChainTask(int8, 1)]), "matmul_w8a8 is DISALLOW")
    _unsubmitted(npu, lambda: npu.chain([ChainTask(int16, 1), ChainTask(int8, 1)]), "never been tried")


def test_fp16_tasks_of_different_row_tiles_are_refused(npu, random):
    weight, _ = _weight(npu, random, format=FP16)
    _unsubmitted(
        npu, lambda: npu.chain([ChainTask(weight, 4), ChainTask(weight, 6)]), "GRD-18.*row tiles of 4, 6 rows"
    )


def test_weights_of_two_domains_do_not_share_a_submit(npu, random):
    first, _ = _weight(npu, random)
    w = random_matrix(INT8, (32, 512), random)
    second = npu.load(INT8, "far", w, domain=1)
    _unsubmitted(npu, lambda: npu.chain([ChainTask(first, 1), ChainTask(second, 1)]), "domains 0, 1")
    far = npu.chain([ChainTask(second, 2)])
    far.activations[0][:] = a = random_matrix(INT8, (2, 512), random)
    far.run()
    np.testing.assert_array_equal(far.outputs[0], expected(INT8, a, w))
    near = npu.chain([ChainTask(first, 2)])
    with pytest.raises(RefusedError, match="domains 0, 1"):
        npu.round_robin([near, far])


def test_a_core_the_chip_does_not_have_is_refused(npu, random):
    weight, _ = _weight(npu, random)
    with pytest.raises(ValueError, match="cores 0 to 2"):
        npu.chain([ChainTask(weight, 1)], core=3)


def test_freed_closed_and_gone(board, random):
    with Npu(board.device()) as npu:
        weight, _ = _weight(npu, random)
        chain, other = npu.chain([ChainTask(weight, 1)]), npu.chain([ChainTask(weight, 1)])
        chain.close()
        chain.close()
        _unsubmitted(npu, chain.run, "was closed")
        npu.free(weight)
        _unsubmitted(npu, other.run, "was freed")
        _unsubmitted(npu, npu.round_robin([other]).run, "was freed")
        _unsubmitted(npu, lambda: npu.chain([ChainTask(weight, 1)]), "was freed")
    with pytest.raises(NoDeviceError, match="was closed"):
        other.run()


def test_closing_gives_all_memory_back(npu, random):
    weight, _ = _weight(npu, random)
    npu.chain([ChainTask(weight, 5)]).close()
    used = npu.memory.used_bytes(0)
    for _ in range(50):
        npu.chain([ChainTask(weight, 5)]).close()
    assert npu.memory.used_bytes(0) == used


@pytest.mark.parametrize(
    ("direction", "what"), [(uapi.SyncFlag.TO_DEVICE, "a"), (uapi.SyncFlag.FROM_DEVICE, "c")]
)
def test_each_sync_of_a_chain_is_needed(npu, random, monkeypatch, direction, what):
    weight, w = _weight(npu, random)
    chain = npu.chain([ChainTask(weight, 7)])
    chain.run()
    buffer = {"a": chain.set.tasks[0].activation.part.buffer, "c": chain.set.tasks[0].result.buffer}[what]
    sync = Memory.sync

    def dropped(self, part, wanted):
        if wanted != direction or getattr(part, "buffer", part) is not buffer:
            sync(self, part, wanted)

    monkeypatch.setattr(Memory, "sync", dropped)
    chain.activations[0][:] = a = random_matrix(INT8, (7, 512), random)
    chain.run()
    assert not np.array_equal(chain.outputs[0], expected(INT8, a, w))
    monkeypatch.undo()
    chain.run()
    np.testing.assert_array_equal(chain.outputs[0], expected(INT8, a, w))


def test_after_a_failed_chain_the_next_entry_starts_cold(board, random):
    device = FaultyDevice(board, lambda request, argument, nth: False)
    with Npu(device, timeout_ms=200) as npu:
        weight, w = _weight(npu, random)
        chain = npu.chain([ChainTask(weight, 1)])
        chain.run()
        weight.buffer.live = False
        chain.set._weights.clear()
        words = chain.linked.words
        words.view[:8] = 255
        npu.memory.sync(words, uapi.SyncFlag.TO_DEVICE)
        with pytest.raises(UnhealthyError):
            chain.run()
        weight.buffer.live = True
        good = npu.chain([ChainTask(weight, 1)])
        good.activations[0][:] = a = random_matrix(INT8, (1, 512), random)
        good.run()
        np.testing.assert_array_equal(good.outputs[0], expected(INT8, a, w))
        assert npu.counters.resets == 2


def test_a_result_in_npu_memory_keeps_the_chains_on_one_core_and_says_so_once(npu, random):
    weight, w = _weight(npu, random)
    a = random_matrix(INT8, (4, 512), random)
    out = npu.dma_array((4, 32), np.int32)
    chains = [npu.chain([ChainTask(weight, 4, a=a, output=out)])]
    chains += [npu.chain([ChainTask(weight, 4, a=a)]) for _ in range(5)]
    before = npu.counters
    for _ in range(2):
        robin = npu.round_robin(chains)
        robin.run()
    assert robin.cores == 1 and npu.counters.since(before).core_submits == [12, 0, 0]
    np.testing.assert_array_equal(out, expected(INT8, a, w))
    assert len([line for line in npu.notices if line.startswith("GRD-23")]) == 1
    with pytest.raises(RefusedError, match="GRD-23"):
        cores_for_outputs(npu.context, chains[0].set.caller_outputs, 3, fall_back=False)


def test_round_robin_refuses_what_it_cannot_deal(npu, random):
    weight, _ = _weight(npu, random)
    wide, _ = _weight(npu, random, format=FP16)
    chain = npu.chain([ChainTask(weight, 1)])
    for make, match in (
        (lambda: npu.round_robin([]), "no chains"),
        (lambda: npu.round_robin([chain, npu.chain([ChainTask(wide, 1)])]), "chains of fp16, int8"),
        (lambda: npu.round_robin([chain], cores=0), "0 cores, allowed: 1 to 3"),
        (lambda: npu.round_robin([chain], cores=4), "4 cores, allowed: 1 to 3"),
    ):
        _unsubmitted(npu, make, match)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_no_core_waits_while_chains_are_left(npu, random, cores):
    weight, w = _weight(npu, random, n=256, k=2048)
    a = random_matrix(INT8, (32, 2048), random)
    chains = [npu.chain([ChainTask(weight, 32, a=a)]) for _ in range(12)]
    before = npu.counters
    npu.round_robin(chains, cores=cores).run()
    used = npu.counters.since(before).core_submits
    assert sum(used) == 12 and used[cores:] == [0] * (3 - cores)
    for chain in chains:
        np.testing.assert_array_equal(chain.outputs[0], expected(INT8, a, w))


def test_a_slow_chain_does_not_hold_up_the_others(npu, random, monkeypatch):
    weight, _ = _weight(npu, random)
    chains = [npu.chain([ChainTask(weight, 1)]) for _ in range(9)]
    slow = chains[0].linked.job
    others_done = threading.Event()
    finished = []
    run_on = npu.context.submitter.run_on

    def gated(core, job):
        if job == slow:
            assert others_done.wait(10)
        run_on(core, job)
        finished.append(core)
        if len(finished) == 8:
            others_done.set()

    monkeypatch.setattr(type(npu.context.submitter), "run_on", lambda self, core, job: gated(core, job))
    npu.round_robin(chains).run()
    assert len(finished) == 9


def test_two_chains_of_one_npu_run_from_two_threads(npu, random):
    made = []
    for _ in range(2):
        weight, w = _weight(npu, random)
        a = random_matrix(INT8, (3, 512), random)
        made.append((npu.chain([ChainTask(weight, 3, a=a)]), a, w))
    wrong = []

    def work(chain, a, w):
        for _ in range(30):
            chain.outputs[0][:] = 0
            chain.run()
            if not np.array_equal(chain.outputs[0], expected(INT8, a, w)):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=item) for item in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
