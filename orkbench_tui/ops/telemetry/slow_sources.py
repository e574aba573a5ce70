"""Readings that change seldom or cost the kernel a walk: taken every few seconds, the same in between.

Optional ones too: on-chip memory and job times are only there on kernels that have those patches.
"""

from __future__ import annotations

from orkbench_tui.ops.files import BoardFiles, Reading
from orkbench_tui.ops.telemetry.board_paths import BoardPaths
from orkbench_tui.ops.telemetry.dma_bufs import DmaBufs, parse_bufinfo
from orkbench_tui.ops.telemetry.gaps import Gaps
from orkbench_tui.ops.telemetry.power_domains import PowerDomain, parse_power_domains
from orkbench_tui.ops.telemetry.sram_map import SramMap, parse_mm
from orkbench_tui.ops.telemetry.thermal import CoolingDevice, parse_state

__all__ = ["SlowSources", "cooling_devices", "dma_bufs", "power_domains", "sram_map"]

EVERY_S = 5.0

_DEBUG = "/sys/kernel/debug"
MAPS = (f"{_DEBUG}/rknpu/mm", "/proc/rknpu/mm")
GENPD = f"{_DEBUG}/pm_genpd/pm_genpd_summary"
BUFINFO = f"{_DEBUG}/dma_buf/bufinfo"


class SlowSources:
    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._taken_s: float | None = None

    def readings(self, files: BoardFiles, paths: BoardPaths, now_s: float) -> dict[str, Reading]:
        """By path; read anew when the last are ``EVERY_S`` old or other devices were found."""
        wanted = [*MAPS, GENPD, BUFINFO, *(f"{device.path}/cur_state" for device in paths.cooling)]
        old = self._taken_s is None or now_s - self._taken_s >= EVERY_S
        if old or set(wanted) != set(self._readings):
            self._readings = dict(zip(wanted, files.read_many(wanted), strict=True))
            self._taken_s = now_s
        return self._readings


def cooling_devices(gaps: Gaps, paths: BoardPaths) -> tuple[CoolingDevice, ...]:
    if not paths.cooling:
        gaps.absent("cooling", "/sys/class/thermal")
    return tuple(
        CoolingDevice(
            device.number,
            device.kind,
            gaps.value(f"cooling.{device.number}.state", f"{device.path}/cur_state", parse_state),
            device.max_state,
        )
        for device in paths.cooling
    )


def sram_map(gaps: Gaps) -> SramMap | None:
    reading = gaps.first(MAPS)
    return gaps.value("sram", reading.path, parse_mm)


def power_domains(gaps: Gaps) -> tuple[PowerDomain, ...]:
    return gaps.value("power_domains", GENPD, parse_power_domains) or ()


def dma_bufs(gaps: Gaps) -> DmaBufs | None:
    return gaps.value("dma_bufs", BUFINFO, parse_bufinfo)
