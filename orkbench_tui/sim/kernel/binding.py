"""Taking the rknpu driver off its device and putting it back, as writes to unbind and bind do."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from orkbench_tui.sim.kernel.kernel_log import NPU

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["bind", "unbind"]

_PROBE_SIGNS = ("RKNPU", "Initialized rknpu")


def unbind(kernel: RknpuKernel, device: str) -> None:
    """The driver lets go of its device: open files are dead, their memory is freed under them.

    Domains other than 0 are freed too, and what had leaked in them with them. Jobs at work make the kernel warn.

    Raises:
        OSError: ENODEV for another device, or when the driver is not bound.
    """
    if device != kernel.profile.npu or not kernel.bound:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    kernel.bound = False
    with kernel.condition:
        if kernel.scheduler.queues.live_jobs():
            kernel.log.trace(
                (
                    "------------[ cut here ]------------",
                    "WARNING: CPU: 0 PID: 3188 at drivers/rknpu/rknpu_drv.c:1559 rknpu_remove+0x168/0x1a0",
                    "---[ end trace 0000000000000000 ]---",
                )
            )
    kernel.scheduler.queues.abandon()
    with kernel.condition:
        for file in kernel.files:
            file.closed = True
        kernel.files.clear()
        kernel.memory.forget_objects()
        kernel.domains.forget()


def bind(kernel: RknpuKernel, device: str) -> None:
    """The driver probes its device anew, with the lines of a boot.

    Raises:
        OSError: ENODEV for another device, EBUSY when it is bound.
    """
    if device != kernel.profile.npu:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    if kernel.bound:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    for line in kernel.profile.boot_log(kernel.variant.sram, kernel.driver):
        if any(sign in line.message for sign in _PROBE_SIGNS) or line.device == NPU:
            kernel.log.again(line)
    kernel.scheduler.queues.resume()
    kernel.bound = True
