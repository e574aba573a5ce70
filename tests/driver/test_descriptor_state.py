"""A descriptor an element-wise operation used is not a matmul's until the matmul writes it."""

import pytest

from orkbench_tui.driver.descriptor_state import (
    DESCRIPTOR_TABLE,
    DescriptorEvent,
    DescriptorOwner,
    DescriptorState,
)
from orkbench_tui.driver.modes import Mode, ModeState, Profile
from orkbench_tui.errors import RefusedError


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
    assert modes.enter(Mode.F16, Profile.SC_MM).keep
    with pytest.raises(RefusedError):
        descriptor.require_matmul()
