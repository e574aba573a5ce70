"""What guarded operations ask of an open NPU."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from orkbench_tui.errors import UnhealthyError

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

__all__ = ["drop_overdue_jobs", "sram_grant"]

_SRAM_TEST_BYTES = 64 << 10


def drop_overdue_jobs(npu: Npu) -> None:
    """A small job on each core without waiting makes the kernel drop what is past its time-out there.

    Whether the cores work afterwards is for the caller to find out.
    """
    from orkbench_tui.driver.drain import drain_of
    from orkbench_tui.driver.matmul.formats import INT8

    marker = drain_of(npu.context, INT8, 0)
    for core in range(npu.soc.cores):
        with contextlib.suppress(UnhealthyError):
            marker.start(core)
            marker.run(core)


def sram_grant(npu: Npu) -> tuple[int, int]:
    """Bytes asked for and bytes that came to lie on the chip, for a buffer of register programs; it is freed again."""
    from orkbench_tui.driver.sram import NpuUse, allocate_near

    near = allocate_near(npu.context.memory, NpuUse.REGISTER_PROGRAMS, _SRAM_TEST_BYTES)
    npu.context.memory.free(near.buffer)
    return near.requested, near.granted
