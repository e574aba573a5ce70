"""What one board is: its chip, its driver, its files. Tables only; behaviour reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from orkbench_tui.driver.soc import Soc
from orkbench_tui.sim.boards.interrupt_line import InterruptLine
from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["BoardProfile"]


@dataclass(frozen=True, slots=True)
class BoardProfile:
    """``driver`` is None where no rknpu driver is; ``driver_there`` then names the one that is.

    ``npu`` is the platform device. ``files`` and ``links`` are those of a healthy idle board, ``sram_files``
    replace some where the NPU owns the system SRAM. ``clusters`` maps a cpufreq policy to (cores, lowest
    kHz, highest kHz); ``busy_cores`` are those clients run on. ``thermal_zones`` are (type, idle
    milli-degrees). ``boot_log`` takes whether the NPU has SRAM and the driver that is loaded.
    """

    name: str
    soc: Soc
    driver: DriverVersion | None
    driver_there: str
    release: str
    npu: str
    iommu: str
    node: str
    files: dict[str, bytes]
    links: dict[str, str]
    clusters: dict[int, tuple[tuple[int, ...], int, int]]
    busy_cores: tuple[int, ...]
    thermal_zones: tuple[tuple[str, int], ...]
    cooling_when_hot: dict[str, int]
    power_domains: tuple[str, ...]
    npu_interrupts: tuple[InterruptLine, ...]
    gpu_interrupt: InterruptLine | None
    memory_kb: int
    cma_kb: int
    npu_hz: int
    devfreq_hz: int
    microvolts: int
    boot_log: Callable[[bool, DriverVersion], tuple[BootLine, ...]]
    sram_files: dict[str, bytes] = field(default_factory=dict)
    restricts_kernel_log: bool = False
    iommu_enabled: bool = True
    proc_load: bool = False

    @property
    def cores(self) -> int:
        """CPU cores."""
        return sum(len(cores) for cores, _, _ in self.clusters.values())

    @property
    def devfreq(self) -> str:
        return f"/sys/devices/platform/{self.npu}/devfreq/{self.npu}"
