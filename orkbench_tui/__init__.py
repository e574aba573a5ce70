"""The workbench for RK3588-class boards and the language models that run on their NPU."""

from orkbench_tui.version import VERSION as __version__

__all__ = ["__version__"]
