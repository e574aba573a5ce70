"""Which of the boards that exist in the field the simulated one is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STOCK", "BoardVariant"]


@dataclass(frozen=True, slots=True)
class BoardVariant:
    """Kernel build options that change what an operator sees.

    ``sram``: the NPU owns the 956 KiB system SRAM (CONFIG_ROCKCHIP_RKNPU_SRAM and a device-tree property).
    ``patch_import_domain``: imports are recorded in the domain they were mapped in.
    ``patch_domain_anchor``: a new domain maps a page of its own before anything is imported.
    ``patch_job_hw_time``: the driver shows finished jobs and hardware time of every core.
    ``board``: a name of ``boards.catalogue``.
    """

    sram: bool = False
    patch_import_domain: bool = False
    board: str = "rock-5b"
    patch_job_hw_time: bool = False
    patch_domain_anchor: bool = False


STOCK = BoardVariant()
