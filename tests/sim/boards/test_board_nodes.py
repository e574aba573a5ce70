"""Which nodes each board has and which it must not have, path by path; formats against the recorded samples."""

from __future__ import annotations

import re
from functools import cache

import pytest

from orkbench_tui.ops.files import Access
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS
from orkbench_tui.sim.inprocess import InProcessBoard

VENDOR = ("rock-5b", "orange-pi-5-plus", "rk3576")
RKNPU = (*VENDOR, "rk3566")
DEBUG = "/sys/kernel/debug"

HAVE: dict[str, tuple[str, ...]] = {
    f"{DEBUG}/rknpu/version": RKNPU,
    f"{DEBUG}/rknpu/load": RKNPU,
    f"{DEBUG}/rknpu/power": RKNPU,
    f"{DEBUG}/rknpu/freq": RKNPU,
    f"{DEBUG}/rknpu/volt": RKNPU,
    f"{DEBUG}/rknpu/delayms": RKNPU,
    f"{DEBUG}/rknpu/reset": RKNPU,
    f"{DEBUG}/rknpu/mm": (),
    "/proc/rknpu/load": ("rk3576",),
    "/sys/module/rknpu/version": RKNPU,
    "/sys/module/rknpu/initstate": ("rk3566",),
    "/sys/class/devfreq/{npu}/governor": RKNPU,
    "/sys/class/devfreq/{npu}/available_governors": RKNPU,
    "/sys/class/devfreq/{npu}/available_frequencies": RKNPU,
    "/sys/class/devfreq/{npu}/cur_freq": RKNPU,
    "/sys/class/devfreq/{npu}/target_freq": RKNPU,
    "/sys/class/devfreq/{npu}/min_freq": RKNPU,
    "/sys/class/devfreq/{npu}/max_freq": RKNPU,
    "/sys/class/devfreq/{npu}/polling_interval": RKNPU,
    "/sys/class/devfreq/{npu}/trans_stat": RKNPU,
    "/sys/class/devfreq/{npu}/load": RKNPU,
    "/sys/class/devfreq/dmc/cur_freq": VENDOR,
    "/sys/class/devfreq/dmc/load": VENDOR,
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": BOARDS,
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": BOARDS,
    "/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq": BOARDS,
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": BOARDS,
    "/sys/devices/system/cpu/cpufreq/policy0/affected_cpus": BOARDS,
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable": BOARDS,
    "/sys/class/thermal/thermal_zone0/type": BOARDS,
    "/sys/class/thermal/thermal_zone0/temp": BOARDS,
    "/sys/class/thermal/cooling_device0/type": BOARDS,
    f"{DEBUG}/pm_genpd/pm_genpd_summary": BOARDS,
    "/sys/devices/platform/{npu}/power/runtime_status": BOARDS,
    "/sys/class/regulator/regulator.4/microvolts": BOARDS,
    f"{DEBUG}/regulator/regulator_summary": BOARDS,
    f"{DEBUG}/clk/clk_summary": BOARDS,
    f"{DEBUG}/dma_buf/bufinfo": BOARDS,
    f"{DEBUG}/rkrga/load": VENDOR,
    "/proc/interrupts": BOARDS,
    "/proc/meminfo": BOARDS,
    "/proc/buddyinfo": BOARDS,
    "/proc/swaps": BOARDS,
    "/sys/block/zram0/disksize": ("rk3576", "rk3566", "rocket"),
    "/sys/kernel/mm/cma/reserved/alloc_pages_fail": BOARDS,
    "/dev/dma_heap/system": BOARDS,
    "/proc/sys/vm/drop_caches": BOARDS,
    "/proc/sys/kernel/dmesg_restrict": BOARDS,
    "/proc/device-tree/model": BOARDS,
    "/dev/accel/accel0": ("rocket",),
    "/sys/bus/platform/drivers/RKNPU/unbind": RKNPU,
    "/sys/kernel/iommu_groups/0/type": VENDOR,
}  # fmt: skip

FORMATS = {
    f"{DEBUG}/rknpu/version": r"RKNPU driver: v0\.9\.\d\n",
    f"{DEBUG}/rknpu/load": r"NPU load: (?:[ 0-9]{2,3}%|(?: Core\d: [ 0-9]{2,3}%,)+)\n",
    f"{DEBUG}/rknpu/power": r"o(?:n|ff)\n",
    f"{DEBUG}/rknpu/delayms": r"3000\n",
    f"{DEBUG}/rknpu/freq": r"\d{9,10}\n",
    f"{DEBUG}/rknpu/volt": r"\d{6}\n",
    "/sys/class/devfreq/{npu}/available_frequencies": r"(?:\d{9,10} )+\n",
    "/sys/class/devfreq/{npu}/load": r"\d+@\d+Hz\n",
    "/sys/class/thermal/thermal_zone0/temp": r"\d{5}\n",
    f"{DEBUG}/dma_buf/bufinfo": r"(?s)\nDma-buf Objects:\n.*Total 0 objects, 0 bytes\n",
    "/sys/module/rknpu/initstate": r"live\n",
}


@cache
def _board(name: str) -> InProcessBoard:
    return InProcessBoard(variant=BoardVariant(board=name))


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_has_its_nodes_and_no_others(name: str) -> None:
    board = _board(name)
    files, npu = board.files(), board.kernel.profile.npu
    found = {path: files.read(path.format(npu=npu)).access is not Access.ABSENT for path in HAVE}
    assert [path for path, owners in HAVE.items() if found[path] != (name in owners)] == []
    for path, pattern in FORMATS.items():
        if name in HAVE[path]:
            text = files.read(path.format(npu=npu)).text()
            assert re.fullmatch(pattern, text), (path, text)


@pytest.mark.parametrize("name", RKNPU)
def test_the_clock_s_transition_table_marks_where_it_stands(name: str) -> None:
    board = _board(name)
    folder = f"/sys/class/devfreq/{board.kernel.profile.npu}"
    table = board.files().read(f"{folder}/trans_stat").text()
    now = board.files().read(f"{folder}/cur_freq").text().strip()
    assert re.search(rf"^\*\s*{now}:", table, re.MULTILINE)


def test_an_idle_state_is_switched_off_by_a_write() -> None:
    board = InProcessBoard()
    path = "/sys/devices/system/cpu/cpu4/cpuidle/state1/disable"
    board.files().write(path, b"1\n")
    assert board.files().read(path).text() == "1\n"
    with pytest.raises(OSError):
        board.files().write(path, b"yes\n")
    board.close()
