"""Fixed files of a ROCK 5B on Armbian's vendor kernel: path -> bytes, and links.

Paths are where the files really are; class entries are links, as on the board.
"""

from __future__ import annotations

import gzip

from orkbench_tui.sim.board_files.boot_log import COMMAND_LINE, LINUX_VERSION

__all__ = ["BIG_CORES", "CLUSTERS", "FILES", "LINKS", "SRAM_FILES", "THERMAL_ZONES"]

NPU_DEVICE = "/sys/devices/platform/fdab0000.npu"
LITTLE_CORES, BIG_CORES = (0, 1, 2, 3), (4, 5, 6, 7)

# policy -> (cores, lowest kHz, highest kHz)
CLUSTERS: dict[int, tuple[tuple[int, ...], int, int]] = {
    0: ((0, 1, 2, 3), 408000, 1800000),
    4: ((4, 5), 408000, 2256000),
    6: ((6, 7), 408000, 2256000),
}

THERMAL_ZONES = (
    ("soc-thermal", 44384),
    ("bigcore0-thermal", 45307),
    ("bigcore1-thermal", 45307),
    ("littlecore-thermal", 45307),
    ("center-thermal", 43461),
    ("gpu-thermal", 43461),
    ("npu-thermal", 44384),
)
"""Zone types in the order of their numbers, and temperature when idle in milli-degrees."""

_DEVICE_TREE = "/sys/firmware/devicetree/base"

_CONFIG = """\
CONFIG_LOG_BUF_SHIFT=18
CONFIG_NO_GKI=y
CONFIG_ROCKCHIP_RKNPU=y
CONFIG_ROCKCHIP_RKNPU_DEBUG_FS=y
# CONFIG_ROCKCHIP_RKNPU_PROC_FS is not set
# CONFIG_ROCKCHIP_RKNPU_FENCE is not set
# CONFIG_ROCKCHIP_RKNPU_SRAM is not set
CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y
# CONFIG_ROCKCHIP_RKNPU_DMA_HEAP is not set
CONFIG_CMA_SYSFS=y
CONFIG_DYNAMIC_DEBUG=y
CONFIG_PSTORE_RAM=y
"""

_IDENTITY = {
    f"{_DEVICE_TREE}/model": "Radxa ROCK 5B\0",
    f"{_DEVICE_TREE}/compatible": "radxa,rock-5b\0rockchip,rk3588\0",
    f"{_DEVICE_TREE}/serial-number": "1f2e3d4c5b6a7988\0",
    f"{_DEVICE_TREE}/npu@fdab0000/compatible": "rockchip,rk3588-rknpu\0",
    f"{_DEVICE_TREE}/npu@fdab0000/status": "okay\0",
    f"{_DEVICE_TREE}/npu@fdab0000/interrupt-names": "npu0_irq\0npu1_irq\0npu2_irq\0",
    "/proc/version": f"{LINUX_VERSION}\n",
    "/proc/cmdline": f"{COMMAND_LINE}\n",
    "/proc/modules": "",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "/proc/sys/kernel/osrelease": "6.1.115-vendor-rk35xx\n",
    "/proc/sys/kernel/ostype": "Linux\n",
    "/proc/sys/kernel/version": "#1 SMP Thu Sep  4 09:12:55 UTC 2025\n",
    "/proc/sys/kernel/hostname": "rock-5b\n",
    "/proc/sys/kernel/printk": "1\t4\t1\t7\n",
    "/proc/sys/kernel/dmesg_restrict": "0\n",
    "/proc/sys/vm/drop_caches": "0\n",
    "/etc/hostname": "rock-5b\n",
    "/etc/armbian-release": 'BOARD=rock-5b\nBOARD_NAME="Rock 5B"\nBOARDFAMILY=rockchip-rk3588\n'
    "LINUXFAMILY=rk35xx\nARCH=arm64\nBRANCH=vendor\nINITRD_ARCH=arm64\n",
    "/etc/os-release": 'PRETTY_NAME="Armbian 25.8.1 bookworm"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\n'
    'VERSION="12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n',
}

