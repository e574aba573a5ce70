"""Radxa ROCK 5B, Armbian's vendor kernel 6.1: the board the simulator knows best."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.board_files import rock_5b as facts
from orkbench_tui.sim.board_files.boot_log import boot_log
from orkbench_tui.sim.boards.boot_trees import BootTree, armbian
from orkbench_tui.sim.boards.interrupt_line import InterruptLine
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.identity import NEWEST, DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["NPU_INTERRUPTS", "boot_lines", "profile"]

RELEASE = "6.1.115-vendor-rk35xx"
_SHARED = "fdab9000.iommu, fdab0000.npu"
NPU_INTERRUPTS = tuple(InterruptLine(35 + core, 142 + core, _SHARED) for core in range(3))
GPU_INTERRUPT = InterruptLine(44, 124, "fb000000.gpu")


def boot_lines(sram: bool, driver: DriverVersion) -> tuple[BootLine, ...]:
    """The boot log with the version and date of the driver that is loaded."""
    return tuple(
        replace(
            line, message=line.message.replace("rknpu 0.9.8 20240828", f"rknpu {driver.name} {driver.date}")
        )
        for line in boot_log(sram)
    )


def profile() -> BoardProfile:
    tree = BootTree(
        RELEASE,
        "rk3588-rock-5b.dtb",
        ("radxa,rock-5b", "rockchip,rk3588"),
        "Radxa ROCK 5B",
        "npu@fdab0000",
        ("rockchip,rk3588-rknpu",),
    )
    files, links = armbian(tree, "rk3588", "rockchip-rk3588")
    return BoardProfile(
        name="rock-5b",
        soc=RK3588,
        driver=NEWEST,
        driver_there="rknpu",
        release=RELEASE,
        npu="fdab0000.npu",
        iommu="fdab9000.iommu",
        node="/dev/dri/renderD129",
        files={**facts.FILES, **files},
        links={**facts.LINKS, **links},
        clusters=facts.CLUSTERS,
        busy_cores=facts.BIG_CORES,
        thermal_zones=facts.THERMAL_ZONES,
        cooling_when_hot={"cooling_device3": 2, "cooling_device4": 4},
        power_domains=("npu", "nputop", "npu1", "npu2"),
        npu_interrupts=NPU_INTERRUPTS,
        gpu_interrupt=GPU_INTERRUPT,
        memory_kb=32_507_904,
        cma_kb=262_144,
        npu_hz=1_000_000_000,
        devfreq_hz=1_000_000_000,
        microvolts=850_000,
        boot_log=boot_lines,
        sram_files=facts.SRAM_FILES,
    )
