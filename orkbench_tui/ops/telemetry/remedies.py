"""What to do about a reading that is missing: one table."""

from __future__ import annotations

__all__ = ["remedy"]

# (field begins with, reason or "" for any, what to do); the first that fits is taken.
_REMEDIES: tuple[tuple[str, str, str], ...] = (
    ("", "pending", "comes with the next sample"),
    ("npu.load", "denied", "use sudo, or a driver that also has /proc/rknpu/load"),
    ("npu.load", "absent", "mount debugfs: mount -t debugfs none /sys/kernel/debug; `ork board doctor` says more"),
    ("npu.load", "invalid", "the driver printed another form: report it with `ork board bundle`"),
    ("npu.cores", "invalid", "reset the NPU: `ork board reset`; newer drivers do not count below zero"),
    ("npu.clock", "absent", "the NPU has no frequency control here: `ork board doctor` says why"),
    ("npu.hw_time", "absent", "needs the job-hw-time patch: `ork kernel patches`"),
    ("sram", "absent", "needs a kernel that gives on-chip memory to the NPU: `ork kernel patches`"),
    ("sram", "invalid", "the driver has no on-chip memory: its device tree gives none"),
    ("resets", "denied", "use sudo, or let users read it: sysctl kernel.dmesg_restrict=0"),
    ("resets", "absent", "give a saved log: `ork board log --file FILE`"),
    ("memory.cma", "absent", "boot with cma=256M where buffers must be contiguous"),
    ("ddr", "absent", "this kernel has no DDR frequency control; figures that depend on DDR compare less well"),
    ("temperatures", "absent", "the kernel names no thermal zone: check its device tree"),
    ("cooling", "absent", "the kernel names no cooling device: check its device tree"),
    ("cpu.clock", "absent", "this kernel has no cpufreq: check its device tree"),
    ("power_domains", "absent", "mount debugfs: mount -t debugfs none /sys/kernel/debug"),
    ("dma_bufs", "absent", "mount debugfs: mount -t debugfs none /sys/kernel/debug"),
    ("", "denied", "use sudo"),
    ("", "absent", "this kernel does not have it"),
    ("", "failed", "read it by hand; when it fails there too, look at `ork board log`"),
    ("", "invalid", "report it with `ork board bundle`"),
)  # fmt: skip


def remedy(field: str, reason: str) -> str:
    """The next step for a field without a value; "" for a reason nobody knows."""
    return next(
        (text for prefix, why, text in _REMEDIES if field.startswith(prefix) and why in ("", reason)), ""
    )
