"""The faults as data. Behaviour is in ``effects`` (the kernel) and ``overlay`` (the files)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["CATALOGUE", "Event", "Fault", "Part", "described"]


class Event(StrEnum):
    """What may end a fault besides ``ork sim fault clear``."""

    RESET = "soft reset"
    GOVERNOR = "a governor written to the NPU's devfreq node"
    DROP_CACHES = "3 written to /proc/sys/vm/drop_caches"
    TERMINATED = "SIGTERM to its program"
    REBOOT = "reboot"
    POWER_CYCLE = "power cycle"


class Part(StrEnum):
    """What a board must have for a fault to change anything there."""

    RKNPU = "the rknpu driver"
    IOMMU = "an IOMMU before the NPU"


_RESTARTS = (Event.REBOOT, Event.POWER_CYCLE)


@dataclass(frozen=True, slots=True)
class Fault:
    """``shows`` names the files, log lines and counters that change. ``values`` are the variants, the first
    is taken when none is named. ``clearable`` is False where nothing a program does would undo it, so that
    ``clear`` must not either. ``restarts`` means that setting and clearing it boots the board anew.
    ``needs`` are the parts without which it changes nothing; ``variant_is_core`` and ``variant_is_driver``
    say what a variant names, so that a board offers those it can have (see ``board_faults``).
    """

    name: str
    does: str
    shows: tuple[str, ...]
    ended_by: tuple[Event, ...]
    values: tuple[str, ...] = ()
    clearable: bool = True
    restarts: bool = False
    needs: tuple[Part, ...] = ()
    variant_is_core: bool = False
    variant_is_driver: bool = False


CATALOGUE: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "wedge",
            "jobs on the core never complete until a soft reset",
            (
                "load: 100 % on the core while its interrupts stand still",
                "log: job lines 1-5 after a time-out",
            ),
            (Event.RESET, *_RESTARTS),
            values=("all", "0", "1", "2"),
            needs=(Part.RKNPU,),
            variant_is_core=True,
        ),
        Fault(
            "hard-wedge",
            "the NPU's block does not answer: every ioctl ends with ENODEV, resets fail, a reboot does not help",
            ("load: 100 % on every core", "log: 'Disable stall request timed out', 'failed to soft reset'"),
            (Event.POWER_CYCLE,),
            clearable=False,
            needs=(Part.RKNPU,),
        ),
        Fault(
            "reset-storm",
            "a program asks for a soft reset about every second; running jobs of others fail",
            (
                "/proc/3122/fd/7 is the NPU's node",
                "log: lone 'soft reset, num:' lines with no job line before them",
            ),
            (Event.TERMINATED, *_RESTARTS),
            needs=(Part.RKNPU,),
        ),
        Fault(
            "iova-leak",
            "the address window of domain 0 is full of ranges nobody can give back",
            (
                "log: unmap warnings, then 'failed to allocate IOVA: -12' with free memory",
                "ork sim status: leaked mappings",
            ),
            _RESTARTS,
            clearable=False,
            needs=(Part.RKNPU, Part.IOMMU),
        ),
        Fault(
            "domain-switch-timeout",
            "a domain reference was lost: no other domain can be made live, each try takes 6 s",
            ("log: 'switch iommu domain time out' every 6 s", "GET_IOMMU_DOMAIN_ID never changes"),
            _RESTARTS,
            needs=(Part.RKNPU, Part.IOMMU),
        ),
        Fault(
            "import-no-memory",
            "importing a dma-buf ends with ENOMEM, whatever its size",
            ("PRIME_FD_TO_HANDLE: ENOMEM", "log: the simulator's line about the import"),
            _RESTARTS,
            needs=(Part.RKNPU,),
        ),
        Fault(
            "page-cache-full",
            "memory is all page cache: imports above 1 MiB end with ENOMEM",
            (
                "/proc/meminfo: little MemFree, large Cached, CmaFree nearly gone",
                "PRIME_FD_TO_HANDLE: ENOMEM",
            ),
            (Event.DROP_CACHES, *_RESTARTS),
        ),
        Fault(
            "hot",
            "the chip is above its trip point and the NPU is held at 800 MHz",
            (
                "thermal zones: 86-90 degrees",
                "devfreq cur_freq and max_freq: 800 MHz",
                "cooling device 3 acts",
            ),
            (),
        ),
        Fault(
            "parked-governor",
            "the NPU's clock was parked low and nobody set it back",
            ("devfreq: governor userspace, cur_freq at the parked clock", "GET_FREQ"),
            (Event.GOVERNOR, *_RESTARTS),
            values=("300", "200"),
            needs=(Part.RKNPU,),
        ),
        Fault(
            "busy-other-process",
            "a program of somebody else holds the node and keeps the cores busy",
            ("/proc/3120/fd/7 is the NPU's node", "load: 63 % on every core", "/proc/interrupts counts on"),
            (Event.TERMINATED, *_RESTARTS),
        ),
        Fault(
            "debugfs-missing",
            "debugfs is not mounted",
            ("/sys/kernel/debug: empty",),
            (),
        ),
        Fault(
            "permission-denied",
            "the user is in no group: the node and debugfs are closed, and the kernel log where the board restricts it",
            (
                "open of the node: EACCES",
                "/sys/kernel/debug/**, cpuinfo_cur_freq: EACCES; /dev/kmsg too where dmesg_restrict is 1",
            ),
            (),
        ),
        Fault(
            "old-driver",
            "the kernel carries an older rknpu driver",
            (
                "version nodes, DRM and action version",
                "RKNPU_MEM_CREATE of 40 bytes (0.8.2), one IOMMU domain before 0.9.6",
                "jobs of several cores never complete (0.9.2, 0.9.3)",
                "domains are switched under running jobs (0.9.6, 0.9.7)",
                "log: no wait line, one time-out line, 'soft reset' without a number",
                "load: not clamped at 100 %",
            ),
            (),
            values=("0.8.2", "0.9.2", "0.9.3", "0.9.6", "0.9.7"),
            restarts=True,
            needs=(Part.RKNPU,),
            variant_is_driver=True,
        ),
        Fault(
            "process-stuck-D",
            "a program waits for the domain lock and cannot be killed",
            (
                "/proc/3121/stat: state D, wchan __mutex_lock.constprop.0",
                "/proc/stat: procs_blocked 1",
                "log: 'task ork-run:3121 blocked for more than 120 seconds'",
            ),
            _RESTARTS,
            needs=(Part.RKNPU,),
        ),
        Fault(
            "boot-image-broken",
            "/boot/Image is cut short: the board runs on, and does not come back from a restart",
            ("/boot/Image: no kernel header", "after a restart every ioctl ends with ENODEV"),
            (),
        ),
    )
}


def described(fault: Fault, value: str | None, why_not: str = "") -> dict[str, Any]:
    """A row for people and programs; ``value`` is None while the fault is not set.

    ``why_not`` is what the board lacks for it, "" where it can have the fault.
    """
    return {
        "name": fault.name,
        "does": fault.does,
        "shows": list(fault.shows),
        "ended_by": [str(event) for event in fault.ended_by],
        "values": list(fault.values),
        "clearable": fault.clearable,
        "restarts": fault.restarts,
        "set": value is not None,
        "value": value or "",
        "why_not": why_not,
    }
