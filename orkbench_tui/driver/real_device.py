"""The rknpu node of the machine we run on.

The node number depends on probe order, so a card is taken for the NPU when the kernel says its driver
is ``rknpu``: from sysfs, which needs no permission, and then from the node itself.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import grp
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.driver import uapi
from orkbench_tui.driver.device import Mapping
from orkbench_tui.errors import DeniedError, NoDeviceError

__all__ = ["Card", "DrmDevice", "find_card", "scan_cards"]

DRIVER = "rknpu"


@dataclass(frozen=True, slots=True)
class Card:
    """A DRM or accel node and the driver sysfs names for it ("" when it does not say)."""

    node: str
    driver: str


def scan_cards(root: Path = Path("/")) -> list[Card]:
    """Every ``/dev/dri/card*`` and ``/dev/accel/accel*`` with its driver."""
    cards = []
    for folder, pattern, kind in (("dev/dri", "card*", "drm"), ("dev/accel", "accel*", "accel")):
        for node in sorted((root / folder).glob(pattern)):
            cards.append(
                Card(
                    f"/{folder}/{node.name}", _sysfs_driver(root / "sys/class" / kind / node.name / "device")
                )
            )
    return cards


def _sysfs_driver(device: Path) -> str:
    try:
        for line in (device / "uevent").read_text().splitlines():
            if line.startswith("DRIVER="):
                return line.removeprefix("DRIVER=").lower()
    except OSError:
        return ""
    return ""


def find_card(root: Path = Path("/")) -> Card | None:
    """The card of the vendor NPU driver, or None.

    A card whose driver sysfs does not name is asked itself, where we may open it.
    """
    cards = scan_cards(root)
    for card in cards:
        if card.driver == DRIVER:
            return card
    for card in cards:
        if (
            card.driver == ""
            and card.node.startswith("/dev/dri/")
            and _asked_driver(str(root / card.node[1:])) == DRIVER
        ):
            return card
    return None


def _asked_driver(node: str) -> str:
    try:
        fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return drm_driver_name(fd)
    except OSError:
        return ""
    finally:
        os.close(fd)


def drm_driver_name(fd: int) -> str:
    """What DRM_IOCTL_VERSION says; OSError where the node does not answer it."""
    text = ctypes.create_string_buffer(64)
    request = uapi.DrmVersion(name_len=len(text) - 1, name=ctypes.addressof(text))
    argument = bytearray(request)
    fcntl.ioctl(fd, uapi.DRM_IOCTL_VERSION, argument, True)
    length = uapi.DrmVersion.from_buffer(argument).name_len
    return text.raw[: min(length, len(text))].split(b"\0")[0].decode("ascii", "replace")


class DrmDevice:
    """An open rknpu card node.

    Raises:
        DeniedError: no permission on the node; the message names the group that has it.
        NoDeviceError: the node is gone or belongs to another driver.
    """

    def __init__(self, node: str) -> None:
        self.name = node
        try:
            self._fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise DeniedError(
                    f"no permission on {node}", why=_owner(node), do=_join_advice(node)
                ) from error
            raise NoDeviceError(
                f"cannot open {node}",
                why=os.strerror(error.errno or 0),
                do="check that the rknpu driver is loaded",
            ) from error
        try:
            driver = drm_driver_name(self._fd)
        except OSError:
            driver = "unknown"
        if driver != DRIVER:
            self.close()
            raise NoDeviceError(
                f"{node} is not the NPU", why=f"its driver is {driver!r}, expected {DRIVER!r}"
            )

    def ioctl(self, request: int, argument: bytearray) -> int:
        return fcntl.ioctl(self._fd, request, argument, True)

    def mmap(self, offset: int, length: int) -> Mapping:
        return mmap.mmap(self._fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)

    def fileno(self) -> int | None:
        return self._fd if self._fd >= 0 else None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _group(node: str) -> str:
    try:
        return grp.getgrgid(Path(node).stat().st_gid).gr_name
    except (OSError, KeyError):
        return "video"


def _owner(node: str) -> str:
    try:
        return f"mode {Path(node).stat().st_mode & 0o777:04o}, group {_group(node)}"
    except OSError:
        return "its owner cannot be read"


def _join_advice(node: str) -> str:
    return f"`sudo usermod -aG {_group(node)} $USER`, then log in again"
