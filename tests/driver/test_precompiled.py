"""Compiled programs: what they capture, what they refuse, and what a run does not do."""

import errno
import gc
import tracemalloc

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FP16, INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.precompiled import PrecompiledProgram, require_own_descriptors
from orkbench_tui.errors import NoDeviceError, RefusedError, UnhealthyError
from tests.driver.gated_board import FaultyDevice, is_nonblock
from tests.driver.path_operands import expected, random_matrix

K, N = 512, 64


@pytest.fixture
def random():
    return np.random.default_rng(5)


class DescriptorDevice(FaultyDevice):
    """A device whose native calls are made by a call back; ``fd`` -1 never reaches the kernel."""

    def fileno(self):
        return 7

    def native(self, fd, request, pointer):
        assert fd == 7
        size = request >> 16 & 0x3FFF
        from orkbench_tui.native.library import ffi

        argument = bytearray(ffi.buffer(pointer, size))
        try:
            self.ioctl(request, argument)
        except OSError as error:
            return -error.errno
        ffi.buffer(pointer, size)[:] = bytes(argument)
        return 0


def _none(request, argument, nth):
    return False


def _weight(npu, random, n=N, k=K):
    w = random_matrix(INT8, (n, k), random)
    return npu.load(INT8, "w", w), w


def _unsubmitted(npu, call, match, error=RefusedError):
    before = npu.counters
    with pytest.raises(error, match=match):
        call()
    assert npu.counters.submits == before.submits and npu.counters.resets == before.resets


def test_only_the_activation_is_refreshed(npu, random):
    weight, w = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    program = npu.compile(weight, a)
    used, syncs = npu.memory.used_bytes(0), npu.memory.syncs
    for _ in range(4):
        a[:] = random_matrix(INT8, (1, K), random)
        program.run()
        np.testing.assert_array_equal(program.outputs[0], expected(INT8, a, w))
    assert npu.memory.used_bytes(0) == used and npu.memory.syncs == syncs
    assert npu.counters.submits == 4 and npu.counters.tasks == 4 * program.tasks


@pytest.mark.parametrize("descriptor", [False, True])
def test_both_ways_of_calling_do_the_same(board, random, descriptor):
    device = (DescriptorDevice if descriptor else FaultyDevice)(board, _none)
    with Npu(device) as npu:
        weight, w = _weight(npu, random)
        a = np.zeros((1, K), np.int8)
        call = device.native if descriptor else None
        program = PrecompiledProgram(npu.context, [weight], a, core=1, call=call)
        before = dict(device.counts)
        for _ in range(3):
            a[:] = random_matrix(INT8, (1, K), random)
            program.run()
            np.testing.assert_array_equal(program.outputs[0], expected(INT8, a, w))
        made = {request: count - before.get(request, 0) for request, count in device.counts.items()}
        assert made[uapi.RKNPU_SUBMIT] == made[uapi.RKNPU_MEM_SYNC] == 3
        assert made[uapi.RKNPU_MEM_CREATE] == 0
        assert {(s.flags, s.core_mask) for s in device.submits} == {(0x7, 2)}


def test_a_failing_native_call_is_the_same_typed_error(board, random):
    def fault(request, argument, nth):
        if is_nonblock(request, argument):
            raise OSError(errno.ENODEV, "gone")
        return False

    device = DescriptorDevice(board, fault)
    with Npu(device) as npu:
        weight, _ = _weight(npu, random)
        program = PrecompiledProgram(npu.context, [weight], np.zeros((1, K), np.int8), call=device.native)
        with pytest.raises(NoDeviceError, match="went away"):
            program.run()


def test_a_run_allocates_nothing(npu, random):
    weight, _ = _weight(npu, random)
    program = npu.compile(weight, random_matrix(INT8, (1, K), random))
    for _ in range(50):
        program.run()
    gc.collect()
    tracemalloc.start()
    try:
        program.run()
        before = tracemalloc.take_snapshot()
        for _ in range(200):
            program.run()
        grown = tracemalloc.take_snapshot().compare_to(before, "filename")
    finally:
        tracemalloc.stop()
    ours = sum(item.size_diff for item in grown if "/driver/" in item.traceback[0].filename)
    assert ours < 4096, f"{ours} bytes kept by 200 runs"


