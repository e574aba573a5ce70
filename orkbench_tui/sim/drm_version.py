"""DRM_IOCTL_VERSION: the strings go to pointers in the caller's memory, so they are copied there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from orkbench_tui.driver.uapi import DrmVersion
from orkbench_tui.sim.identity import DRM_DESCRIPTION, DRM_NAME, date_of

__all__ = ["fill_version_strings"]


def fill_version_strings(argument: bytearray, ask: Callable[[bytearray], int]) -> int:
    """Let ``ask`` fill the numbers, then copy as much of each string as the caller's lengths allow."""
    asked = DrmVersion.from_buffer_copy(argument)
    value = ask(argument)
    answer = DrmVersion.from_buffer_copy(argument)
    date = date_of((answer.version_major, answer.version_minor, answer.version_patchlevel))
    for field, text in (("name", DRM_NAME), ("date", date), ("desc", DRM_DESCRIPTION)):
        pointer, room = getattr(asked, field), getattr(asked, f"{field}_len")
        if pointer and room:
            ctypes.memmove(pointer, text.encode(), min(room, len(text)))
    return value
