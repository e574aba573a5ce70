"""Nodes that every board has because Linux or the vendor's drivers put them there; what differs comes from the profile."""

from __future__ import annotations

from orkbench_tui.sim.boards.profile import BoardProfile

__all__ = ["common_nodes"]

_DEBUGFS = "/sys/kernel/debug"
_HEAPS = ("system", "system-uncached", "system-dma32", "cma", "cma-uncached")
_DMC = "/sys/class/devfreq/dmc"
"""The memory's clock: only vendor kernels control it."""
_CMA = "/sys/kernel/mm/cma/reserved"
_BUDDY_ORDERS = (812, 506, 233, 121, 74, 38, 21, 12, 9, 6, 412)
_ZRAM_BYTES_OF_KB = 1024


def common_nodes(profile: BoardProfile) -> dict[str, bytes]:
    """Path to bytes. A board's own files take precedence."""
    nodes = _linux(profile)
    if profile.driver is not None:
        nodes |= _npu_driver(profile)
    if profile.driver is not None and _DMC in profile.links:
        nodes |= _vendor_media()
    return {path: text.encode() for path, text in nodes.items()}


def _linux(profile: BoardProfile) -> dict[str, str]:
    nodes = {
        **{f"/dev/dma_heap/{name}": "" for name in _HEAPS},
        **{
            f"/sys/devices/system/cpu/cpu{core}/cpuidle/state1/disable": "0\n"
            for core in range(profile.cores)
        },
        f"{_CMA}/alloc_pages_success": "2048\n",
        f"{_CMA}/alloc_pages_fail": "0\n",
        "/proc/buddyinfo": "Node 0, zone   Normal " + " ".join(f"{free:6}" for free in _BUDDY_ORDERS) + "\n",
        "/sys/class/watchdog/watchdog0/bootstatus": "0\n",
        "/sys/class/watchdog/watchdog0/identity": "Synopsys DesignWare Watchdog\n",
        f"{_DEBUGFS}/clk/clk_summary": _clocks(profile),
        f"{_DEBUGFS}/regulator/regulator_summary": _regulators(profile),
    }
    swaps = profile.files.get("/proc/swaps", b"").decode()
    for line in swaps.splitlines():
        if line.startswith("/dev/zram0"):
            size = int(line.split()[2]) * _ZRAM_BYTES_OF_KB
            nodes["/sys/block/zram0/disksize"] = f"{size + 4096}\n"
            nodes["/sys/block/zram0/mm_stat"] = (
                "    4096       74    12288        0    12288        0        0        0        0\n"
            )
    return nodes


def _clocks(profile: BoardProfile) -> str:
    name = "clk_npu" if profile.cores == 4 else "scmi_clk_npu"
    return (
        "                                 enable  prepare  protect                                duty  hardware\n"
        "   clock                          count    count    count        rate   accuracy phase  cycle    enable\n"
        "-------------------------------------------------------------------------------------------------------\n"
        f" {name:<32} {0:>6} {0:>8} {0:>8} {profile.npu_hz:>11} {0:>10} {0:>5}  {50000:>6} {'N':>9}\n"
    )


def _regulators(profile: BoardProfile) -> str:
    name = "vdd_npu" if profile.cores == 4 else "vdd_npu_s0"
    millivolts = profile.microvolts // 1000
    return (
        " regulator                      use open bypass  opmode voltage current     min     max\n"
        "---------------------------------------------------------------------------------------\n"
        f" {name:<30} {0:>3} {1:>4} {0:>6} {'normal':>7} {f'{millivolts}mV':>7} {'0mA':>7} {'550mV':>7} {'950mV':>7}\n"
    )


def _npu_driver(profile: BoardProfile) -> dict[str, str]:
    steps = profile.files.get(f"{profile.devfreq}/available_frequencies", b"").decode().split()
    head = "     From  :   To\n           :" + "".join(f"{step:>12}" for step in steps) + "   time(ms)\n"
    rows = "".join(
        f"{'*' if int(step) == profile.devfreq_hz else ' '}{step:>10}:" + "".join(f"{0:>12}" for _ in steps)
        + f"{0:>11}\n"
        for step in steps
    )  # fmt: skip
    nodes = {f"{profile.devfreq}/trans_stat": f"{head}{rows}Total transition : 0\n"}
    if profile.files.get("/proc/modules", b"").startswith(b"rknpu "):
        nodes["/sys/module/rknpu/initstate"] = "live\n"
    return nodes


def _vendor_media() -> dict[str, str]:
    blocks = ("rga3_core0", "rga3_core1", "rga2")
    load = "num of scheduler = 3\n================= load ==================\n" + "".join(
        f"scheduler[{number}]: {name}\n\t load = 0%\n-----------------------------------\n"
        for number, name in enumerate(blocks)
    )
    return {
        f"{_DEBUGFS}/rkrga/load": load,
        f"{_DEBUGFS}/rkrga/driver_version": "RGA multicore Device Driver: v1.3.1\n",
        "/proc/mpp_service/load_interval": "0\n",
        "/proc/mpp_service/rkvdec-core0/task_count": "0\n",
    }