def test_without_the_sync_of_a_the_old_activation_is_multiplied(board, random):
    device = FaultyDevice(board, lambda request, argument, nth: request == uapi.RKNPU_MEM_SYNC and armed)
    armed = False
    with Npu(device) as npu:
        weight, w = _weight(npu, random)
        a = random_matrix(INT8, (1, K), random)
        program = npu.compile(weight, a)
        program.run()
        old = program.outputs[0].copy()
        armed = True
        a[:] = random_matrix(INT8, (1, K), random)
        program.run()
        np.testing.assert_array_equal(program.outputs[0], old)
        armed = False
        program.run()
        np.testing.assert_array_equal(program.outputs[0], expected(INT8, a, w))


def test_a_moved_or_resized_activation_is_noticed(npu, random):
    weight, w = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    program = npu.compile(weight, a)
    program.run()
    kept = a.copy()
    a.resize((1, 1 << 22), refcheck=False)
    _unsubmitted(npu, program.run, rf"activation was at 0x[0-9a-f]+ with {K} bytes", LifetimeError)
    again = npu.compile(weight, kept)
    again.run()
    np.testing.assert_array_equal(again.outputs[0], expected(INT8, kept, w))


def test_freed_and_closed(board, random):
    with Npu(board.device()) as npu:
        weight, _ = _weight(npu, random)
        a = random_matrix(INT8, (1, K), random)
        first, second, third = (npu.compile(weight, a) for _ in range(3))
        first.close()
        first.close()
        _unsubmitted(npu, first.run, "was closed", LifetimeError)
        npu.free(weight)
        _unsubmitted(npu, second.run, "was freed", LifetimeError)
        _unsubmitted(npu, lambda: npu.compile(weight, a), "was freed", LifetimeError)
    with pytest.raises(NoDeviceError, match="was closed"):
        third.run()


def test_an_activation_in_npu_memory_is_read_where_it_is(npu, random):
    weight, w = _weight(npu, random)
    a = npu.dma_array((1, K), np.int8)
    program = npu.compile(weight, a)
    a[:] = random_matrix(INT8, (1, K), random)
    program.run()
    np.testing.assert_array_equal(program.outputs[0], expected(INT8, a, w))
    npu.free_array(a)
    _unsubmitted(npu, program.run, "was freed", LifetimeError)


def test_outputs_of_the_caller_s_are_written_where_they_are(npu, random):
    weight, w = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    out = npu.dma_array((1, N), np.int32, cached=False)
    program = npu.compile(weight, a, [out])
    program.run()
    assert program.outputs[0] is out
    np.testing.assert_array_equal(out, expected(INT8, a, w))


@pytest.mark.parametrize("kind", ["host", "cached"])
def test_outputs_that_cannot_be_polled_are_refused(npu, random, kind):
    weight, _ = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    out = np.zeros((1, N), np.int32) if kind == "host" else npu.dma_array((1, N), np.int32)
    _unsubmitted(npu, lambda: npu.compile(weight, a, [out]), "GRD-43.*output 0 is")


@pytest.mark.parametrize("k", [32, 256, 768, 4608])
def test_k_outside_the_envelope_is_refused(npu, random, k):
    weight, _ = _weight(npu, random, k=k)
    a = np.zeros((1, k), np.int8)
    _unsubmitted(npu, lambda: npu.compile(weight, a), f"GRD-10.*K = {k}")


