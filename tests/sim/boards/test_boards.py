"""Boards as data: each shows its own files, driver and chip, and runs what its chip runs."""

from __future__ import annotations

import errno
import posixpath
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver import uapi
from orkbench_tui.driver.soc import soc_for
from orkbench_tui.errors import ExitCode, NoDeviceError
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS, profile_of
from orkbench_tui.sim.client import SimDevice
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client, matmul

TREE = "/proc/device-tree"

FACTS = {
    "rock-5b": ("Radxa ROCK 5B", "rk3588", "0.9.8", 3, "6.1.115-vendor-rk35xx"),
    "orange-pi-5-plus": ("Orange Pi 5 Plus", "rk3588", "0.9.7", 3, "6.1.0-1025-rockchip"),
    "rk3576": ("Radxa ROCK 4D", "rk3576", "0.9.8", 2, "6.1.84-8-rk2410"),
    "rk3566": ("Orange Pi 3B", "rk3566", "0.9.8", 1, "6.19.2-edge-rockchip64"),
    "rocket": ("Radxa ROCK 5B", "rk3588", "", 3, "6.18.22-current-rockchip64"),
}


def _board(name: str) -> InProcessBoard:
    return InProcessBoard(variant=BoardVariant(board=name))


def test_every_board_has_facts_to_check() -> None:
    assert set(FACTS) == set(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_identity_chip_driver_and_cores(name: str) -> None:
    model, chip, version, cores, release = FACTS[name]
    files = _board(name).files()
    assert files.read(f"{TREE}/model").text() == f"{model}\0"
    compatible = files.read(f"{TREE}/compatible").text().split("\0")
    soc = soc_for(compatible)
    assert soc is not None
    assert (soc.name, soc.cores) == (chip, cores)
    assert files.read("/proc/sys/kernel/osrelease").text() == f"{release}\n"
    assert files.read("/sys/module/rknpu/version").text() == (f"{version}\n" if version else "")
    assert release in b"".join(files.kernel_log()).decode()


@pytest.mark.parametrize("name", BOARDS)
def test_every_link_leads_somewhere_and_every_file_is_listed(name: str) -> None:
    files, profile = _board(name).files(), profile_of(name)
    for link in profile.links:
        assert files.readlink(link) is not None
        assert files.read(link).ok or files.list(link), f"{link} dangles"
    for path in profile.files:
        assert posixpath.basename(path) in files.list(posixpath.dirname(path))


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("rk3576", "NPU load:  Core0:  0%, Core1:  0%,\n"),
        ("rk3566", "NPU load:  0%\n"),
        ("rocket", ""),
    ],
)
def test_the_load_line_has_the_chip_s_cores(name: str, load: str) -> None:
    assert _board(name).files().read("/sys/kernel/debug/rknpu/load").text() == load


def test_an_rk3576_shows_its_load_to_everybody() -> None:
    board = _board("rk3576")
    board.machine.set_fault("permission-denied")
    assert board.files().read("/proc/rknpu/load").ok
    assert not board.files().read("/sys/kernel/debug/rknpu/load").ok


def test_a_restricted_kernel_log_is_closed_to_plain_users() -> None:
    board = _board("orange-pi-5-plus")
    board.machine.set_fault("permission-denied")
    assert board.files().kernel_log() == []


@pytest.mark.parametrize("name", ["rk3576", "orange-pi-5-plus"])
def test_chips_with_the_same_programs_compute_the_same(name: str) -> None:
    client = Client(_board(name).device())
    work = matmul(client, 8, 64, 64)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_an_rk3576_refuses_a_third_core() -> None:
    board = _board("rk3576")
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    with pytest.raises(OSError) as caught:
        client.submit(work.tasks, 1, core_mask=4)
    assert caught.value.errno == errno.EINVAL
    client.submit(work.tasks, 1, core_mask=2)
    assert np.array_equal(work.result(), work.expected)


def test_an_rk3566_takes_its_range_from_the_structure_and_counts_words() -> None:
    board = _board("rk3566")
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    request = uapi.Submit(flags=5, timeout=500, task_number=1, task_obj_addr=work.tasks.obj_addr, core_mask=1,
                          fence_fd=-1)  # fmt: skip
    client.call(uapi.RKNPU_SUBMIT, request)
    assert np.array_equal(work.result(), work.expected)
    assert client.action(uapi.ActionCode.GET_IOMMU_EN) == 0


def test_a_rocket_board_has_no_rknpu_and_says_whose_the_npu_is(
    runtime_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", "start", "--board", "rocket"]) == 0
    status = lifecycle.status()
    assert status is not None
    assert (status.board, status.driver) == ("rocket", "")
    with pytest.raises(NoDeviceError, match="rknpu") as caught:
        SimDevice(status.socket_path)
    assert "rocket" in str(caught.value.why)
    assert run(["npu", "info", "--target", "sim"]) == ExitCode.NO_DEVICE
    assert "rocket" in capsys.readouterr().err


def test_an_unknown_board_is_named(runtime_dir: Path) -> None:
    assert run(["sim", "start", "--board", "toaster"]) == ExitCode.USAGE
