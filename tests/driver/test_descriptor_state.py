"""A descriptor an element-wise operation used is not a matmul's until the matmul writes it."""

import ctypes
import dataclasses

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.descriptor_state import (
    DESCRIPTOR_TABLE,
    DescriptorBook,
    DescriptorEvent,
    DescriptorOwner,
    DescriptorState,
)
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.layouts import tile_weights
from orkbench_tui.driver.modes import Mode, ModeState, Profile
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.errors import RefusedError, UnhealthyError


def test_a_fresh_descriptor_must_be_written():
    with pytest.raises(RefusedError, match="nobody"):
        DescriptorState().require_matmul()


@pytest.mark.parametrize("event", [DescriptorEvent.LUT_RUN, DescriptorEvent.SDP_RUN])
def test_an_operation_takes_the_descriptor_and_a_reset_does_not_give_it_back(event):
    state = DescriptorState()
    state.happened(DescriptorEvent.MATMUL_WRITTEN)
    state.require_matmul()
    taken = state.happened(event)
    assert taken is not DescriptorOwner.MATMUL
    assert state.happened(DescriptorEvent.RESET) is taken
    with pytest.raises(RefusedError, match="reset does not restore it"):
        state.require_matmul()
    state.happened(DescriptorEvent.MATMUL_WRITTEN)
    state.require_matmul()


def test_a_reset_is_the_only_event_without_effect():
    assert set(DescriptorEvent) - set(DESCRIPTOR_TABLE) == {DescriptorEvent.RESET}
    state = DescriptorState(DescriptorOwner.MATMUL)
    assert state.happened(DescriptorEvent.FREED) is DescriptorOwner.NOBODY


def test_the_mode_table_lets_a_matmul_in_where_the_descriptor_does_not():
    modes, descriptor = ModeState(cores=3), DescriptorState()
    modes.enter(Mode.F16, Profile.SC_MM)
    descriptor.happened(DescriptorEvent.MATMUL_WRITTEN)
    modes.enter(Mode.I8, Profile.SDP)
    descriptor.happened(DescriptorEvent.LUT_RUN)
    assert not modes.enter(Mode.F16, Profile.SC_MM).changed
    with pytest.raises(RefusedError):
        descriptor.require_matmul()


def test_a_matmul_on_the_descriptor_of_a_lut_operation_times_out_until_it_is_rewritten(npu):
    matrix = np.random.default_rng(0).integers(-128, 128, (32, 64), dtype=np.int8)
    weight = npu.load_int8("w", tile_weights(INT8_TO_INT32, matrix), 64, 32)
    matmul = npu.matmul_int8([weight], 4)
    matmul.a[:] = 1
    matmul.run()
    (array,) = (b for b in npu.memory._buffers.values() if b.flags & uapi.MemFlag.KERNEL_MAPPING)

    def write(task):
        array.view[: len(task)] = np.frombuffer(task, dtype=np.uint8)
        npu.memory.sync(array, uapi.SyncFlag.TO_DEVICE)

    own = bytes(array.view[: ctypes.sizeof(uapi.Task)])
    lut = uapi.Task.from_buffer_copy(own)
    lut.regcfg_amount, lut.enable_mask = 69, 0x18
    write(bytes(lut))
    with pytest.raises(UnhealthyError, match="did not finish in time"):
        matmul.run()
    npu.action(uapi.ActionCode.ACT_RESET)
    with pytest.raises(UnhealthyError, match="did not finish in time"):
        matmul.run()
    write(own)
    matmul.outputs[0][:] = 0
    matmul.run()
    np.testing.assert_array_equal(matmul.outputs[0], np.tile(matrix.sum(axis=1, dtype=np.int32), (4, 1)))


def test_a_matmul_is_not_submitted_on_the_descriptor_of_an_element_wise_job(npu):
    """Run paths ask the book of their task array, so the wrong array is refused before the device is touched."""
    table = npu.sdp.compile_table("silu", "int8", 4, 64, in_scale=0.05, out_scale=0.05)
    job = table._assembly.jobs[0]
    assert job.owner is DescriptorOwner.LUT
    before = npu.counters
    as_matmul = dataclasses.replace(job, owner=DescriptorOwner.MATMUL, pingpong=True)
    with pytest.raises(RefusedError, match="holds the fields of lut"):
        npu.context.submitter.run_on(0, as_matmul)
    assert npu.counters == before
    npu.reset()
    with pytest.raises(RefusedError, match="holds the fields of lut"):
        npu.context.submitter.run_on(0, as_matmul)


def test_descriptors_given_back_start_nothing_and_serve_again_when_written(npu):
    matrix = np.random.default_rng(0).integers(-128, 128, (32, 64), dtype=np.int8)
    weight = npu.load_int8("w", tile_weights(INT8_TO_INT32, matrix), 64, 32)
    first = npu.matmul_int8([weight], 4)
    jobs = list(first._jobs)
    first.close()
    before = npu.counters
    with pytest.raises(RefusedError, match="holds the fields of nobody"):
        npu.context.submitter.run_on(0, jobs[0])
    operation = npu.sdp.compile("relu", "int8", 4, 64)
    kept = operation._assembly.jobs[0]
    operation.close()
    with pytest.raises(LifetimeError, match="descriptors were given back"):
        npu.context.submitter.run_on(0, kept)
    assert npu.counters == before
    again = npu.matmul_int8([weight], 4)
    assert again._jobs[0].first == jobs[0].first, "the same piece of the array"
    again.a[:] = 1
    again.run()
    np.testing.assert_array_equal(again.outputs[0], np.tile(matrix.sum(axis=1, dtype=np.int32), (4, 1)))


def test_every_job_of_every_path_asks_the_book(npu, monkeypatch):
    asked = []
    require = DescriptorBook.require
    monkeypatch.setattr(
        DescriptorBook,
        "require",
        lambda self, first, owner: (asked.append(owner), require(self, first, owner)),
    )
    matrix = np.random.default_rng(0).integers(-128, 128, (32, 512), dtype=np.int8)
    weight = npu.load_int8("w", tile_weights(INT8_TO_INT32, matrix), 512, 32)
    a = np.ones((2, 512), np.int8)
    npu.matmul_int8([weight], 2).run()
    npu.chain([ChainTask(weight, 2, a=a)]).run()
    with npu.doorbell() as doorbell:
        doorbell.build([ChainTask(weight, 2, a=a)])
        doorbell.begin()
    assert asked == [DescriptorOwner.MATMUL] * 3
    npu.sdp.relu(a)
    npu.sdp.silu(a, in_scale=0.05, out_scale=0.05)
    assert asked[3:] == [DescriptorOwner.SDP, DescriptorOwner.LUT, DescriptorOwner.LUT]
