"""What a process publishes about its NPU memory is true and goes with it."""

import json
import os
import subprocess
import sys

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.occupancy import Publisher, active_elsewhere
from orkbench_tui.ops.checks import exact_matmul


def test_occupancy_is_published_and_withdrawn(board, tmp_path):
    publisher = Publisher(tmp_path / "npu", device="card1", source="sim", command="ork npu")
    path = tmp_path / "npu" / f"{os.getpid()}.json"
    with Npu(board.device(), publisher=publisher) as npu:
        exact_matmul(npu, 8, 64, 64)
        publisher.publish(npu.memory, npu.counters, force=True)
        record = json.loads(path.read_text())
        (domain,) = record["domains"]
        assert domain["used_bytes"] == npu.memory.used_bytes(0)
        assert domain["used_bytes"] + domain["largest_free_bytes"] <= domain["capacity_bytes"] == 1 << 32
        assert record["counters"]["submits"] == npu.counters.submits
        assert record["pid"] == os.getpid()
    assert not path.exists()


def test_a_folder_that_cannot_be_written_disturbs_nothing(board, tmp_path):
    (tmp_path / "npu").write_text("a file, not a folder")
    publisher = Publisher(tmp_path / "npu", device="card1", source="sim", command="ork npu")
    with Npu(board.device(), publisher=publisher) as npu:
        assert exact_matmul(npu, 8, 64, 64).wrong == 0


def test_the_next_publisher_removes_what_killed_processes_left(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"{ended.pid}.json", f"{ended.pid}.tmp", f"{os.getppid()}.json", "notes.json"):
        (tmp_path / name).write_text("{}")
    Publisher(tmp_path, device="card1", source="sim", command="ork npu")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"{os.getppid()}.json", "notes.json"])


def test_others_are_active_while_they_live_and_have_just_run_something(tmp_path):
    assert not active_elsewhere(tmp_path / "none")
    assert not active_elsewhere(tmp_path)
    (tmp_path / f"{os.getpid()}.json").write_text("{}")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"{ended.pid}.json").write_text("{}")
    assert not active_elsewhere(tmp_path), "this process and one that ended do not count"
    other = tmp_path / f"{os.getppid()}.json"
    other.write_text("{}")
    assert active_elsewhere(tmp_path)
    os.utime(other, (0, other.stat().st_mtime - 10))
    assert not active_elsewhere(tmp_path)
