"""How a board starts its kernel, from what lies on its boot disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from orkbench_tui.ops.disk import Disk, FileSystem, Kind

__all__ = [
    "LINKS",
    "MARKERS",
    "NETWORK_ARGUMENT",
    "Layout",
    "Method",
    "find_layout",
    "kernels_of",
]

LINKS = ("dtb", "uInitrd", "Image")
"""Links in /boot of a script boot, in the order they are switched: the kernel last."""

NETWORK_ARGUMENT = r"(?:^|\s)(?:root=/dev/nfs|nfsroot=|ip=(?:dhcp|on|any|\d+\.)|BOOTIF=|netboot|initrd=https?://|talos\.config=http)"
"""Kernel arguments that only a network boot has."""


class Method(StrEnum):
    ARMBIAN = "armbian"
    DIETPI = "dietpi"
    ORANGEPI = "orangepi"
    EXTLINUX = "extlinux"
    UEFI = "uefi"
    RAW = "raw"
    NETWORK = "network"
    UNKNOWN = "unknown"


MARKERS: tuple[tuple[str, Method], ...] = (
    (r"^armbianEnv\.txt$", Method.ARMBIAN),
    (r"^dietpiEnv\.txt$", Method.DIETPI),
    (r"^extlinux(?:\.conf)?$", Method.EXTLINUX),
    (r"^orangepiEnv\.txt$", Method.ORANGEPI),
    (r"^(?:efi|EFI|grub|loader)$", Method.UEFI),
)
"""Names below /boot and what they tell, in the order in which they decide."""

TITLES = {
    Method.ARMBIAN: "Armbian boot script",
    Method.DIETPI: "DietPi boot script",
    Method.ORANGEPI: "Orange Pi boot script",
    Method.EXTLINUX: "extlinux menu",
    Method.UEFI: "UEFI",
    Method.RAW: "raw partition",
    Method.NETWORK: "network boot",
    Method.UNKNOWN: "unknown",
}
_SCRIPTS = (Method.ARMBIAN, Method.DIETPI, Method.ORANGEPI)
_REFUSED = {
    Method.UEFI: "the boot loader or GRUB chooses the kernel; this program does not write its entries",
    Method.RAW: "the kernel lies in a raw partition, which only the vendor's image tools write",
    Method.NETWORK: "this board boots from the network: what /boot holds is not what runs",
}
MENU = "/boot/extlinux/extlinux.conf"


@dataclass(frozen=True, slots=True)
class Layout:
    """``refusal`` says why no kernel can be installed here, "" when one can; ``seen`` are the names below /boot."""

    method: Method
    seen: tuple[str, ...]
    file_system: FileSystem
    refusal: str

    @property
    def title(self) -> str:
        return TITLES[self.method]

    @property
    def scripted(self) -> bool:
        """Whether links named ``LINKS`` choose the kernel."""
        return self.method in _SCRIPTS


def kernels_of(disk: Disk) -> tuple[str, ...]:
    """Releases with an image in /boot, sorted."""
    return tuple(name.removeprefix("vmlinuz-") for name in disk.list("/boot") if name.startswith("vmlinuz-"))


def find_layout(disk: Disk, command_line: str, running: str) -> Layout:
    """The layout, and whether it can be worked with. ``running`` is the running kernel's release."""
    seen = tuple(disk.list("/boot"))
    found = [method for pattern, method in MARKERS if any(re.match(pattern, name) for name in seen)]
    space = disk.file_system("/boot")
    method = found[0] if found else Method.UNKNOWN
    if re.search(NETWORK_ARGUMENT, command_line):
        method = Method.NETWORK
    elif method is Method.EXTLINUX and disk.kind(MENU) is None:
        method = Method.UNKNOWN
    return Layout(method, seen, space, _refusal(disk, method, seen, space, running))


def _refusal(disk: Disk, method: Method, seen: tuple[str, ...], space: FileSystem, running: str) -> str:
    if method in _REFUSED:
        return _REFUSED[method]
    if method is Method.UNKNOWN:
        names = " ".join(seen[:12]) or "nothing"
        return f"no boot layout this program knows; /boot holds {names}"
    kernels = kernels_of(disk)
    if running not in kernels:
        return f"the running kernel {running} is not among those in /boot ({', '.join(kernels) or 'none'})"
    if not space.has_links:
        return f"/boot is {space.type}, which has no links to switch at once"
    if space.read_only:
        return "/boot is mounted read-only; remount it writable"
    return _link_refusal(disk) if method in _SCRIPTS else ""


def _link_refusal(disk: Disk) -> str:
    for name in LINKS:
        path = f"/boot/{name}"
        kind = disk.kind(path)
        if kind is not None and kind is not Kind.LINK:
            return f"{path} is a {kind.value} where this layout has a link: somebody replaced it"
    if disk.kind("/boot/Image") is None:
        return "/boot/Image is missing: what boots here is not what this program knows"
    return ""
