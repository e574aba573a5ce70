"""``rknpu/hw_time`` of a kernel with the job-hw-time patch: hardware time of every core, as jobs end."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from orkbench_tui.ops.files import Access
from orkbench_tui.ops.telemetry.hw_time import CoreTime, parse_hw_time
from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boot.disk import BootDisk
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.machine import Machine
from tests.sim.board_client import Client, matmul

NODE = "/sys/kernel/debug/rknpu/hw_time"


def _times(board: InProcessBoard) -> tuple[CoreTime, ...]:
    reading = board.files().read(NODE)
    assert reading.access is Access.PRESENT
    times = parse_hw_time(reading.data.decode())
    assert times is not None and [time.core for time in times] == [0, 1, 2]
    return times


def test_its_growth_is_the_hardware_time_of_the_submits() -> None:
    board = InProcessBoard(variant=BoardVariant(patch_job_hw_time=True))
    client = Client(board.device())
    assert [(time.jobs, time.hw_ns) for time in _times(board)] == [(0, 0)] * 3
    told = [0, 0, 0]
    for round_, shape in enumerate(((1, 64, 32), (4, 128, 64), (16, 64, 96), (2, 32, 32))):
        work = matmul(client, *shape)
        core = round_ % 3
        told[core] += client.submit(work.tasks, 1, core_mask=1 << core).hw_elapse_time
    times = _times(board)
    assert [time.hw_ns for time in times] == told and min(told) > 0
    assert [time.jobs for time in times] == [2, 1, 1]
    board.close()


def test_a_job_that_never_completes_adds_nothing() -> None:
    board = InProcessBoard(variant=BoardVariant(patch_job_hw_time=True))
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0x100)
    with pytest.raises(TimeoutError):
        client.submit(work.tasks, 1)
    assert [(time.jobs, time.hw_ns) for time in _times(board)] == [(0, 0)] * 3
    board.close()


def test_only_a_kernel_whose_manifest_names_the_patch_has_the_node(tmp_path: Path) -> None:
    machine = Machine("fast", BoardVariant(), ClientProcesses(), disk=tmp_path)
    assert machine.tree.read(NODE).access is Access.ABSENT
    disk = BootDisk(tmp_path)
    image = disk.data("/boot/Image", 64 << 20)
    assert image is not None
    place = disk.place(f"/boot/npu-workbench/manifests/{machine.release}.json")
    assert place is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    named = {"image_sha256": hashlib.sha256(image).hexdigest(), "patches": ["job-hw-time"]}
    place.write_text(json.dumps(named))
    machine.restart(Event.REBOOT)
    assert machine.tree.read(NODE).data == b"".join(b"core%d: jobs 0 hw_ns 0\n" % core for core in range(3))
    place.write_text(json.dumps({**named, "image_sha256": "0" * 64}))
    machine.restart(Event.REBOOT)
    assert machine.tree.read(NODE).access is Access.ABSENT
    machine.close()
