"""``ork sim fault``, ``reboot`` and ``power-cycle`` over the socket, seen from another process's side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver import uapi
from orkbench_tui.errors import DeniedError, ExitCode
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.client import SimBoardFiles, SimDevice
from orkbench_tui.sim.faults.catalogue import CATALOGUE
from tests.sim.board_client import Client


def _json(capsys: pytest.CaptureFixture[str], words: list[str]) -> dict:
    assert run(words) == 0
    return json.loads(capsys.readouterr().out)["data"]


def test_every_fault_is_listed_set_and_told_by_status(
    runtime_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lifecycle.start()
    rows = _json(capsys, ["sim", "fault", "list", "--json"])["faults"]
    assert [row["name"] for row in rows] == list(CATALOGUE)
    assert not any(row["set"] for row in rows)
    for name in CATALOGUE:
        assert _json(capsys, ["sim", "fault", "set", name, "--json"])["set"] is True
    assert set(_json(capsys, ["sim", "status", "--json"])["faults"]) >= {"hot", "boot-image-broken"}


def test_a_wedge_set_here_is_seen_and_ended_by_a_reset_there(
    runtime_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = lifecycle.start()
    files = SimBoardFiles(status.socket_path)
    assert run(["sim", "fault", "set", "wedge"]) == 0
    assert "ended by: soft reset" in capsys.readouterr().out
    for _ in range(200):
        if "Core0: 100%" in files.read("/sys/kernel/debug/rknpu/load").text():
            break
        __import__("time").sleep(0.02)
    assert "Core2: 100%" in files.read("/sys/kernel/debug/rknpu/load").text()
    Client(SimDevice(status.socket_path)).action(uapi.ActionCode.ACT_RESET)
    assert _json(capsys, ["sim", "status", "--json"])["faults"] == {}


def test_a_reboot_takes_the_device_from_programs_and_not_the_files(
    runtime_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = lifecycle.start()
    files, device = SimBoardFiles(status.socket_path), SimDevice(status.socket_path)
    before = files.read("/proc/sys/kernel/random/boot_id").text()
    assert run(["sim", "reboot"]) == 0
    assert capsys.readouterr().out.startswith("simulated board: pid ")
    assert files.read("/proc/sys/kernel/random/boot_id").text() != before
    with pytest.raises(OSError):
        Client(device).action(1)
    assert Client(SimDevice(status.socket_path)).action(1) == 908


def test_unknown_names_variants_and_refusals(runtime_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "fault", "set", "wedge"]) == ExitCode.NO_DEVICE
    lifecycle.start()
    assert run(["sim", "fault", "set", "gremlins"]) == ExitCode.USAGE
    assert run(["sim", "fault", "set", "wedge=9"]) == ExitCode.USAGE
    assert run(["sim", "fault", "list", "gremlins"]) == ExitCode.USAGE
    assert run(["sim", "fault", "set", "hard-wedge"]) == 0
    assert run(["sim", "fault", "clear", "hard-wedge"]) == ExitCode.REFUSED
    assert "power-cycle" in capsys.readouterr().err
    assert run(["sim", "power-cycle"]) == 0
    assert lifecycle.status().faults == {}  # type: ignore[union-attr]


def test_a_denied_node_is_a_denied_error(runtime_dir: Path) -> None:
    status = lifecycle.start()
    assert run(["sim", "fault", "set", "permission-denied"]) == 0
    with pytest.raises(DeniedError):
        SimDevice(status.socket_path)


@pytest.mark.parametrize("command", ["reboot", "power-cycle"])
def test_a_board_that_does_not_come_up_is_a_failure_that_says_what_to_do(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", "start"]) == 0
    assert run(["sim", "fault", "set", "boot-image-broken"]) == 0
    capsys.readouterr()
    assert run(["sim", command]) == 6
    told = capsys.readouterr()
    assert "did not come up" in told.err and "ork sim power-cycle" in told.err and "WEDGED" in told.out
    assert run(["sim", "fault", "clear", "boot-image-broken"]) == 0
    assert run(["sim", "power-cycle"]) == 0


def test_a_board_refuses_faults_of_parts_it_lacks_and_names_those_it_knows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lifecycle.start(variant=BoardVariant(board="rocket"))
    rows = {row["name"]: row for row in _json(capsys, ["sim", "fault", "list", "--json"])["faults"]}
    here = {name for name, row in rows.items() if not row["why_not"]}
    assert {"hot", "page-cache-full", "boot-image-broken"} <= here and "wedge" not in here
    for name in rows:
        code = run(["sim", "fault", "set", name])
        told = capsys.readouterr()
        assert code == (0 if name in here else ExitCode.REFUSED), name
        if name not in here:
            assert not told.out and "no rknpu driver" in told.err
            assert all(known in told.err for known in here)
    assert set(_json(capsys, ["sim", "status", "--json"])["faults"]) == here
    assert run(["sim", "fault", "list", "wedge"]) == 0
    assert "not here" in (line := capsys.readouterr().out) and line.count("\n") == 1


def test_a_chip_with_one_core_and_no_iommu_has_no_second_core_to_wedge_and_no_window_to_leak(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lifecycle.start(variant=BoardVariant(board="rk3566"))
    assert run(["sim", "fault", "set", "wedge=1"]) == ExitCode.USAGE
    assert "it has: all, 0" in capsys.readouterr().err
    assert run(["sim", "fault", "set", "iova-leak"]) == ExitCode.REFUSED
    assert "no IOMMU" in capsys.readouterr().err
    assert run(["sim", "fault", "set", "wedge=0"]) == 0
    assert run(["sim", "fault", "clear", "wedge=9"]) == ExitCode.USAGE
    capsys.readouterr()
    assert list(_json(capsys, ["sim", "status", "--json"])["faults"]) == ["wedge"]
