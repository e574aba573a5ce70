"""Typed errors of the driver: misuse, and kernel errnos with what they mean for an NPU call."""

from __future__ import annotations

import errno
import os

from orkbench_tui.errors import (
    BusyError,
    DeniedError,
    NoDeviceError,
    NoMemoryError,
    OrkError,
    RefusedError,
    UnhealthyError,
)

__all__ = ["LifetimeError", "OperandError", "from_os_error"]


class OperandError(RefusedError, ValueError):
    """An array, size or number the NPU cannot take; raised before anything is submitted."""


class LifetimeError(RefusedError):
    """Something freed or closed, or a call in the wrong order; raised before anything is submitted."""


_GONE = {
    errno.ENODEV,
    errno.ENXIO,
    errno.EPIPE,
    errno.ECONNRESET,
    errno.ECONNREFUSED,
    errno.EBADF,
    errno.ENOTCONN,
}


def from_os_error(error: OSError, action: str, device: str) -> OrkError:
    """The typed error for ``action`` (a phrase such as "submitting a job") failing on ``device``."""
    number = error.errno or 0
    name = errno.errorcode.get(number, str(number))
    seen = f"{device} answered {name} ({os.strerror(number)})" if number else str(error)
    if number in _GONE:
        return NoDeviceError(
            f"the NPU went away while {action}",
            why=seen,
            do="run the command again; `ork board status` shows what is there",
        )
    if number in (errno.EACCES, errno.EPERM):
        return DeniedError(
            f"{action} was denied", why=seen, do="join the group that owns the node and log in again"
        )
    if number == errno.EBUSY:
        return BusyError(f"{action}: the NPU is in use", why=seen, do="wait for the other program to end")
    if number == errno.ENOMEM:
        return NoMemoryError(
            f"{action}: no NPU memory",
            why=f"{seen}: the 4 GiB address window or free memory does not suffice",
            do="use a smaller model or context, or `sync; echo 3 > /proc/sys/vm/drop_caches` if memory is all page cache",
        )
    if number == errno.ETIMEDOUT:
        return UnhealthyError(
            f"{action}: the NPU did not finish in time",
            why=f"{seen}; the kernel has reset the NPU, the result is void",
            do="look at `ork board log`, then run again",
        )
    return UnhealthyError(f"{action} failed", why=seen, do="look at `ork board log` for the kernel's reason")
