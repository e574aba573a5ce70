"""ROCK 5B on a mainline kernel: the rocket driver owns the NPU, there is no rknpu."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.sim.board_files import rock_5b as facts
from orkbench_tui.sim.boards import rock_5b
from orkbench_tui.sim.boards.boot_trees import BootTree, armbian
from orkbench_tui.sim.boards.derive import encoded, kernel_config, without
from orkbench_tui.sim.boards.interrupt_line import InterruptLine
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["profile"]

RELEASE = "6.18.22-current-rockchip64"
_VERSION = f"Linux version {RELEASE} (build@armbian) (aarch64-linux-gnu-gcc 13.3.0) #1 SMP PREEMPT Fri Apr 10 11:22:08 UTC 2026"
_CORES = ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu")
_IOMMUS = ("fdab9000.iommu", "fdaca000.iommu", "fdada000.iommu")
_ZONES = (
    ("package-thermal", 44_384), ("bigcore0-thermal", 45_307), ("bigcore2-thermal", 45_307),
    ("littlecore-thermal", 45_307), ("center-thermal", 43_461), ("gpu-thermal", 43_461), ("npu-thermal", 44_384),
)  # fmt: skip
_DROPPED = (
    "rknpu", "RKNPU", "fdab0000.npu", "npu@fdab0000", "devfreq/fdab0000", "devfreq/dmc", "drm/card1", "dri/card1",
    "renderD129", "hwmon0", "iommu_groups", "cooling_device3",
)  # fmt: skip
_TREE = "/sys/firmware/devicetree/base"
_DRM = "/sys/devices/platform/rknn/accel/accel0"


def _boot(sram: bool, driver: DriverVersion) -> tuple[BootLine, ...]:
    groups = tuple(
        BootLine(6, 951330 + 75 * at, core, f"platform {core}: Adding to iommu group {at + 1}")
        for at, core in enumerate(_CORES)
    )
    probes = tuple(
        BootLine(6, 5311117 + 1113 * at, core, f"rocket {core}: Rockchip NPU core {at} version: 1179210309")
        for at, core in enumerate(_CORES)
    )
    return (
        BootLine(6, 0, "", "Booting Linux on physical CPU 0x0000000000 [0x412fd050]"),
        BootLine(5, 0, "", _VERSION),
        BootLine(6, 0, "", "Machine model: Radxa ROCK 5B"),
        *groups,
        BootLine(6, 5310201, "", "[drm] Initialized rocket 0.0.0 for rknn on minor 0"),
        *probes,
        BootLine(6, 8902211, "", "systemd[1]: Hostname set to <rock-5b>."),
    )


def profile() -> BoardProfile:
    tree = BootTree(
        RELEASE,
        "rk3588-rock-5b.dtb",
        ("radxa,rock-5b", "rockchip,rk3588"),
        "Radxa ROCK 5B",
        "npu@fdab0000",
        ("rockchip,rk3588-rknn-core",),
        waits=False,
        built_in=False,
    )
    boot, boot_links = armbian(tree, "rk3588", "rockchip-rk3588")
    texts = {
        "/proc/version": f"{_VERSION}\n",
        "/proc/modules": "rocket 32768 0 - Live 0x0000000000000000\n",
        "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        "/dev/zram0                              partition\t8112256\t\t0\t\t100\n",
        "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
        "/proc/sys/kernel/version": "#1 SMP PREEMPT Fri Apr 10 11:22:08 UTC 2026\n",
        "/proc/sys/kernel/printk": "4\t4\t1\t7\n",
        "/proc/sys/kernel/dmesg_restrict": "1\n",
        "/etc/armbian-release": 'BOARD=rock-5b\nBOARD_NAME="Rock 5B"\nBOARDFAMILY=rockchip-rk3588\n'
        "LINUXFAMILY=rockchip64\nARCH=arm64\nBRANCH=current\nINITRD_ARCH=arm64\n",
        "/sys/devices/platform/rknn/uevent": "MODALIAS=platform:rknn\n",
        f"{_DRM}/uevent": "MAJOR=261\nMINOR=0\nDEVNAME=accel/accel0\nDEVTYPE=accel_minor\n",
        "/dev/accel/accel0": "",
        "/sys/bus/platform/drivers/rocket/bind": "",
        "/sys/bus/platform/drivers/rocket/unbind": "",
    }
    links = {
        "/sys/class/accel/accel0": "../../devices/platform/rknn/accel/accel0",
        f"{_DRM}/device": "../../../rknn",
    }
    for at, (core, iommu) in enumerate(zip(_CORES, _IOMMUS, strict=True)):
        address = core.split(".")[0]
        texts |= {
            f"{_TREE}/npu@{address}/compatible": "rockchip,rk3588-rknn-core\0",
            f"{_TREE}/npu@{address}/status": "okay\0",
            f"/sys/devices/platform/{core}/uevent": f"DRIVER=rocket\nOF_NAME=npu\nOF_FULLNAME=/npu@{address}\n"
            "OF_COMPATIBLE_0=rockchip,rk3588-rknn-core\nOF_COMPATIBLE_N=1\n",
            f"/sys/devices/platform/{core}/power/runtime_status": "suspended\n",
            f"/sys/kernel/iommu_groups/{at + 1}/type": "DMA\n",
        }
        links |= {
            f"/sys/bus/platform/drivers/rocket/{core}": f"../../../../devices/platform/{core}",
            f"/sys/class/iommu/{iommu}/devices/{core}": f"../../../../devices/platform/{core}",
        }
    for number, (kind, _) in enumerate(_ZONES):
        texts[f"/sys/devices/virtual/thermal/thermal_zone{number}/type"] = f"{kind}\n"
    for policy in facts.CLUSTERS:
        texts[f"/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"] = "schedutil\n"
    files = without(facts.FILES, _DROPPED) | encoded(texts) | boot
    files["/proc/config.gz"] = kernel_config("CONFIG_DRM_ACCEL_ROCKET=m")
    return replace(
        rock_5b.profile(),
        name="rocket",
        driver=None,
        driver_there="rocket",
        release=RELEASE,
        node="/dev/accel/accel0",
        files=files,
        links=without(facts.LINKS, _DROPPED) | links | boot_links,
        thermal_zones=_ZONES,
        cooling_when_hot={"cooling_device4": 4},
        npu_interrupts=tuple(
            InterruptLine(60 + at, 142 + at, f"{iommu}, {core}")
            for at, (core, iommu) in enumerate(zip(_CORES, _IOMMUS, strict=True))
        ),
        memory_kb=16_224_512,
        cma_kb=65_536,
        boot_log=_boot,
        sram_files={},
        restricts_kernel_log=True,
    )
