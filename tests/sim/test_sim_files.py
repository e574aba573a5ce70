"""The simulated board's files: the bytes of a ROCK 5B."""

from __future__ import annotations

import gzip
import os
import re
import time

import pytest

from orkbench_tui.ops.files import Access
from orkbench_tui.sim.board_files.client_time import BigCoreTime, ClientProcesses
from orkbench_tui.sim.board_files.thermal import FULL_LOAD_RISE, NpuTemperature
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.kernel.kernel_log import KernelLog, escaped, record
from tests.sim.board_client import Client, matmul

_CPU_LINE = r"cpu{} \d+ 0 \d+ \d+ \d+ 0 \d+ 0 0 0"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/proc/device-tree/model", b"Radxa ROCK 5B\0"),
        ("/proc/device-tree/compatible", b"radxa,rock-5b\0rockchip,rk3588\0"),
        ("/proc/device-tree/npu@fdab0000/interrupt-names", b"npu0_irq\0npu1_irq\0npu2_irq\0"),
        ("/sys/firmware/devicetree/base/npu@fdab0000/status", b"okay\0"),
        ("/proc/sys/kernel/osrelease", b"6.1.115-vendor-rk35xx\n"),
        ("/sys/module/rknpu/version", b"0.9.8\n"),
        ("/sys/kernel/debug/rknpu/version", b"RKNPU driver: v0.9.8\n"),
        ("/sys/kernel/debug/rknpu/load", b"NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,\n"),
        ("/sys/kernel/debug/rknpu/power", b"off\n"),
        ("/sys/kernel/debug/rknpu/delayms", b"3000\n"),
        ("/sys/kernel/debug/rknpu/reset", b"on\n"),
        ("/sys/kernel/debug/rknpu/freq", b"1000000000\n"),
        ("/sys/kernel/debug/rknpu/volt", b"850000\n"),
        ("/sys/class/devfreq/fdab0000.npu/governor", b"rknpu_ondemand\n"),
        (
            "/sys/class/devfreq/fdab0000.npu/available_frequencies",
            b"300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000 \n",
        ),
        ("/sys/class/devfreq/dmc/cur_freq", b"2112000000\n"),
        ("/sys/class/devfreq/dmc/load", b"14@2112000000Hz\n"),
        ("/sys/devices/system/cpu/online", b"0-7\n"),
        ("/sys/devices/system/cpu/cpu4/cpu_capacity", b"1024\n"),
        ("/sys/devices/system/cpu/cpufreq/policy6/scaling_max_freq", b"2256000\n"),
        ("/sys/class/thermal/thermal_zone6/type", b"npu-thermal\n"),
        ("/sys/class/thermal/thermal_zone6/temp", b"44384\n"),
        (
            "/sys/class/drm/renderD129/device/uevent",
            b"DRIVER=RKNPU\nOF_NAME=npu\nOF_FULLNAME=/npu@fdab0000\nOF_COMPATIBLE_0=rockchip,rk3588-rknpu\n"
            b"OF_COMPATIBLE_N=1\nMODALIAS=of:NnpuT(null)Crockchip,rk3588-rknpu\n",
        ),
    ],
)
def test_files_hold_the_board_s_bytes(board: InProcessBoard, path: str, content: bytes) -> None:
    reading = board.files().read(path)
    assert (reading.access, reading.data) == (Access.PRESENT, content)


@pytest.mark.parametrize(
    "path", ["/proc/rknpu/load", "/sys/kernel/debug/rknpu/mm", "/sys/module/rknpu/initstate", "/x"]
)
def test_what_this_board_has_not_is_absent(board: InProcessBoard, path: str) -> None:
    assert board.files().read(path).access is Access.ABSENT


def test_class_entries_are_links_that_lists_and_reads_follow(board: InProcessBoard) -> None:
    files = board.files()
    assert files.list("/sys/class/devfreq") == ["dmc", "fb000000.gpu", "fdab0000.npu"]
    assert files.readlink("/sys/class/devfreq/dmc") == "../../devices/platform/dmc/devfreq/dmc"
    assert files.readlink("/sys/class/drm/card1/device") == "../../../fdab0000.npu"
    assert files.readlink("/proc/stat") is None
    assert "governor" in files.list("/sys/class/devfreq/fdab0000.npu")
    assert files.list("/sys/class/nothing") == []
    assert files.read("/sys/class/devfreq").access is Access.FAILED
    names = [
        files.read(f"/sys/class/regulator/{name}/name").text() for name in files.list("/sys/class/regulator")
    ]
    assert "vdd_npu_s0\n" in names


def test_every_static_path_can_be_read_and_is_listed(board: InProcessBoard) -> None:
    from orkbench_tui.sim.board_files import rock_5b

    files = board.files()
    for path in [*rock_5b.FILES, *rock_5b.LINKS]:
        folder, name = os.path.split(path)
        assert name in files.list(folder), path
    for path in rock_5b.FILES:
        assert files.read(path).ok, path
    for path in rock_5b.LINKS:
        assert files.list(path) or files.read(path).ok, path


def test_kernel_configuration_is_a_gzip(board: InProcessBoard) -> None:
    text = gzip.decompress(board.files().read("/proc/config.gz").data).decode()
    assert "CONFIG_NO_GKI=y\n" in text
    assert "# CONFIG_ROCKCHIP_RKNPU_SRAM is not set\n" in text


