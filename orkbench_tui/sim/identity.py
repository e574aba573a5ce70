"""Who the simulated driver says it is. Kept apart so that a client needs nothing else of the kernel."""

from __future__ import annotations

__all__ = ["DRIVER_DATE", "DRIVER_VERSION", "DRM_DESCRIPTION", "DRM_NAME"]

DRM_NAME = "rknpu"
DRM_DESCRIPTION = "RKNPU driver"
DRIVER_VERSION = (0, 9, 8)
DRIVER_DATE = "20240828"
