"""A fault that a board can have changes something there; one it cannot have cannot be set."""

from __future__ import annotations

import pytest

from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS, profile_of
from orkbench_tui.sim.faults.board_faults import faults_of, why_not
from orkbench_tui.sim.faults.catalogue import CATALOGUE, Part
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.mark.parametrize(
    ("board", "fault", "values"),
    [
        ("rock-5b", "wedge", ("all", "0", "1", "2")),
        ("rk3576", "wedge", ("all", "0", "1")),
        ("rk3566", "wedge", ("all", "0")),
        ("rock-5b", "old-driver", ("0.8.2", "0.9.2", "0.9.3", "0.9.6", "0.9.7")),
        ("orange-pi-5-plus", "old-driver", ("0.8.2", "0.9.2", "0.9.3", "0.9.6")),
    ],
)
def test_variants_are_those_the_board_can_have(board: str, fault: str, values: tuple[str, ...]) -> None:
    assert faults_of(profile_of(board))[fault].values == values


@pytest.mark.parametrize("board", BOARDS)
def test_a_fault_is_either_known_there_or_has_a_reason(board: str) -> None:
    profile = profile_of(board)
    known = faults_of(profile)
    assert {name for name, fault in CATALOGUE.items() if not why_not(fault, profile)} == set(known)
    if profile.driver is None:
        assert not any(Part.RKNPU in fault.needs for fault in known.values())


@pytest.mark.parametrize(("board", "text"), [("rocket", "wedge"), ("rk3566", "iova-leak")])
def test_the_board_itself_takes_no_fault_it_cannot_have(board: str, text: str) -> None:
    machine = InProcessBoard(variant=BoardVariant(board=board)).machine
    with pytest.raises(KeyError):
        machine.set_fault(text)
    with pytest.raises(ValueError):
        machine.set_fault("hot=9")
    assert machine.faults.all() == {}
    assert machine.kernel.domains.leaked_mappings == 0 and not machine.kernel.scheduler.queues.stalls
