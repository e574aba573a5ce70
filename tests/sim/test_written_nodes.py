"""Writes to the simulated board's nodes act, and can be read back."""

from __future__ import annotations

import errno

import pytest

from orkbench_tui.ops.telemetry.holders import find_holders, find_nodes
from orkbench_tui.ops.telemetry.memory import parse_meminfo
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client, matmul
from tests.sim.conftest import log_text

_NPU = "/sys/class/devfreq/fdab0000.npu"
_RKNPU = "/sys/kernel/debug/rknpu"


def _text(board: InProcessBoard, path: str) -> str:
    reading = board.files().read(path)
    assert reading.ok, path
    return reading.text().strip()


def _refused(board: InProcessBoard, path: str, data: bytes) -> int | None:
    with pytest.raises(OSError) as caught:
        board.files().write(path, data)
    return caught.value.errno


def test_a_devfreq_governor_moves_the_clock_and_back(board: InProcessBoard) -> None:
    files = board.files()
    files.write(f"{_NPU}/governor", b"powersave\n")
    assert (_text(board, f"{_NPU}/governor"), _text(board, f"{_NPU}/cur_freq")) == ("powersave", "300000000")
    files.write(f"{_NPU}/governor", b"userspace\n")
    assert _text(board, f"{_NPU}/userspace/set_freq") == "undefined" and "userspace" in files.list(_NPU)
    files.write(f"{_NPU}/userspace/set_freq", b"800000000\n")
    assert _text(board, f"{_NPU}/cur_freq") == "800000000" == _text(board, f"{_NPU}/target_freq")
    files.write(f"{_NPU}/governor", b"rknpu_ondemand\n")
    assert _text(board, f"{_NPU}/cur_freq") == "1000000000" and "userspace" not in files.list(_NPU)
    files.write("/sys/class/devfreq/dmc/governor", b"powersave\n")
    assert _text(board, "/sys/class/devfreq/dmc/load") == "14@528000000Hz"


def test_a_cpu_governor_fixes_the_speed(board: InProcessBoard) -> None:
    policy = "/sys/devices/system/cpu/cpufreq/policy4"
    board.files().write(f"{policy}/scaling_governor", b"performance\n")
    assert _text(board, f"{policy}/scaling_cur_freq") == "2256000"
    board.files().write(f"{policy}/scaling_governor", b"powersave\n")
    assert _text(board, f"{policy}/scaling_cur_freq") == "408000"


@pytest.mark.parametrize(
    ("path", "data", "code"),
    [
        (f"{_NPU}/governor", b"turbo\n", errno.EINVAL),
        (f"{_NPU}/cur_freq", b"1\n", errno.EACCES),
        (f"{_NPU}/nothing", b"1\n", errno.ENOENT),
        (_NPU, b"1\n", errno.EISDIR),
        ("/proc/sys/vm/drop_caches", b"9\n", errno.EINVAL),
        ("/proc/irq/35/smp_affinity_list", b"x\n", errno.EINVAL),
        ("/proc/irq/35/smp_affinity_list", b"8\n", errno.EINVAL),
        (f"{_RKNPU}/power", b"", errno.EINVAL),
        (f"{_RKNPU}/power", b"on and on\n", errno.EINVAL),
        (f"{_RKNPU}/delayms", b"soon\n", errno.EFAULT),
    ],
)
def test_what_a_node_does_not_take_changes_nothing(
    board: InProcessBoard, path: str, data: bytes, code: int
) -> None:
    before = board.files().read(path)
    assert _refused(board, path, data) == code
    assert board.files().read(path) == before


def test_dropped_caches_are_free_memory(board: InProcessBoard) -> None:
    before = parse_meminfo(_text(board, "/proc/meminfo"))
    board.files().write("/proc/sys/vm/drop_caches", b"3\n")
    after = parse_meminfo(_text(board, "/proc/meminfo"))
    assert before.cached_bytes and after.cached_bytes and before.free_bytes and after.free_bytes
    assert after.cached_bytes < before.cached_bytes < before.cached_bytes + (1 << 29)
    assert after.free_bytes - before.free_bytes >= before.cached_bytes - after.cached_bytes
    assert _text(board, "/proc/sys/vm/drop_caches") == "3"
    assert "Dirty:               144 kB" in _text(board, "/proc/meminfo")
    board.files().sync()
    assert "Dirty:                 0 kB" in _text(board, "/proc/meminfo")


def test_interrupts_are_counted_where_they_are_sent(board: InProcessBoard, client: Client) -> None:
    def counts() -> list[int]:
        row = next(r for r in _text(board, "/proc/interrupts").splitlines() if r.lstrip().startswith("35:"))
        return [int(word) for word in row.split()[1:9]]

    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1)
    first = counts()
    board.files().write("/proc/irq/35/smp_affinity_list", b"2-3\n")
    assert _text(board, "/proc/irq/35/effective_affinity_list") == "2"
    client.submit(work.tasks, 1)
    second = counts()
    assert second[0] == first[0] > 0 and second[2] == sum(second) - first[0] > 0


def test_power_reset_and_delay_nodes(board: InProcessBoard, client: Client) -> None:
    files, work = board.files(), matmul(client, 4, 32, 32)
    board.clock.sit_out(5_000_000_000)
    files.write(f"{_RKNPU}/reset", b"1\n")
    assert board.kernel.scheduler.resets == 0, "without power the write does nothing"
    files.write(f"{_RKNPU}/power", b"on")
    assert _text(board, f"{_RKNPU}/power") == "off", "the last byte is lost"
    files.write(f"{_RKNPU}/power", b"on\n")
    files.write(f"{_RKNPU}/reset", b"1\n")
    assert board.kernel.scheduler.resets == 1 and _text(board, f"{_RKNPU}/power") == "on"
    files.write(f"{_RKNPU}/reset", b"off\n")
    files.write(f"{_RKNPU}/reset", b"1\n")
    assert board.kernel.scheduler.resets == 1 and "bypass soft reset" in log_text(board)
    files.write(f"{_RKNPU}/power", b"off\n")
    assert _text(board, f"{_RKNPU}/power") == "off"
    client.submit(work.tasks, 1)
    files.write(f"{_RKNPU}/delayms", b"9000\n")
    board.clock.sit_out(5_000_000_000)
    assert _text(board, f"{_RKNPU}/power") == "on"
    files.write(f"{_RKNPU}/delayms", b"100\n")
    assert _text(board, f"{_RKNPU}/power") == "off"


def test_who_holds_the_node_shows_in_proc(board: InProcessBoard) -> None:
    files = board.files()
    nodes = find_nodes(files)
    assert find_holders(files, nodes) == ()
    device = board.device()
    (holder,) = find_holders(files, nodes)
    assert holder.node == "/dev/dri/renderD129" and holder.command
    assert files.read(f"/proc/{holder.pid}/stat").text().rsplit(") ", 1)[1][0] in "RS"
    device.close()
    assert find_holders(files, nodes) == ()
