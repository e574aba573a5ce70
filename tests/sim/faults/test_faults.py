"""Every fault does what its row says, and ends as its row says."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.ops.files import Access
from orkbench_tui.sim.faults.catalogue import CATALOGUE, Event
from orkbench_tui.sim.inprocess import InProcessBoard, InProcessDmaHeap
from tests.sim.board_client import Client, matmul
from tests.sim.conftest import log_text

NPU = "/sys/class/devfreq/fdab0000.npu"
LOAD = "/sys/kernel/debug/rknpu/load"


def _text(board: InProcessBoard, path: str) -> str:
    return board.files().read(path).text()


def _runs(client: Client) -> bool:
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1, timeout=500)
    return bool(np.array_equal(work.result(), work.expected))


def _import(board: InProcessBoard, client: Client, size: int) -> int:
    buffer = InProcessDmaHeap(board.kernel).allocate(size)
    return int(client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=buffer.fd)).handle)


def _fails(call: Callable[[], object]) -> int:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno or 0


def _later(board: InProcessBoard, seconds: float = 2.0) -> None:
    board.clock.sit_out(int(seconds * 1e9))


def test_the_catalogue_names_what_the_issue_lists() -> None:
    assert set(CATALOGUE) == {
        "wedge", "hard-wedge", "reset-storm", "iova-leak", "domain-switch-timeout", "import-no-memory",
        "page-cache-full", "hot", "parked-governor", "busy-other-process", "debugfs-missing",
        "permission-denied", "old-driver", "process-stuck-D", "boot-image-broken",
    }  # fmt: skip
    for fault in CATALOGUE.values():
        assert fault.does and fault.shows
        assert fault.clearable or fault.ended_by, f"nothing ends {fault.name}"


def test_a_wedge_shows_as_load_without_interrupts_and_ends_with_a_reset(
    board: InProcessBoard, client: Client
) -> None:
    board.machine.set_fault("wedge")
    _later(board)
    assert _text(board, LOAD) == "NPU load:  Core0: 100%, Core1: 100%, Core2: 100%,\n"
    before = _text(board, "/proc/interrupts").count("fdab0000.npu"), board.kernel.interrupt_counts()
    _later(board)
    assert board.kernel.interrupt_counts() == before[1]
    client.action(uapi.ActionCode.ACT_RESET)
    assert "wedge" not in board.machine.faults
    assert _runs(client)
    _later(board, 3)
    assert "100%" not in _text(board, LOAD)


def test_a_job_on_a_wedged_core_times_out_and_others_run(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("wedge=1")
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1, core_mask=1)
    assert np.array_equal(work.result(), work.expected)
    assert _fails(lambda: client.submit(work.tasks, 1, core_mask=2, timeout=500)) == errno.ETIMEDOUT
    assert "job timeout, flags: 0x0:" in log_text(board)
    assert "wedge" not in board.machine.faults, "the driver's own reset ends it"


def test_a_hard_wedge_needs_the_power_cut(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("hard-wedge")
    assert _fails(lambda: client.action(uapi.ActionCode.ACT_RESET)) == errno.ENODEV
    assert "failed to soft reset for rknpu: -110" in log_text(board)
    with pytest.raises(PermissionError):
        board.machine.clear_fault("hard-wedge")
    board.machine.restart(Event.REBOOT)
    assert _fails(lambda: Client(board.device()).action(1)) == errno.ENODEV
    board.machine.restart(Event.POWER_CYCLE)
    assert not board.kernel.wedged
    assert _runs(Client(board.device()))


def test_a_reset_storm_resets_until_it_is_cleared(board: InProcessBoard) -> None:
    board.machine.set_fault("reset-storm")
    deadline = time.monotonic() + 5
    while board.kernel.scheduler.resets < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert board.kernel.scheduler.resets >= 2
    assert "job timeout" not in log_text(board)
    board.machine.clear_fault("reset-storm")
    assert board.kernel.calm.is_set()


def test_leaked_addresses_end_with_a_reboot_alone(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("iova-leak")
    assert _fails(lambda: client.allocate(128 << 20)) == errno.ENOMEM
    text = log_text(board)
    assert "failed to allocate IOVA: -12" in text
    assert "__iommu_dma_unmap" in text
    with pytest.raises(PermissionError):
        board.machine.clear_fault("iova-leak")
    board.machine.restart(Event.REBOOT)
    assert board.kernel.domains.leaked_mappings == 0
    assert Client(board.device()).allocate(128 << 20).size == 128 << 20


def test_a_lost_reference_keeps_every_other_domain_out(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("domain-switch-timeout")
    began = board.clock.now_ns()
    assert _fails(lambda: client.allocate(4096, domain=1)) == errno.EINVAL
    assert board.clock.now_ns() - began > 5_900_000_000
    assert "switch iommu domain time out, failed to switch iommu domain, id: 1" in log_text(board)
    assert _runs(client), "the live domain works"
    client.action(uapi.ActionCode.ACT_RESET)
    assert "domain-switch-timeout" in board.machine.faults, "a reset does not give the reference back"
    board.machine.clear_fault("domain-switch-timeout")
    assert client.allocate(4096, domain=1).size == 4096


def test_imports_find_no_memory(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("import-no-memory")
    assert _fails(lambda: _import(board, client, 4096)) == errno.ENOMEM
    board.machine.clear_fault("import-no-memory")
    assert _import(board, client, 4096) > 0


def test_dropping_caches_ends_a_full_page_cache(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("page-cache-full")
    memory = dict(re.findall(r"(\w+): +(\d+) kB", _text(board, "/proc/meminfo")))
    assert int(memory["MemFree"]) < 500_000 < 20_000_000 < int(memory["Cached"])
    assert _import(board, client, 1 << 20) > 0
    assert _fails(lambda: _import(board, client, 8 << 20)) == errno.ENOMEM
    board.files().write("/proc/sys/vm/drop_caches", b"3\n")
    assert "page-cache-full" not in board.machine.faults
    assert _import(board, client, 8 << 20) > 0


def test_a_hot_board_runs_at_800_mhz(board: InProcessBoard, client: Client) -> None:
    cool = matmul(client, 64, 512, 512)
    fast = client.submit(cool.tasks, 1).hw_elapse_time
    board.machine.set_fault("hot")
    assert _text(board, f"{NPU}/cur_freq") == _text(board, f"{NPU}/max_freq") == "800000000\n"
    assert int(_text(board, "/sys/class/thermal/thermal_zone0/temp")) > 85_000
    assert client.action(uapi.ActionCode.GET_FREQ) == 800_000_000
    assert client.submit(cool.tasks, 1).hw_elapse_time == pytest.approx(fast * 1.25, rel=0.01)
    board.machine.clear_fault("hot")
    assert _text(board, f"{NPU}/cur_freq") == "1000000000\n"


@pytest.mark.parametrize(("value", "hz"), [("300", 300_000_000), ("200", 200_000_000)])
def test_a_parked_clock_is_set_free_by_a_governor(board: InProcessBoard, value: str, hz: int) -> None:
    board.machine.set_fault(f"parked-governor={value}")
    assert _text(board, f"{NPU}/governor") == "userspace\n"
    assert int(_text(board, f"{NPU}/cur_freq")) == hz
    board.files().write(f"{NPU}/governor", b"performance\n")
    assert "parked-governor" not in board.machine.faults
    assert board.kernel.clock_hz == 1_000_000_000


def test_a_foreign_holder_is_seen_in_proc_load_and_interrupts(board: InProcessBoard) -> None:
    from orkbench_tui.ops.telemetry.holders import find_holders

    board.machine.set_fault("busy-other-process")
    files = board.files()
    held = find_holders(files, ("/dev/dri/renderD129",))
    assert [(one.pid, one.command) for one in held] == [(3120, "rknn_server")]
    assert "63%" in _text(board, LOAD)
    before = board.kernel.interrupt_counts()
    _later(board, 1)
    assert all(now > then for now, then in zip(board.kernel.interrupt_counts(), before, strict=True))
    board.machine.clear_fault("busy-other-process")
    assert find_holders(files, ("/dev/dri/renderD129",)) == ()


def test_missing_debugfs_is_absent_not_denied(board: InProcessBoard) -> None:
    board.machine.set_fault("debugfs-missing")
    assert board.files().read(LOAD).access is Access.ABSENT
    assert board.files().list("/sys/kernel/debug") == []
    assert _text(board, "/sys/module/rknpu/version") == "0.9.8\n"


def test_a_plain_user_is_denied_what_a_board_denies(board: InProcessBoard) -> None:
    board.machine.set_fault("permission-denied")
    files = board.files()
    assert files.read(LOAD).access is Access.DENIED
    policy = "/sys/devices/system/cpu/cpufreq/policy0"
    assert files.read(f"{policy}/cpuinfo_cur_freq").access is Access.DENIED
    assert files.read(f"{policy}/scaling_cur_freq").access is Access.PRESENT
    assert files.kernel_log(), "dmesg_restrict is 0 on this board"
    assert _fails(board.device) == errno.EACCES
    board.machine.clear_fault("permission-denied")
    board.device().close()


@pytest.mark.parametrize(("version", "code"), [("0.8.2", 802), ("0.9.3", 903), ("0.9.6", 906)])
def test_an_old_driver_answers_and_logs_as_its_time(board: InProcessBoard, version: str, code: int) -> None:
    assert board.machine.set_fault(f"old-driver={version}") is True
    client = Client(board.device())
    assert _text(board, "/sys/kernel/debug/rknpu/version") == f"RKNPU driver: v{version}\n"
    assert client.action(uapi.ActionCode.GET_DRV_VERSION) == code
    boot = b"".join(board.kernel.log.after(-1)).decode()
    assert f"Initialized rknpu {version} 20" in boot
    assert _runs(client)
    work = matmul(client, 4, 32, 32)
    board.machine.set_fault("wedge")
    assert _fails(lambda: client.submit(work.tasks, 1, timeout=500)) == errno.ETIMEDOUT
    text = log_text(board)
    if code < 906:
        assert "wait_count" not in text
        assert "job timeout, flags: 0x0, irq status:" in text
        assert "soft reset, num" not in text
        assert _fails(lambda: client.action(uapi.ActionCode.GET_IOMMU_DOMAIN_ID)) == errno.EINVAL
    else:
        assert ", iommu domain id: 0, wait_count: 1" in text
        assert "mask: 0x1, job iommu" not in text


def test_an_old_driver_does_not_clamp_its_load(board: InProcessBoard) -> None:
    board.machine.set_fault("old-driver")
    board.machine.set_fault("wedge=0")
    _later(board, 12)
    board.machine.clear_fault("wedge")
    _later(board, 1)
    found = re.search(r"Core0: +(\d+)%", _text(board, LOAD))
    assert found is not None
    assert int(found[1]) > 500


def test_the_forty_byte_memory_call_of_0_8_leaves_the_rest_alone(board: InProcessBoard) -> None:
    board.machine.set_fault("old-driver=0.8.2")
    argument = bytearray(uapi.MemCreate(flags=0x403, size=4096, iommu_domain_id=7, core_mask=5))
    board.device().ioctl(uapi.RKNPU_MEM_CREATE, argument)
    answer = uapi.MemCreate.from_buffer_copy(argument)
    assert (answer.iommu_domain_id, answer.core_mask) == (7, 5)
    assert answer.dma_addr


def test_a_stuck_process_is_in_state_d(board: InProcessBoard) -> None:
    board.machine.set_fault("process-stuck-D")
    assert _text(board, "/proc/3121/stat").split()[2] == "D"
    assert "procs_blocked 1\n" in _text(board, "/proc/stat")
    assert "INFO: task ork-run:3121 blocked for more than 120 seconds." in log_text(board)


def test_a_broken_image_shows_at_the_next_restart(board: InProcessBoard, client: Client) -> None:
    board.machine.set_fault("boot-image-broken")
    assert board.files().read("/boot/Image").data == b"\0" * 12
    assert _runs(client)
    board.machine.restart(Event.POWER_CYCLE)
    assert _fails(lambda: Client(board.device()).action(1)) == errno.ENODEV
    board.machine.clear_fault("boot-image-broken")
    assert board.files().read("/boot/Image").data.startswith(b"MZ")
    board.machine.restart(Event.POWER_CYCLE)
    assert _runs(Client(board.device()))


def test_a_reboot_is_clean(board: InProcessBoard, client: Client) -> None:
    _later(board, 100)
    for name in ("wedge", "hot", "busy-other-process"):
        board.machine.set_fault(name)
    boot_id, uptime = _text(board, "/proc/sys/kernel/random/boot_id"), _text(board, "/proc/uptime")
    wall = board.clock.wall_s()
    board.machine.restart(Event.REBOOT)
    up = float(_text(board, "/proc/uptime").split()[0])
    assert 8.9 < up < 20, "time for the boot log and a login"
    assert board.clock.boot_wall_s >= wall, "it booted after it was told to"
    assert board.clock.wall_s() - wall >= up - 0.1
    assert _text(board, "/proc/sys/kernel/random/boot_id") != boot_id
    assert float(_text(board, "/proc/uptime").split()[0]) < float(uptime.split()[0]) - 90
    assert list(board.machine.faults.all()) == ["hot"], "heat outlives a reboot"
    assert board.kernel.memory.objects == 0


@pytest.mark.parametrize(("name", "pid"), [("busy-other-process", 3120), ("reset-storm", 3122)])
def test_a_foreign_program_ends_with_sigterm(board: InProcessBoard, name: str, pid: int) -> None:
    files = board.files()
    with pytest.raises(ProcessLookupError):
        files.terminate(pid)
    board.machine.set_fault(name)
    assert files.readlink(f"/proc/{pid}/fd/7") == board.kernel.profile.node
    files.terminate(pid)
    assert name not in board.machine.faults
    assert files.list(f"/proc/{pid}") == []


def test_no_signal_reaches_a_program_in_state_d(board: InProcessBoard) -> None:
    board.machine.set_fault("process-stuck-D")
    board.files().terminate(3121)
    assert _text(board, "/proc/3121/stat").split()[2] == "D"


def test_sigterm_reaches_the_host_s_process_only_when_it_holds_the_board(
    board: InProcessBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board's process numbers are not this machine's: only a client's are the same."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
    with pytest.raises(ProcessLookupError):
        board.files().terminate(os.getpid())
    device = board.device()
    board.files().terminate(os.getpid())
    assert sent == [os.getpid()]
    device.close()


def test_a_wedged_npu_keeps_its_power(board: InProcessBoard) -> None:
    def power() -> str:
        return board.files().read("/sys/kernel/debug/rknpu/power").text().strip()

    assert power() == "off", "nothing has used it yet"
    board.machine.set_fault("wedge")
    assert power() == "on"
    board.machine.clear_fault("wedge")
    assert power() == "off"
