"""The kernel log of a healthy boot: Radxa ROCK 5B, vendor kernel 6.1.115, rknpu 0.9.8 without SRAM.

Several lines say "failed" or "can't request region". A healthy board prints them.
"""

from __future__ import annotations

from orkbench_tui.sim.kernel.kernel_log import BootLine

__all__ = ["BOOT_LOG", "COMMAND_LINE", "LINUX_VERSION", "boot_log"]

LINUX_VERSION = (
    "Linux version 6.1.115-vendor-rk35xx (armbian@next) (aarch64-linux-gnu-gcc (GCC) 14.2.0, "
    "GNU ld (GNU Binutils) 2.43) #1 SMP Thu Sep  4 09:12:55 UTC 2025"
)
COMMAND_LINE = (
    "root=UUID=6a1c2a3e-1d52-4d8a-9d0e-0b6a3f3c9d10 rootwait rootfstype=ext4 splash=verbose "
    "console=ttyS2,1500000 console=tty1 consoleblank=0 loglevel=1 ubootpart= "
    "usb-storage.quirks=0x2537:0x1066:u,0x2537:0x1068:u cma=256M  cgroup_enable=cpuset "
    "cgroup_memory=1 cgroup_enable=memory"
)

_NPU = "fdab0000.npu"


def _npu(level: int, time_us: int, text: str) -> BootLine:
    return BootLine(level, time_us, _NPU, f"RKNPU {_NPU}: {text}")


BOOT_LOG: tuple[BootLine, ...] = (
    BootLine(6, 0, "", "Booting Linux on physical CPU 0x0000000000 [0x412fd050]"),
    BootLine(5, 0, "", LINUX_VERSION),
    BootLine(6, 0, "", "Machine model: Radxa ROCK 5B"),
    BootLine(6, 0, "", "cma: Reserved 256 MiB at 0x00000000e6000000"),
    BootLine(5, 0, "", f"Kernel command line: {COMMAND_LINE}"),
    BootLine(
        6,
        0,
        "",
        "Memory: 32466012K/33325056K available (19456K kernel code, 4294K rwdata, 8204K rodata, "
        "6976K init, 618K bss, 596900K reserved, 262144K cma-reserved)",
    ),
    BootLine(
        6,
        212340,
        "fd8d8000.power-management:power-controller",
        "rockchip-pm-domain fd8d8000.power-management:power-controller: "
        "Looking up npu-supply from device tree",
    ),
    BootLine(6, 884512, "", "iommu: Default domain type: Translated "),
    BootLine(6, 884531, "", "iommu: DMA domain TLB invalidation policy: strict mode "),
    BootLine(6, 1302411, "fdab9000.iommu", "rk_iommu fdab9000.iommu: version = 2"),
    BootLine(6, 2118820, "", "vdd_npu_s0: 550 <--> 950 mV at 850 mV, enabled"),
    BootLine(6, 3402117, "fec00000.tsadc", "rockchip-thermal fec00000.tsadc: tsadc is probed successfully!"),
    BootLine(6, 3611906, "", "cpu cpu0: pvtm=1528"),
    BootLine(6, 3611981, "", "cpu cpu0: pvtm-volt-sel=5"),
    BootLine(6, 3624480, "", "cpu cpu4: pvtm=1785"),
    BootLine(6, 3636702, "", "cpu cpu6: pvtm=1784"),
    BootLine(6, 3702245, "dmc", "rockchip-dmc dmc: bin=0"),
    BootLine(6, 3702361, "dmc", "rockchip-dmc dmc: leakage=40"),
    BootLine(6, 3702602, "dmc", "rockchip-dmc dmc: avs=0"),
    BootLine(6, 4910033, "fb000000.gpu", "mali fb000000.gpu: Kernel DDK version g21p0-01eac0"),
    _npu(6, 7656887, "Adding to iommu group 0"),
    _npu(6, 7657029, "RKNPU: rknpu iommu is enabled, using iommu mode"),
    _npu(6, 7657123, "Looking up rknpu-supply from device tree"),
    _npu(6, 7657797, "Looking up mem-supply from device tree"),
    _npu(4, 7658453, "can't request region for resource [mem 0xfdab0000-0xfdabffff]"),
    _npu(4, 7658477, "can't request region for resource [mem 0xfdac0000-0xfdacffff]"),
    _npu(4, 7658493, "can't request region for resource [mem 0xfdad0000-0xfdadffff]"),
    BootLine(6, 7659074, "", "[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1"),
    _npu(6, 7662117, "RKNPU: bin=0"),
    _npu(6, 7662274, "leakage=9"),
    _npu(6, 7662310, "Looking up rknpu-supply from device tree"),
    _npu(6, 7669415, "pvtm=873"),
    _npu(6, 7673901, "pvtm-volt-sel=3"),
    _npu(6, 7674352, "avs=0"),
    _npu(6, 7674467, "l=15000 h=85000 hyst=5000 l_limit=0 h_limit=800000000 h_table=0"),
    _npu(3, 7682655, "failed to find power_model node"),
    _npu(3, 7682671, "RKNPU: failed to initialize power model"),
    _npu(3, 7682676, "RKNPU: failed to get dynamic-coefficient"),
    BootLine(
        6, 8120044, "", "EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode. Quota mode: none."
    ),
    BootLine(6, 8902211, "", "systemd[1]: Hostname set to <rock-5b>."),
)

_SRAM_LINE = _npu(
    6, 7683120, "RKNPU: sram region: [0x00000000ff001000, 0x00000000ff0f0000), sram size: 0xef000"
)


def boot_log(sram: bool) -> tuple[BootLine, ...]:
    """The boot log, with the driver's line about its SRAM where it has one."""
    if not sram:
        return BOOT_LOG
    return tuple(sorted((*BOOT_LOG, _SRAM_LINE), key=lambda line: line.time_us))
