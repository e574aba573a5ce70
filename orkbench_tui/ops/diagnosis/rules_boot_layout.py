"""How a board boots, where that is not plain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.ops.kernel.layout import MARKERS, NETWORK_ARGUMENT

__all__ = ["boot_layout"]

_NETBOOT_LINE = r"TFTP from server|Filename '.*'\.|BOOTP broadcast|DHCP client bound|PXE|Loading: [#T ]+|iPXE|netboot|matchbox|nfsroot"


def boot_layout(evidence: Evidence) -> Iterator[Verdict]:
    names = {e.name.rsplit("/", 1)[-1] for e in evidence.entries if e.folder.startswith(("/boot", "boot"))}
    names |= {e.folder.rsplit("/", 1)[-1] for e in evidence.entries if e.folder.startswith("/boot/")}
    given = any(folder.startswith("/boot") for folder in evidence.folders)
    net_lines = [
        line for line in (*evidence.output, *evidence.messages) if re.search(_NETBOOT_LINE, line[:4096])
    ]
    net = re.search(NETWORK_ARGUMENT, evidence.command_line)
    layouts = sorted(
        {layout.value for name in names for pattern, layout in MARKERS if re.match(pattern, name)}
    )
    kernels = sorted(name for name in names if name.startswith(("vmlinuz-", "Image-", "vmlinux-")))
    running = evidence.kernel
    foreign = bool(given and kernels and running and not any(running in name for name in kernels))
    raw_boot = evidence.said(r"ANDROID!|boot\.img|Rockchip (?:FIT|RESC)|resource\.img")
    if net or net_lines:
        reason, layout = "this board boots from the network: what /boot holds is not what runs", "network"
    elif given and not layouts:
        reason, layout = (
            "no boot layout this program knows: neither Armbian, DietPi, Orange Pi, extlinux nor UEFI files in /boot",
            "unknown",
        )
    elif foreign:
        reason, layout = (
            f"the running kernel {running} is not among those in /boot",
            layouts[0] if layouts else "unknown",
        )
    elif len([x for x in layouts if x not in ("uefi",)]) > 1 and not ({"armbian", "dietpi"} >= set(layouts)):
        reason, layout = (
            f"/boot holds several layouts ({', '.join(layouts)}): which one is used is open",
            "ambiguous",
        )
    elif raw_boot and not layouts:
        reason, layout = "the kernel lies in a raw partition (boot.img)", "raw"
    else:
        return
    yield make(
        "boot-layout-unknown",
        reason,
        evidence=[
            *([f"kernel command line: {net[0].strip()}"] if net else []),
            *net_lines[:3],
            f"/boot: {' '.join(sorted(names)[:12])}" if given else "",
            f"running kernel: {running}" if running else "",
        ],
        advice=(
            "change the kernel where it comes from: on the boot server (TFTP, PXE, netboot image), with the old one kept beside it"
            if layout == "network"
            else "find out how the board starts before anything is installed: boot loader output on the serial console, `findmnt /boot`, "
            "/proc/cmdline",
            "a package installed on the board has no effect on the next boot"
            if layout == "network"
            else "a raw partition is changed with the image tools of its vendor only"
            if layout == "raw"
            else "/boot may be an unmounted partition: mount it and look again",
            "keep a way back first: a backup of /boot and a serial console or SD card",
        ),
        refuse=(
            "install a kernel",
            "write to /boot or a raw boot partition on a guess",
            "reboot into it untested",
        ),
        facts={
            "layout": layout,
            "netboot": layout == "network",
            "kernels": kernels,
            "running": running or None,
        },
    )