def test_other_arrays_are_refused_with_what_was_expected(npu, random):
    weight, _ = _weight(npu, random)
    fp16 = npu.load(FP16, "h", random_matrix(FP16, (16, K), random))
    good = np.zeros((1, K), np.int8)
    for a, match in (
        (np.zeros((2, K), np.int8), r"int8 \[2, 512\]; expected int8 \[1, 512\]"),
        (np.zeros((1, K), np.uint8), r"uint8 \[1, 512\]; expected int8"),
        (np.zeros((1, 2 * K), np.int8)[:, ::2], "strides"),
    ):
        _unsubmitted(npu, lambda a=a: npu.compile(weight, a), match)
    _unsubmitted(npu, lambda: npu.compile(fp16, good), "is fp16; allowed: int8")
    _unsubmitted(npu, lambda: npu.compile([], good), "0 weights, allowed: 1 to 512")
    _unsubmitted(npu, lambda: npu.compile([weight] * 513, good), "513 weights, allowed: 1 to 512")
    _unsubmitted(npu, lambda: npu.compile(weight, good, []), "0 outputs for 1 weights")


def test_the_descriptor_array_is_the_program_s_own(npu, random):
    weight, _ = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    first, second = npu.compile(weight, a), npu.compile(weight, a)
    chain = npu.chain([ChainTask(weight, 1)])
    arrays = {p._job.descriptors.buffer.handle for p in (first, second)}
    assert len(arrays) == 2 and chain.linked.tasks.buffer.handle not in arrays
    with pytest.raises(RefusedError, match="GRD-42"):
        require_own_descriptors(chain.linked.job, first._job.descriptors.buffer)


def test_interleaved_with_doorbells_and_chains_it_stays_right_without_a_reset(npu, random):
    weight, w = _weight(npu, random)
    a = random_matrix(INT8, (1, K), random)
    program = npu.compile(weight, a)
    chain = npu.chain([ChainTask(weight, 1, a=a)])
    for _ in range(10):
        a[:] = random_matrix(INT8, (1, K), random)
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weight, 1, a=a)] * 3)
            doorbell.begin()
            program.run()
            chain.run()
            assert doorbell.end() == 3
        for output in (program.outputs[0], chain.outputs[0], *doorbell.outputs):
            np.testing.assert_array_equal(output, expected(INT8, a, w))
    assert npu.counters.resets == 1 and npu.counters.drops == 0


def test_beside_a_doorbell_of_the_same_core_it_waits(board, random):
    device = FaultyDevice(board, _none)
    with Npu(device) as npu:
        weight, _ = _weight(npu, random)
        a = random_matrix(INT8, (1, K), random)
        program = npu.compile(weight, a)
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weight, 1, a=a)])
            doorbell.begin()
            program.run()
        program.run()
    assert [s.flags & uapi.JobFlag.NONBLOCK for s in device.submits] == [2, 0, 2]


@pytest.mark.parametrize("drops", [1, 6])
@pytest.mark.parametrize("descriptor", [False, True])
def test_a_lost_job_is_recovered(board, random, monkeypatch, drops, descriptor):
    monkeypatch.setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.05)
    lost = []

    def fault(request, argument, nth):
        if is_nonblock(request, argument) and len(lost) < drops:
            lost.append(nth)
            return True
        return False

    device = (DescriptorDevice if descriptor else FaultyDevice)(board, fault)
    with Npu(device) as npu:
        weight, w = _weight(npu, random)
        a = random_matrix(INT8, (1, K), random)
        program = PrecompiledProgram(npu.context, [weight], a, call=device.native if descriptor else None)
        program._window.estimate_s = 1e-5
        program.run()
        np.testing.assert_array_equal(program.outputs[0], expected(INT8, a, w))
        used = npu.counters
        assert (used.drops, used.resubmits, used.recovered, used.failed) == (drops, drops, 1, 0)


def test_a_job_that_never_comes_raises(board, random, monkeypatch):
    monkeypatch.setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.05)
    with Npu(FaultyDevice(board, lambda r, a, n: is_nonblock(r, a))) as npu:
        weight, _ = _weight(npu, random)
        program = npu.compile(weight, random_matrix(INT8, (1, K), random))
        program._window.estimate_s = 1e-5
        with pytest.raises(UnhealthyError, match="never finished: no result in 7 submits"):
            program.run()
        assert npu.counters.failed == 1 and npu.modes.last_mode == "cold"
