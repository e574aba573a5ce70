"""Orange Pi 3B: RK3566, one NPU core, driver 0.9.8 as a DKMS module on a mainline kernel, no IOMMU."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.driver.soc import RK3566
from orkbench_tui.sim.board_files import rock_5b as facts
from orkbench_tui.sim.boards.boot_trees import BootTree, armbian
from orkbench_tui.sim.boards.derive import cpu_files, encoded, renamed, without
from orkbench_tui.sim.boards.interrupt_line import InterruptLine
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.boot.content import device_tree
from orkbench_tui.sim.identity import NEWEST, DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["profile"]

RELEASE = "6.19.2-edge-rockchip64"
NPU = "fde40000.npu"
_VERSION = f"Linux version {RELEASE} (build@armbian) (aarch64-linux-gnu-gcc 13.3.0) #1 SMP PREEMPT Mon Feb 16 10:12:40 UTC 2026"
_CLUSTERS: dict[int, tuple[tuple[int, ...], int, int]] = {0: ((0, 1, 2, 3), 408000, 1800000)}
_STEPS = "200000000 297000000 400000000 600000000 700000000 800000000 \n"
_ZONES = (("soc-thermal", 51_875), ("gpu-thermal", 51_875))
_NAMES = {
    "fdab0000.npu": NPU,
    "npu@fdab0000": "npu@fde40000",
    "Radxa ROCK 5B": "Orange Pi 3B",
    "fb000000.gpu": "fde60000.gpu",
}
_DROPPED = (
    "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/config.gz", "hwmon", "thermal_zone", "cooling_device1",
    "cooling_device2", "cooling_device3", "cooling_device4", "display-subsystem", "devfreq/dmc", "interrupt-names",
    "iommu_groups", "/dev/dri/card0", "/dev/dri/renderD128",
)  # fmt: skip
_TREE = "/sys/firmware/devicetree/base"
_EVENT = (
    "DRIVER=RKNPU\nOF_NAME=npu\nOF_FULLNAME=/npu@fde40000\nOF_COMPATIBLE_0=rockchip,rk3568-rknpu\n"
    "OF_COMPATIBLE_1=rockchip,rknpu\nOF_COMPATIBLE_N=2\n"
    "MODALIAS=of:NnpuT(null)Crockchip,rk3568-rknpuCrockchip,rknpu\n"
)


def _boot(sram: bool, driver: DriverVersion) -> tuple[BootLine, ...]:
    def npu(level: int, time_us: int, text: str) -> BootLine:
        return BootLine(level, time_us, NPU, f"RKNPU {NPU}: {text}")

    return (
        BootLine(6, 0, "", "Booting Linux on physical CPU 0x0000000000 [0x412fd050]"),
        BootLine(5, 0, "", _VERSION),
        BootLine(6, 0, "", "Machine model: Orange Pi 3B"),
        BootLine(4, 7025640, "", "rknpu: loading out-of-tree module taints kernel."),
        npu(6, 7034768, "RKNPU: rknpu iommu device-tree entry not found!, using non-iommu mode"),
        npu(3, 7036011, "error -EBUSY: can't request region for resource [mem 0xfde40000-0xfde4ffff]"),
        BootLine(6, 7040897, "", f"[drm] Initialized rknpu {driver.name} for {NPU} on minor 1"),
        npu(6, 7045165, "RKNPU: devfreq enabled, initial freq: 594000000 Hz, volt: 900000 uV"),
        BootLine(6, 8902211, "", "systemd[1]: Hostname set to <orangepi3b>."),
        BootLine(6, 38120331, "", "vdd_npu: disabling"),
    )


def profile() -> BoardProfile:
    tree = BootTree(
        RELEASE,
        "rk3566-orangepi-3b.dtb",
        ("xunlong,orangepi-3b", "rockchip,rk3566"),
        "Xunlong Orange Pi 3B",
        "npu@fde40000",
        ("rockchip,rk3568-rknpu", "rockchip,rknpu"),
        waits=False,
        built_in=False,
    )
    boot, boot_links = armbian(tree, "rk3566", "rockchip-rk3566")
    boot["/boot/overlay-user/rk3566-rknpu.dtbo"] = device_tree((), "overlay", "", ())
    boot["/boot/armbianEnv.txt"] += b"user_overlays=rk3566-rknpu\n"
    devfreq = f"/sys/devices/platform/{NPU}/devfreq/{NPU}"
    zones = {
        f"/sys/devices/virtual/thermal/thermal_zone{number}/{name}": text
        for number, (kind, _) in enumerate(_ZONES)
        for name, text in (("type", f"{kind}\n"), ("mode", "enabled\n"))
    }
    files = (
        renamed(without(facts.FILES, _DROPPED), _NAMES)
        | cpu_files(_CLUSTERS, {0: "0xd05"}, "schedutil")
        | encoded(zones)
        | encoded(
            {
                f"{_TREE}/compatible": "xunlong,orangepi-3b\0rockchip,rk3566\0",
                f"{_TREE}/npu@fde40000/compatible": "rockchip,rk3568-rknpu\0rockchip,rknpu\0",
                f"/sys/devices/platform/{NPU}/uevent": _EVENT,
                "/proc/version": f"{_VERSION}\n",
                "/proc/modules": "rknpu 81920 0 - Live 0x0000000000000000 (OE)\n",
                "/sys/module/rknpu/initstate": "live\n",
                "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                "/dev/zram0                              partition\t1980412\t\t0\t\t100\n",
                "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
                "/proc/sys/kernel/version": "#1 SMP PREEMPT Mon Feb 16 10:12:40 UTC 2026\n",
                "/proc/sys/kernel/hostname": "orangepi3b\n",
                "/etc/hostname": "orangepi3b\n",
                "/etc/armbian-release": 'BOARD=orangepi3b\nBOARD_NAME="Orange Pi 3B"\nBOARDFAMILY=rk35xx\n'
                "LINUXFAMILY=rockchip64\nARCH=arm64\nBRANCH=edge\nINITRD_ARCH=arm64\n",
                f"{devfreq}/governor": "simple_ondemand\n",
                f"{devfreq}/cur_freq": "600000000\n",
                f"{devfreq}/target_freq": "600000000\n",
                f"{devfreq}/min_freq": "200000000\n",
                f"{devfreq}/max_freq": "800000000\n",
                f"{devfreq}/available_frequencies": _STEPS,
                f"{devfreq}/load": "0@600000000Hz\n",
                "/sys/devices/platform/regulators/regulator.4/name": "vdd_npu\n",
                "/sys/devices/platform/regulators/regulator.4/microvolts": "900000\n",
                f"/lib/modules/{RELEASE}/updates/dkms/rknpu.ko": "\x7fELF",
                f"/lib/modules/{RELEASE}/modules.builtin": "",
                "/boot/overlay-user/rk3566-rknpu.dtbo": "",
                "/var/lib/dkms/rknpu/0.9.8/source/dkms.conf": 'PACKAGE_NAME="rknpu"\nPACKAGE_VERSION="0.9.8"\n',
            }
        )
    )
    dropped = ["hwmon", "display-subsystem", "drm/card0", "drm/renderD128", "thermal_zone", "devfreq/dmc", "iommu",
               *(f"cooling_device{number}" for number in range(1, 5))]  # fmt: skip
    links = {}
    for path, target in without(facts.LINKS, dropped).items():
        for old, new in _NAMES.items():
            path, target = path.replace(old, new), target.replace(old, new)
        links[path] = target
    for number in range(len(_ZONES)):
        links[f"/sys/class/thermal/thermal_zone{number}"] = (
            f"../../devices/virtual/thermal/thermal_zone{number}"
        )
    return BoardProfile(
        name="rk3566",
        soc=RK3566,
        driver=replace(NEWEST, domains=False),
        driver_there="rknpu",
        release=RELEASE,
        npu=NPU,
        iommu="fde4b000.iommu",
        node="/dev/dri/renderD129",
        files=files | boot,
        links=links | boot_links,
        clusters=_CLUSTERS,
        busy_cores=(0, 1, 2, 3),
        thermal_zones=_ZONES,
        cooling_when_hot={"cooling_device0": 2},
        power_domains=("npu",),
        npu_interrupts=(InterruptLine(47, 183, f"fde4b000.iommu, {NPU}"),),
        gpu_interrupt=None,
        memory_kb=3_961_344,
        cma_kb=1_048_576,
        npu_hz=594_000_000,
        devfreq_hz=600_000_000,
        microvolts=900_000,
        boot_log=_boot,
        iommu_enabled=False,
    )
