"""A descriptor an element-wise operation used is not a matmul's until the matmul writes it."""

import ctypes

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.descriptor_state import (
    DESCRIPTOR_TABLE,
    DescriptorEvent,
    DescriptorOwner,
    DescriptorState,
)
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
