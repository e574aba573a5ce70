"""Orange Pi 5 Plus, Ubuntu-Rockchip 6.1, driver 0.9.7: the NPU's kernel log is closed to ordinary users."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.sim.board_files import rock_5b as facts
from orkbench_tui.sim.boards import rock_5b
from orkbench_tui.sim.boards.boot_trees import BootTree, extlinux
from orkbench_tui.sim.boards.derive import encoded, kernel_config, renamed, without
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.identity import DRIVERS, DriverVersion
from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["profile"]

RELEASE = "6.1.0-1025-rockchip"
_VERSION = f"Linux version {RELEASE} (buildd@bos03-arm64-041) (gcc 11.4.0) #25-Ubuntu SMP Mon Aug 26 23:01:14 UTC 2024"
_CLUSTERS: dict[int, tuple[tuple[int, ...], int, int]] = {
    0: ((0, 1, 2, 3), 408000, 1800000),
    4: ((4, 5), 408000, 2352000),
    6: ((6, 7), 408000, 2352000),
}
_NAMES = {
    "Radxa ROCK 5B": "Orange Pi 5 Plus",
    "radxa,rock-5b": "rockchip,rk3588-orangepi-5-plus",
    "2256000": "2352000",
    "0.9.8": "0.9.7",
}
_TREE = "/sys/firmware/devicetree/base"


def _boot(sram: bool, driver: DriverVersion) -> tuple[BootLine, ...]:
    def told(text: str) -> str:
        if text.startswith("Linux version"):
            return _VERSION
        for old, new in (("Radxa ROCK 5B", "Orange Pi 5 Plus"), ("<rock-5b>", "<orangepi5-plus>"),
                         ("256 MiB", "512 MiB"), ("850 mV", "800 mV")):  # fmt: skip
            text = text.replace(old, new)
        return text

    return tuple(replace(line, message=told(line.message)) for line in rock_5b.boot_lines(sram, driver))


def profile() -> BoardProfile:
    base = rock_5b.profile()
    tree = BootTree(
        RELEASE,
        "rk3588-orangepi-5-plus.dtb",
        ("rockchip,rk3588-orangepi-5-plus", "rockchip,rk3588"),
        "Orange Pi 5 Plus",
        "npu@fdab0000",
        ("rockchip,rk3588-rknpu",),
        waits=False,
    )
    boot, boot_links = extlinux(tree, f"/lib/firmware/{RELEASE}/device-tree")
    files = renamed(without(facts.FILES, ["/etc/armbian-release", "nvme"]), _NAMES) | encoded(
        {
            f"{_TREE}/compatible": "rockchip,rk3588-orangepi-5-plus\0rockchip,rk3588\0",
            "/proc/version": f"{_VERSION}\n",
            "/proc/cmdline": "root=UUID=6a1c2a3e-1d52-4d8a-9d0e-0b6a3f3c9d10 ro rootwait cma=512M\n",
            "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
            "/swapfile                               file\t\t2097148\t\t0\t\t-2\n",
            "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
            "/proc/sys/kernel/version": "#25-Ubuntu SMP Mon Aug 26 23:01:14 UTC 2024\n",
            "/proc/sys/kernel/hostname": "orangepi5-plus\n",
            "/proc/sys/kernel/printk": "4\t4\t1\t7\n",
            "/proc/sys/kernel/dmesg_restrict": "1\n",
            "/etc/hostname": "orangepi5-plus\n",
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n'
            "VERSION_CODENAME=noble\nID=ubuntu\n",
            "/etc/default/u-boot": 'U_BOOT_TIMEOUT="20"\n',
            "/etc/kernel/cmdline": "rootwait cma=512M\n",
            "/sys/devices/platform/regulators/regulator.4/microvolts": "800000\n",
        }
    )
    files["/proc/config.gz"] = kernel_config("CONFIG_ROCKCHIP_RKNPU=y", "CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y")
    return replace(
        base,
        name="orange-pi-5-plus",
        driver=DRIVERS["0.9.7"],
        release=RELEASE,
        files=files | boot,
        links=without(facts.LINKS, ["hwmon0"]) | boot_links,
        clusters=_CLUSTERS,
        memory_kb=16_224_512,
        cma_kb=524_288,
        microvolts=800_000,
        boot_log=_boot,
        sram_files={},
        restricts_kernel_log=True,
    )
