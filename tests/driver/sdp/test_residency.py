"""A function table stays on its core until a reset, and comes back by itself."""

import errno

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.modes import Mode, Profile
from orkbench_tui.errors import UnhealthyError

CODES = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)
SCALES = {"in_scale": 0.05, "out_scale": 0.05}


def exact():
    x = CODES.astype(np.float64) * 0.05
    return np.clip(x / (1 + np.exp(-x)) / 0.05, -128, 127)


def right(npu, core=0):
    return np.abs(npu.sdp.silu(CODES, **SCALES, core=core) - exact()).max() <= 0.6


def test_a_table_is_loaded_once_per_core(npu):
    for core in (0, 0, 1, 1, 0, 2):
        assert right(npu, core)
    assert npu.sdp.table_loads == 3


def test_another_table_takes_its_place(npu):
    assert right(npu)
    npu.sdp.gelu(CODES, **SCALES)
    assert right(npu)
    assert npu.sdp.table_loads == 3


def test_other_element_wise_work_leaves_the_table(npu):
    assert right(npu)
    npu.sdp.add(CODES, CODES)
    assert right(npu)
    assert npu.sdp.table_loads == 1


def test_after_a_reset_it_is_loaded_again(npu):
    assert right(npu)
    npu.action(uapi.ActionCode.ACT_RESET)
    assert right(npu)
    assert npu.sdp.table_loads == 2


def test_without_that_the_numbers_are_wrong(npu):
    """The flags are put back behind the driver's back: the core answers from an empty table."""
    assert right(npu)
    npu.action(uapi.ActionCode.ACT_RESET)
    npu.modes.lut_loaded = [True] * npu.soc.cores
    assert not right(npu)
    assert npu.sdp.table_loads == 1


def test_a_failed_load_does_not_count(npu, monkeypatch):
    def refuse(core, job):
        raise UnhealthyError("no")

    with monkeypatch.context() as patch:
        patch.setattr(npu.context.submitter, "run_on", refuse)
        with pytest.raises(UnhealthyError):
            npu.sdp.silu(CODES, **SCALES)
    assert npu.sdp.table_loads == 0
    assert right(npu)
    assert npu.sdp.table_loads == 1


def test_after_a_job_the_kernel_gave_up_it_is_loaded_again(npu, monkeypatch):
    assert right(npu)
    real_ioctl = npu._device.ioctl

    def time_out(request, argument):
        if request == uapi.RKNPU_SUBMIT:
            real_ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=int(uapi.ActionCode.ACT_RESET))))
            raise OSError(errno.ETIMEDOUT, "timed out")
        return real_ioctl(request, argument)

    with monkeypatch.context() as patch:
        patch.setattr(npu._device, "ioctl", time_out)
        with pytest.raises(UnhealthyError):
            npu.sdp.add(CODES, CODES)
    assert right(npu)
    assert npu.sdp.table_loads == 2


def test_table_jobs_run_without_ping_pong(npu, monkeypatch):
    flags = []
    real_ioctl = npu._device.ioctl

    def record(request, argument):
        if request == uapi.RKNPU_SUBMIT:
            flags.append(uapi.Submit.from_buffer_copy(argument).flags)
        return real_ioctl(request, argument)

    monkeypatch.setattr(npu._device, "ioctl", record)
    npu.sdp.silu(CODES, **SCALES)
    npu.sdp.add(CODES, CODES)
    assert flags == [0x1, 0x1, 0x5]


def test_the_mode_table_is_told_of_element_wise_work_and_keeps_the_matmuls_mode(npu):
    npu.sdp.add(CODES, CODES)
    half = np.ones((1, 8), np.float16)
    npu.sdp.add(half, half)
    assert npu.modes.entries == {(Profile.SDP, Mode.COLD): 2}
    assert npu.modes.last_mode is Mode.COLD and npu.modes.resets == 0


@pytest.mark.parametrize("between", [False, True], ids=["no reset", "reset"])
def test_a_matmul_behind_a_table_operation_runs_on_descriptors_of_its_own(npu, between):
    random = np.random.default_rng(0)
    a, w = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 64), (32, 64)))
    matmul = npu.matmul([npu.load(INT8, "w", w)], 4)
    matmul.a[:] = a
    for _ in range(2):
        assert right(npu)
        if between:
            npu.action(uapi.ActionCode.ACT_RESET)
        matmul.run_on(0)
        np.testing.assert_array_equal(matmul.outputs[0], a.astype(np.int32) @ w.T.astype(np.int32))


def test_many_tables_do_not_pile_up_in_memory(npu):
    def use(scales):
        for in_scale in scales:
            for out_scale in (1.0, in_scale / 4, in_scale / 8):
                npu.sdp.activate("tanh", CODES, in_scale=in_scale, out_scale=out_scale)

    scales = [1e-4 * 1.25**number for number in range(26)]
    use(scales)
    assert npu.sdp.table_loads > 64
    before = npu.memory.used_bytes(0)
    use(scales)
    assert npu.sdp.table_loads > 128
    assert npu.memory.used_bytes(0) == before
