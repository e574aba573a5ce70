"""DRM_IOCTL_VERSION: the strings go to pointers in the caller's memory, so they are copied there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from orkbench_tui.driver.uapi import DrmVersion
from orkbench_tui.sim.identity import DRIVER_DATE, DRM_DESCRIPTION, DRM_NAME

__all__ = ["fill_version_strings"]

_STRINGS = (("name", DRM_NAME), ("date", DRIVER_DATE), ("desc", DRM_DESCRIPTION))


def fill_version_strings(argument: bytearray, ask: Callable[[bytearray], int]) -> int:
    """Copy as much of each string as the caller's lengths allow, then let ``ask`` fill the numbers."""
    asked = DrmVersion.from_buffer_copy(argument)
    for field, text in _STRINGS:
        pointer, room = getattr(asked, field), getattr(asked, f"{field}_len")
        if pointer and room:
            ctypes.memmove(pointer, text.encode(), min(room, len(text)))
    return ask(argument)
