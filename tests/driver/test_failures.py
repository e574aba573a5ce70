"""Kernel errnos become typed errors with the way out."""

import errno

import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import from_os_error
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import ExitCode, NoDeviceError, UnhealthyError


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENODEV, ExitCode.NO_DEVICE),
        (errno.ECONNRESET, ExitCode.NO_DEVICE),
        (errno.EACCES, ExitCode.DENIED),
        (errno.EBUSY, ExitCode.BUSY),
        (errno.ENOMEM, ExitCode.NO_MEMORY),
        (errno.ETIMEDOUT, ExitCode.UNHEALTHY),
        (errno.EINVAL, ExitCode.UNHEALTHY),
    ],
)
def test_each_errno_has_its_kind_and_names_itself(number, code):
    error = from_os_error(OSError(number, "x"), "running a job", "/dev/dri/card1")
    assert error.exit_code is code
    assert errno.errorcode[number] in error.line()
    assert "/dev/dri/card1" in error.line()
    assert error.do


class _Failing:
    """A device that fails one kind of ioctl from the n-th call on."""

    def __init__(self, device, request, number, after=0):
        self._device, self._request, self._number, self._left = device, request, number, after
        self.name = device.name

    def ioctl(self, request, argument):
        if request == self._request:
            if self._left <= 0:
                raise OSError(self._number, "injected")
            self._left -= 1
        return self._device.ioctl(request, argument)

    def mmap(self, offset, length):
        return self._device.mmap(offset, length)

    def close(self):
        self._device.close()


def _matmul(npu):
    from orkbench_tui.ops.checks import exact_matmul

    return exact_matmul(npu, 64, 64, 96)


def test_a_failing_submit_stops_the_stream_and_is_raised_once(board):
    with (
        Npu(_Failing(board.device(), uapi.RKNPU_SUBMIT, errno.ETIMEDOUT, after=1)) as npu,
        pytest.raises(UnhealthyError),
    ):
        _matmul(npu)


def test_after_a_failed_stream_the_npu_can_be_used_again(board):
    device = _Failing(board.device(), uapi.RKNPU_SUBMIT, errno.ETIMEDOUT)
    with Npu(device) as npu:
        with pytest.raises(UnhealthyError):
            _matmul(npu)
        device._left = 1000
        assert _matmul(npu).wrong == 0


def test_a_device_that_vanishes_is_named_and_closing_stays_quiet(board):
    with (
        Npu(_Failing(board.device(), uapi.RKNPU_MEM_CREATE, errno.ENODEV)) as npu,
        pytest.raises(NoDeviceError, match="went away"),
    ):
        _matmul(npu)


def test_freeing_after_the_device_went_hides_no_failure(board):
    import errno

    from orkbench_tui.driver.npu import Npu

    device = board.device()
    npu = Npu(device)
    buffer = npu.memory.allocate(4096)

    def gone(request, argument):
        raise OSError(errno.ENODEV, "gone")

    device.ioctl = gone
    npu.memory.free(buffer)
    assert npu.memory.used_bytes(0) == 0
