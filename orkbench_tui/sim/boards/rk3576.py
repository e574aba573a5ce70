"""Radxa ROCK 4D: RK3576, two NPU cores, 1 MiB of NBUF, vendor kernel 6.1.84."""

from __future__ import annotations

from orkbench_tui.driver.soc import RK3576
from orkbench_tui.sim.board_files import rock_5b as facts
from orkbench_tui.sim.boards.boot_trees import BootTree, extlinux
from orkbench_tui.sim.boards.derive import cpu_files, encoded, kernel_config, renamed, without
from orkbench_tui.sim.boards.interrupt_line import InterruptLine
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.identity import NEWEST, DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["profile"]

RELEASE = "6.1.84-8-rk2410"
NPU, IOMMU = "27700000.npu", "27702000.iommu"
_VERSION = f"Linux version {RELEASE} (radxa@builder) (aarch64-linux-gnu-gcc 12.2.0) #1 SMP Tue Mar 18 07:52:01 UTC 2025"
_CLUSTERS: dict[int, tuple[tuple[int, ...], int, int]] = {
    0: ((0, 1, 2, 3), 408000, 2208000),
    4: ((4, 5, 6, 7), 408000, 2304000),
}
_PARTS = {0: "0xd03", 4: "0xd08"}
_STEPS = "300000000 400000000 500000000 600000000 700000000 800000000 900000000 950000000 \n"
_ZONES = ("soc-thermal", "bigcore-thermal", "littlecore-thermal", "ddr-thermal", "npu-thermal", "gpu-thermal")
_NAMES = {
    "fdab0000.npu": NPU,
    "fdab9000.iommu": IOMMU,
    "npu@fdab0000": "npu@27700000",
    "rk3588-rknpu": "rk3576-rknpu",
    "Radxa ROCK 5B": "Radxa ROCK 4D",
    "fb000000.gpu": "27800000.gpu",
}
_DROPPED = (
    "/sys/devices/system/cpu", "/proc/cpuinfo", "/etc/armbian-release", "hwmon", "thermal_zone", "display-subsystem",
)  # fmt: skip
_TREE = "/sys/firmware/devicetree/base"


def _boot(sram: bool, driver: DriverVersion) -> tuple[BootLine, ...]:
    nbuf_size = ", nbuf size: 0x100000" if driver.names_nbuf_size else ""

    def npu(level: int, time_us: int, text: str) -> BootLine:
        return BootLine(level, time_us, NPU, f"RKNPU {NPU}: {text}")

    return (
        BootLine(6, 0, "", "Booting Linux on physical CPU 0x0000000000 [0x410fd034]"),
        BootLine(5, 0, "", _VERSION),
        BootLine(6, 0, "", "Machine model: Radxa ROCK 4D"),
        BootLine(6, 0, "", "cma: Reserved 256 MiB at 0x00000000f0000000"),
        BootLine(6, 959142, NPU, f"platform {NPU}: Adding to iommu group 2"),
        npu(6, 4028645, "RKNPU: rknpu iommu is enabled, using iommu mode"),
        npu(3, 4028876, "error -EBUSY: can't request region for resource [mem 0x27700000-0x27707fff]"),
        npu(3, 4028898, "error -EBUSY: can't request region for resource [mem 0x27708000-0x2770ffff]"),
        BootLine(6, 4029443, "", f"[drm] Initialized rknpu {driver.name} {driver.date} for {NPU} on minor 1"),
        npu(6, 4031002, "RKNPU: bin=0"),
        npu(6, 4031340, f"RKNPU: nbuf region: [0x000000003fe80000, 0x000000003ff80000){nbuf_size}"),
        BootLine(6, 8902211, "", "systemd[1]: Hostname set to <rock-4d>."),
    )


def profile() -> BoardProfile:
    tree = BootTree(
        RELEASE,
        "rk3576-rock-4d.dtb",
        ("radxa,rock-4d", "rockchip,rk3576"),
        "Radxa ROCK 4D",
        "npu@27700000",
        ("rockchip,rk3576-rknpu",),
    )
    boot, boot_links = extlinux(tree, f"/usr/lib/linux-image-{RELEASE}")
    devfreq = f"/sys/devices/platform/{NPU}/devfreq/{NPU}"
    zones = {
        f"/sys/devices/virtual/thermal/thermal_zone{number}/{name}": text
        for number, kind in enumerate(_ZONES)
        for name, text in (("type", f"{kind}\n"), ("mode", "enabled\n"))
    }
    files = (
        renamed(without(facts.FILES, _DROPPED), _NAMES)
        | cpu_files(_CLUSTERS, _PARTS, "ondemand")
        | encoded(zones)
        | encoded(
            {
                f"{_TREE}/compatible": "radxa,rock-4d\0rockchip,rk3576\0",
                f"{_TREE}/npu@27700000/interrupt-names": "npu0_irq\0npu1_irq\0",
                "/proc/version": f"{_VERSION}\n",
                "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                "/dev/zram0                              partition\t4054012\t\t0\t\t100\n",
                "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
                "/proc/sys/kernel/version": "#1 SMP Tue Mar 18 07:52:01 UTC 2025\n",
                "/proc/sys/kernel/hostname": "rock-4d\n",
                "/proc/sys/kernel/printk": "4\t4\t1\t7\n",
                "/etc/hostname": "rock-4d\n",
                f"{devfreq}/cur_freq": "950000000\n",
                f"{devfreq}/target_freq": "950000000\n",
                f"{devfreq}/max_freq": "950000000\n",
                f"{devfreq}/available_frequencies": _STEPS,
                f"{devfreq}/load": "0@950000000Hz\n",
                "/sys/devices/platform/regulators/regulator.4/microvolts": "875000\n",
            }
        )
    )
    files["/proc/config.gz"] = kernel_config("CONFIG_ROCKCHIP_RKNPU=y", "CONFIG_ROCKCHIP_RKNPU_PROC_FS=y")
    links = {
        path.replace("fb000000.gpu", "27800000.gpu"): target.replace("fb000000.gpu", "27800000.gpu")
        for path, target in _links().items()
    }
    return BoardProfile(
        name="rk3576",
        soc=RK3576,
        driver=NEWEST,
        driver_there="rknpu",
        release=RELEASE,
        npu=NPU,
        iommu=IOMMU,
        node="/dev/dri/renderD129",
        files=files | boot,
        links=links | boot_links,
        clusters=_CLUSTERS,
        busy_cores=(4, 5, 6, 7),
        thermal_zones=tuple((kind, 43_461) for kind in _ZONES),
        cooling_when_hot={"cooling_device3": 2},
        power_domains=("npu0", "npu1"),
        npu_interrupts=tuple(
            InterruptLine(41 + core, 279 + core, f"{IOMMU}, {NPU}") for core in range(RK3576.cores)
        ),
        gpu_interrupt=InterruptLine(44, 381, "27800000.gpu"),
        memory_kb=8_103_424,
        cma_kb=262_144,
        npu_hz=950_000_000,
        devfreq_hz=950_000_000,
        microvolts=875_000,
        boot_log=_boot,
        proc_load=True,
    )


def _links() -> dict[str, str]:
    kept = without(facts.LINKS, ["hwmon", "display-subsystem", "drm/card0", "drm/renderD128", "thermal_zone6"])  # fmt: skip
    renames = {old: _NAMES[old] for old in ("fdab0000.npu", "fdab9000.iommu")}
    moved = {}
    for path, target in kept.items():
        for old, new in renames.items():
            path, target = path.replace(old, new), target.replace(old, new)
        moved[path] = target
    return moved