_NPU = {
    "/sys/module/rknpu/version": "0.9.8\n",
    "/sys/module/rknpu/parameters/bypass_irq_handler": "0\n",
    "/sys/module/rknpu/parameters/bypass_soft_reset": "0\n",
    "/sys/kernel/debug/rknpu/version": "RKNPU driver: v0.9.8\n",
    "/sys/kernel/debug/rknpu/delayms": "3000\n",
    "/sys/kernel/debug/rknpu/reset": "on\n",
    f"{NPU_DEVICE}/uevent": "DRIVER=RKNPU\nOF_NAME=npu\nOF_FULLNAME=/npu@fdab0000\n"
    "OF_COMPATIBLE_0=rockchip,rk3588-rknpu\nOF_COMPATIBLE_N=1\n"
    "MODALIAS=of:NnpuT(null)Crockchip,rk3588-rknpu\n",
    f"{NPU_DEVICE}/power/control": "auto\n",
    f"{NPU_DEVICE}/power/autosuspend_delay_ms": "",
    f"{NPU_DEVICE}/drm/card1/uevent": "MAJOR=226\nMINOR=1\nDEVNAME=dri/card1\nDEVTYPE=drm_minor\n",
    f"{NPU_DEVICE}/drm/renderD129/uevent": "MAJOR=226\nMINOR=129\nDEVNAME=dri/renderD129\nDEVTYPE=drm_minor\n",
    "/sys/devices/platform/display-subsystem/uevent": "DRIVER=rockchip-drm\nOF_NAME=display-subsystem\n"
    "OF_FULLNAME=/display-subsystem\nOF_COMPATIBLE_0=rockchip,display-subsystem\nOF_COMPATIBLE_N=1\n",
    "/sys/devices/platform/display-subsystem/drm/card0/uevent": "MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\n"
    "DEVTYPE=drm_minor\n",
    "/sys/devices/platform/display-subsystem/drm/renderD128/uevent": "MAJOR=226\nMINOR=128\n"
    "DEVNAME=dri/renderD128\nDEVTYPE=drm_minor\n",
    "/sys/bus/platform/drivers/RKNPU/bind": "",
    "/sys/bus/platform/drivers/RKNPU/unbind": "",
    "/sys/bus/platform/drivers/RKNPU/uevent": "",
    "/sys/kernel/iommu_groups/0/type": "DMA\n",
    "/sys/kernel/debug/dma_buf/bufinfo": "\nDma-buf Objects:\n"
    "size            flags           mode            count           exp_name        ino     \n"
    "\nTotal 0 objects, 0 bytes\n",
    **{f"/dev/dri/{node}": "" for node in ("card0", "card1", "renderD128", "renderD129")},
}

_NPU_STEPS = "300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000 \n"
_GOVERNORS = "rknpu_ondemand dmc_ondemand userspace powersave performance simple_ondemand\n"


def _devfreq(device: str, governor: str, hz: int, lowest: int, load: str, steps: str) -> dict[str, str]:
    folder = f"/sys/devices/platform/{device}/devfreq/{device}"
    return {
        f"{folder}/governor": f"{governor}\n",
        f"{folder}/available_governors": _GOVERNORS,
        f"{folder}/available_frequencies": steps,
        f"{folder}/cur_freq": f"{hz}\n",
        f"{folder}/target_freq": f"{hz}\n",
        f"{folder}/min_freq": f"{lowest}\n",
        f"{folder}/max_freq": f"{steps.split()[-1]}\n",
        f"{folder}/polling_interval": "50\n",
        f"{folder}/load": load,
    }


_DEVFREQ = {
    **_devfreq("fdab0000.npu", "rknpu_ondemand", 1000000000, 300000000, "0@1000000000Hz\n", _NPU_STEPS),
    **_devfreq(
        "dmc",
        "dmc_ondemand",
        2112000000,
        528000000,
        "14@2112000000Hz\n",
        "528000000 1068000000 1560000000 2112000000 \n",
    ),
    **_devfreq(
        "fb000000.gpu",
        "simple_ondemand",
        300000000,
        300000000,
        "0@300000000Hz\n",
        "300000000 400000000 1000000000 \n",
    ),
}


