"""The seam: what the driver needs from whatever answers the rknpu kernel ABI.

A real board answers through a DRM node, the simulated board through a socket or in-process. The
bytes are the same and nothing above this protocol may ask which it is.
"""

from __future__ import annotations

import mmap
from typing import Protocol

__all__ = ["Device", "Mapping", "descriptor_of"]

Mapping = mmap.mmap
"""Mapped device memory: a writable buffer that can be closed."""


class Device(Protocol):
    """An open rknpu node."""

    @property
    def name(self) -> str:
        """What to call the device in messages, for example ``/dev/dri/card1``."""
        ...

    def ioctl(self, request: int, argument: bytearray) -> int:
        """Run one ioctl; ``argument`` is the structure, updated in place.

        Safe to call from several threads; a blocking SUBMIT holds only its own thread.

        Raises:
            OSError: with the errno the kernel returned.
        """
        ...

    def mmap(self, offset: int, length: int) -> Mapping:
        """Map ``length`` bytes of the object whose fake offset MEM_MAP gave.

        Raises:
            OSError: EINVAL when ``length`` exceeds the object.
        """
        ...

    def close(self) -> None: ...


def descriptor_of(device: Device) -> int | None:
    """The file descriptor whose ioctls are the device's, None where the device has none.

    A device offers it by a method ``fileno() -> int | None``; native code may then do the calls.
    """
    fileno = getattr(device, "fileno", None)
    return None if fileno is None else fileno()