def test_proc_stat_has_the_kernel_s_shape_and_adds_up(board: InProcessBoard) -> None:
    lines = board.files().read("/proc/stat").text().splitlines()
    assert re.fullmatch(_CPU_LINE.format(" "), lines[0])
    for core in range(8):
        assert re.fullmatch(_CPU_LINE.format(core), lines[1 + core])
    rows = [[int(field) for field in line.split()[1:]] for line in lines[:9]]
    uptime = float(board.files().read("/proc/uptime").text().split()[0])
    assert rows[0] == [sum(column) for column in zip(*rows[1:], strict=True)]
    for row in rows[1:]:
        assert abs(sum(row) - uptime * 100) < 300
    keys = [line.split()[0] for line in lines[9:]]
    assert keys == ["intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked", "softirq"]
    intr = [int(field) for field in lines[9].split()[1:]]
    assert intr[0] == sum(intr[1:])


def test_client_time_fills_the_big_cores_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = ClientProcesses()
    time_used = iter([2_500_000_000])
    monkeypatch.setattr(clients, "take_ns", lambda: next(time_used))
    cores = BigCoreTime(clients, 0)
    cores.advance(1_000_000_000)
    assert cores.busy_ns == {4: 1_000_000_000, 5: 1_000_000_000, 6: 500_000_000, 7: 0}
    assert cores.share == {4: 1.0, 5: 1.0, 6: 0.5, 7: 0.0}


def test_processor_time_of_a_client_that_left_is_kept_and_counted_once() -> None:
    clients = ClientProcesses()
    clients.attach(os.getpid())
    began = time.process_time()
    while time.process_time() - began < 0.1:
        pass
    clients.detach(os.getpid())
    assert clients.pids == []
    assert 50_000_000 <= clients.take_ns() <= 1_000_000_000
    assert clients.take_ns() == 0


def test_memory_shrinks_with_npu_buffers(board: InProcessBoard, client: Client) -> None:
    def rows() -> dict[str, int]:
        lines = board.files().read("/proc/meminfo").text().splitlines()
        assert all(
            re.fullmatch(r"\w+: +\d+ kB", line) and line[15:24] == f"{line.split()[1]:>9}" for line in lines
        )
        return {line.split(":")[0]: int(line.split()[1]) for line in lines}

    before = rows()
    client.allocate(256 << 20)
    after = rows()
    assert before["MemTotal"] == 32507904
    assert before["CmaTotal"] == 262144
    assert 200_000 <= before["MemFree"] - after["MemFree"] <= 300_000


def test_interrupts_count_chains_per_core(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    for _ in range(3):
        client.submit(work.tasks, 1, core_mask=2)
    lines = board.files().read("/proc/interrupts").text().splitlines()
    assert lines[0] == "           " + "".join(f"CPU{core}       " for core in range(8))
    npu = [line for line in lines if line.endswith("     fdab9000.iommu, fdab0000.npu")]
    assert (
        npu[1]
        == " 36:          3" + "          0" * 7 + "     GICv3 143 Level     fdab9000.iommu, fdab0000.npu"
    )
    assert [line.split()[1] for line in npu] == ["0", "3", "0"]


def test_load_and_power_follow_the_npu(board: InProcessBoard, client: Client) -> None:
    core = board.kernel.scheduler.cores[1]
    now = board.clock.now_ns()
    with board.kernel.condition:
        core.load.start(now)
    board.clock.sit_out(3_000_000_000)
    files = board.files()
    assert (
        files.read("/sys/kernel/debug/rknpu/load").data
        == b"NPU load:  Core0:  0%, Core1: 100%, Core2:  0%,\n"
    )
    client.action(1)
    assert files.read("/sys/kernel/debug/rknpu/power").data == b"on\n"
    board.clock.sit_out(3_000_000_000)
    assert files.read("/sys/kernel/debug/rknpu/power").data == b"off\n"


def test_the_npu_warms_up_and_cools_down() -> None:
    model = NpuTemperature(0)
    assert model.rise(20_000_000_000, 1.0) == pytest.approx(FULL_LOAD_RISE * (1 - 2.718281828**-1), rel=1e-6)
    assert model.rise(400_000_000_000, 0.0) < 1


def test_the_boot_log_is_a_healthy_board_s(board: InProcessBoard) -> None:
    records = board.files().kernel_log()
    assert [int(record.split(b",")[1]) for record in records] == list(range(len(records)))
    iommu = b"RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled, using iommu mode"
    line = next(record for record in records if iommu in record)
    assert line.endswith(b",7657029,-;" + iommu + b"\n SUBSYSTEM=platform\n DEVICE=+platform:fdab0000.npu\n")
    drm = next(record for record in records if b"Initialized rknpu" in record)
    assert drm.endswith(b",7659074,-;[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1\n")
    assert board.files().kernel_log(len(records) - 1) == []


def test_records_escape_what_the_kernel_escapes() -> None:
    assert escaped("\ta\\b\x7f—") == "\\x09a\\x5cb\\x7f\\xe2\\x80\\x94"
    assert record(3, 12, 345, "a\tb") == b"3,12,345,-;a\\x09b\n"


def test_the_ring_forgets_the_oldest_records(board: InProcessBoard) -> None:
    log = KernelLog(board.clock)
    for number in range(6000):
        log.driver(6, f"line {number} " + "x" * 60)
    records = log.after(-1)
    assert int(records[0].split(b",")[1]) > 0
    assert sum(map(len, records)) <= 256 << 10
    assert b"line 5999" in records[-1]