def _cpus() -> dict[str, str]:
    root = "/sys/devices/system/cpu"
    files = {f"{root}/{name}": "0-7\n" for name in ("online", "possible", "present")}
    for core in (*LITTLE_CORES, *BIG_CORES):
        files[f"{root}/cpu{core}/cpu_capacity"] = "414\n" if core in LITTLE_CORES else "1024\n"
        files[f"{root}/cpu{core}/online"] = "1\n"
        midr = "412fd050" if core in LITTLE_CORES else "414fd0b0"
        files[f"{root}/cpu{core}/regs/identification/midr_el1"] = f"0x00000000{midr}\n"
    for policy, (cores, low, high) in CLUSTERS.items():
        folder = f"{root}/cpufreq/policy{policy}"
        steps = [low, 816000, 1200000, 1608000, 1800000, 2016000, 2256000]
        names = " ".join(map(str, cores)) + "\n"
        files |= {
            f"{folder}/scaling_governor": "ondemand\n",
            f"{folder}/scaling_min_freq": f"{low}\n",
            f"{folder}/scaling_max_freq": f"{high}\n",
            f"{folder}/cpuinfo_min_freq": f"{low}\n",
            f"{folder}/cpuinfo_max_freq": f"{high}\n",
            f"{folder}/scaling_available_governors": "conservative ondemand userspace powersave performance schedutil \n",
            f"{folder}/scaling_available_frequencies": " ".join(str(s) for s in steps if s <= high) + " \n",
            f"{folder}/affected_cpus": names,
            f"{folder}/related_cpus": names,
        }
    return files


def _cpuinfo() -> str:
    part = {core: "0xd05" if core in LITTLE_CORES else "0xd0b" for core in (*LITTLE_CORES, *BIG_CORES)}
    return "".join(
        f"processor\t: {core}\nBogoMIPS\t: 48.00\n"
        "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc "
        "dcpop asimddp\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: "
        f"{'0x2' if core in LITTLE_CORES else '0x4'}\nCPU part\t: {part[core]}\nCPU revision\t: 0\n\n"
        for core in part
    )


def _thermal() -> dict[str, str]:
    files = {}
    for number, (kind, _) in enumerate(THERMAL_ZONES):
        folder = f"/sys/devices/virtual/thermal/thermal_zone{number}"
        files[f"{folder}/type"] = f"{kind}\n"
        files[f"{folder}/mode"] = "enabled\n"
    trips = ((75000, "passive"), (85000, "passive"), (115000, "critical"))
    for number, (temperature, kind) in enumerate(trips):
        folder = "/sys/devices/virtual/thermal/thermal_zone0"
        files[f"{folder}/trip_point_{number}_temp"] = f"{temperature}\n"
        files[f"{folder}/trip_point_{number}_type"] = f"{kind}\n"
    cooling = (("thermal-cpufreq-0", 6), ("thermal-cpufreq-1", 6), ("thermal-cpufreq-2", 6),
               ("thermal-devfreq-0", 7), ("pwm-fan", 4))  # fmt: skip
    for number, (kind, states) in enumerate(cooling):
        folder = f"/sys/devices/virtual/thermal/cooling_device{number}"
        files |= {
            f"{folder}/type": f"{kind}\n", f"{folder}/cur_state": "0\n", f"{folder}/max_state": f"{states}\n",
        }  # fmt: skip
    return files


_REGULATORS = (
    ("regulator-dummy", None),
    ("vcc5v0_sys", 5000000),
    ("vdd_cpu_big0_s0", 1000000),
    ("vdd_cpu_big1_s0", 1000000),
    ("vdd_npu_s0", 850000),
    ("vdd_gpu_s0", 675000),
    ("vdd_cpu_lit_s0", 950000),
    ("vdd_log_s0", 750000),
    ("vdd_ddr_s0", 850000),
)
_NPU_RAIL = {"min_microvolts": "550000\n", "max_microvolts": "950000\n", "num_users": "1\n"}


def _regulators() -> dict[str, str]:
    files = {}
    for number, (name, microvolts) in enumerate(_REGULATORS):
        folder = f"/sys/devices/platform/regulators/regulator.{number}"
        files[f"{folder}/name"] = f"{name}\n"
        files[f"{folder}/state"] = "enabled\n"
        if microvolts is not None:
            files[f"{folder}/microvolts"] = f"{microvolts}\n"
        if name == "vdd_npu_s0":
            files |= {f"{folder}/{key}": value for key, value in _NPU_RAIL.items()}
    return files


