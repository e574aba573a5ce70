"""What the driver and the chip say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.driver import uapi
from orkbench_tui.driver.soc import Soc
from orkbench_tui.errors import NoDeviceError, OrkError

__all__ = ["NpuInfo", "read_info", "version_text"]


@dataclass(frozen=True, slots=True)
class NpuInfo:
    """What the driver says of itself and the chip; None where it does not answer."""

    device: str
    soc: str
    cores: int
    driver_version: str
    hw_version: int
    freq_hz: int | None
    volt_uv: int | None
    iommu: bool | None
    sram_bytes: int | None
    sram_free_bytes: int | None
    domain: int | None


def version_text(code: int) -> str:
    """``908`` → ``0.9.8``: the action returns major * 10000 + minor * 100 + patch."""
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def read_info(device: str, soc: Soc, action: Callable[[uapi.ActionCode], int]) -> NpuInfo:
    """Ask the driver; ``action`` runs one of its actions.

    Raises:
        NoDeviceError: the device is gone.
        OrkError: it does not even tell its version.
    """

    def maybe(code: uapi.ActionCode) -> int | None:
        try:
            return action(code)
        except NoDeviceError:
            raise
        except OrkError:
            return None

    iommu = maybe(uapi.ActionCode.GET_IOMMU_EN)
    return NpuInfo(
        device=device,
        soc=soc.name,
        cores=soc.cores,
        driver_version=version_text(action(uapi.ActionCode.GET_DRV_VERSION)),
        hw_version=action(uapi.ActionCode.GET_HW_VERSION),
        freq_hz=maybe(uapi.ActionCode.GET_FREQ),
        volt_uv=maybe(uapi.ActionCode.GET_VOLT),
        iommu=None if iommu is None else bool(iommu),
        sram_bytes=maybe(uapi.ActionCode.GET_TOTAL_SRAM_SIZE),
        sram_free_bytes=maybe(uapi.ActionCode.GET_FREE_SRAM_SIZE),
        domain=maybe(uapi.ActionCode.GET_IOMMU_DOMAIN_ID),
    )
