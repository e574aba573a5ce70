"""What a diagnosis says of simulated boards as they are delivered, and with a fault set."""

from __future__ import annotations

import pytest

from orkbench_tui.ops.diagnosis.collect import collect
from orkbench_tui.ops.diagnosis.diagnose import diagnose
from orkbench_tui.ops.diagnosis.evidence import gather
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.guard.verbs import DRIVER_FOLDER
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard


def verdicts(board: str, fault: str = "") -> tuple[Verdict, ...]:
    machine = InProcessBoard(variant=BoardVariant(board=board))
    try:
        if fault:
            machine.machine.set_fault(fault)
        return diagnose(gather(collect(machine.files())))
    finally:
        machine.close()


@pytest.mark.parametrize("board", ["rock-5b", "orange-pi-5-plus", "rk3576", "rk3566"])
def test_a_board_as_delivered_has_nothing_wrong(board: str) -> None:
    found = verdicts(board)
    assert [v.kind for v in found if v.severity > Level.INFO] == []
    assert found[0].kind == "healthy"


def test_a_board_whose_npu_rocket_drives_is_no_board_for_rknpu() -> None:
    found = verdicts("rocket")
    assert (found[0].kind, found[0].severity) == ("driver-missing", Level.LOW)
    assert "mainline rocket driver owns the NPU" in found[0].title
    assert any("/dev/accel" in text for text in found[0].advice)
    assert "healthy" not in {v.kind for v in found}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("iova-leak", "iommu-unmap-leak"),
        ("hot", "thermal-throttle"),
        ("parked-governor", "governor-not-max"),
        ("old-driver", "driver-too-old"),
        ("process-stuck-D", "process-stuck-D"),
        ("boot-image-broken", "kernel-image-invalid"),
        ("hard-wedge", "power-domain-failure"),
    ],
)
def test_a_fault_is_the_first_thing_said(fault: str, kind: str) -> None:
    assert verdicts("rock-5b", fault)[0].kind == kind


@pytest.mark.parametrize("board", ["rock-5b", "orange-pi-5-plus", "rk3576", "rk3566"])
def test_a_driver_that_was_taken_off_the_npu_is_missing(board: str) -> None:
    machine = InProcessBoard(variant=BoardVariant(board=board))
    files = machine.files()
    (device,) = [name for name in files.list(DRIVER_FOLDER) if name.endswith(".npu")]
    files.write(f"{DRIVER_FOLDER}/unbind", device.encode())
    (found, *_) = diagnose(gather(collect(files)))
    assert (found.kind, found.severity) == ("driver-missing", Level.HIGH)
    assert "taken off" in found.title and "`ork board resume`" in found.advice[0]
    files.write(f"{DRIVER_FOLDER}/bind", device.encode())
    assert diagnose(gather(collect(files)))[0].kind == "healthy"
    machine.close()