_HWMON = {
    "/sys/devices/platform/pwm-fan/hwmon/hwmon8/name": "pwmfan\n",
    "/sys/devices/platform/pwm-fan/hwmon/hwmon8/pwm1": "0\n",
    "/sys/devices/platform/pwm-fan/hwmon/hwmon8/pwm1_enable": "1\n",
    "/sys/devices/virtual/nvme/hwmon/hwmon0/name": "nvme\n",
    "/sys/devices/virtual/nvme/hwmon/hwmon0/temp1_input": "38850\n",
}

FILES: dict[str, bytes] = {
    path: text.encode()
    for path, text in (
        _IDENTITY
        | _NPU
        | _DEVFREQ
        | _cpus()
        | {"/proc/cpuinfo": _cpuinfo()}
        | _thermal()
        | _regulators()
        | _HWMON
    ).items()
}
FILES["/proc/config.gz"] = gzip.compress(_CONFIG.encode(), mtime=0)

_WITH_SRAM = _CONFIG.replace("# CONFIG_ROCKCHIP_RKNPU_SRAM is not set", "CONFIG_ROCKCHIP_RKNPU_SRAM=y")
SRAM_FILES: dict[str, bytes] = {
    "/proc/config.gz": gzip.compress(_WITH_SRAM.encode(), mtime=0),
    f"{_DEVICE_TREE}/npu@fdab0000/rockchip,sram": b"\x00\x00\x00\x2f",
}
"""What differs where the NPU owns the system SRAM; the property is a phandle."""

LINKS: dict[str, str] = {
    "/proc/device-tree": "/sys/firmware/devicetree/base",
    "/sys/class/devfreq/fdab0000.npu": "../../devices/platform/fdab0000.npu/devfreq/fdab0000.npu",
    "/sys/class/devfreq/dmc": "../../devices/platform/dmc/devfreq/dmc",
    "/sys/class/devfreq/fb000000.gpu": "../../devices/platform/fb000000.gpu/devfreq/fb000000.gpu",
    f"{NPU_DEVICE}/devfreq/fdab0000.npu/device": "../../../fdab0000.npu",
    "/sys/class/drm/card0": "../../devices/platform/display-subsystem/drm/card0",
    "/sys/class/drm/renderD128": "../../devices/platform/display-subsystem/drm/renderD128",
    "/sys/class/drm/card1": "../../devices/platform/fdab0000.npu/drm/card1",
    "/sys/class/drm/renderD129": "../../devices/platform/fdab0000.npu/drm/renderD129",
    f"{NPU_DEVICE}/drm/card1/device": "../../../fdab0000.npu",
    f"{NPU_DEVICE}/drm/renderD129/device": "../../../fdab0000.npu",
    f"{NPU_DEVICE}/driver": "../../../bus/platform/drivers/RKNPU",
    "/sys/devices/platform/display-subsystem/drm/card0/device": "../../../display-subsystem",
    "/sys/devices/platform/display-subsystem/drm/renderD128/device": "../../../display-subsystem",
    "/sys/bus/platform/drivers/RKNPU/fdab0000.npu": "../../../../devices/platform/fdab0000.npu",
    "/sys/class/iommu/fdab9000.iommu/devices/fdab0000.npu": "../../../../devices/platform/fdab0000.npu",
    "/sys/kernel/iommu_groups/0/devices/fdab0000.npu": "../../../../devices/platform/fdab0000.npu",
    "/dev/dri/by-path/platform-fdab0000.npu-card": "../card1",
    "/dev/dri/by-path/platform-fdab0000.npu-render": "../renderD129",
    "/sys/class/hwmon/hwmon8": "../../devices/platform/pwm-fan/hwmon/hwmon8",
    "/sys/class/hwmon/hwmon0": "../../devices/virtual/nvme/hwmon/hwmon0",
    **{
        f"/sys/class/thermal/thermal_zone{n}": f"../../devices/virtual/thermal/thermal_zone{n}"
        for n in range(len(THERMAL_ZONES))
    },
    **{
        f"/sys/class/thermal/cooling_device{n}": f"../../devices/virtual/thermal/cooling_device{n}"
        for n in range(5)
    },
    **{
        f"/sys/class/regulator/regulator.{n}": f"../../devices/platform/regulators/regulator.{n}"
        for n in range(len(_REGULATORS))
    },
}
