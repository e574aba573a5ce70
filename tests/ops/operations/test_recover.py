"""The ladder: one rung at a time, no further than needed, nothing on a healthy board."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

from orkbench_tui.errors import DeniedError, NoDriverError, OrkError, RefusedError
from orkbench_tui.ops.guard import effects
from orkbench_tui.ops.guard.board import IMPORTED, Answer, GuardedBoard
from orkbench_tui.ops.guard.declaration import Plan
from orkbench_tui.ops.guard.verbs import VERBS
from orkbench_tui.ops.operations import recover as recover_module
from orkbench_tui.ops.operations import reset as reset_module
from orkbench_tui.ops.operations.recover import LADDER, Transcript, recover, recovery_document
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded, nodes
from tests.sim.board_client import Client, matmul


def _yes(plan: Plan) -> str:
    return ""


def _climb(board: GuardedBoard, **options: object) -> Transcript:
    return recover(board, **{"max_rung": 4, "dry_run": False, "consent": _yes} | options)  # type: ignore[arg-type]


def _results(transcript: Transcript) -> list[tuple[str, str]]:
    return [(item.rung, item.result) for item in transcript.tried]


class _Sick:
    """A board whose cores fail until an effect of the given kind has happened."""

    def __init__(self, sim: InProcessBoard, state: Path, cure: str, line: str = "") -> None:
        outer = self
        self.well = False

        class Effects(SimEffects):
            def reset_npu(self) -> None:
                super().reset_npu()
                outer.well |= cure == "reset"

            def write(self, path: str, data: bytes) -> None:
                super().write(path, data)
                outer.well |= cure == "drop" and path.endswith("drop_caches")

        if line:
            sim.kernel.log.driver(3, line)
        self.effects = Effects(sim)
        self.board = dataclasses.replace(
            guarded(sim, state, self.effects),
            canary=lambda: tuple(
                Answer(f"core {core}", "" if outer.well else "timed out") for core in range(3)
            ),
        )


def test_a_healthy_board_is_left_untouched(sim: InProcessBoard, tmp_path: Path) -> None:
    before = nodes(sim)
    counted = SimEffects(sim)
    for _ in range(2):
        transcript = _climb(guarded(sim, tmp_path, counted))
        assert transcript.healthy and transcript.tried == () and not transcript.changed
    assert counted.count == 0 and nodes(sim) == before and not (tmp_path / "journal").exists()


def test_a_reset_is_tried_after_what_is_gentler_and_ends_the_climb(
    sim: InProcessBoard, tmp_path: Path
) -> None:
    transcript = _climb(_Sick(sim, tmp_path, "reset").board)
    assert transcript.healthy and transcript.fault.startswith("core 0: timed out")
    assert _results(transcript) == [("1", "skipped"), ("1b", "no help"), ("2", "healthy")]
    assert all(item.journal for item in transcript.tried[1:])


def test_memory_trouble_in_the_log_leads_to_the_caches(sim: InProcessBoard, tmp_path: Path) -> None:
    sick = _Sick(sim, tmp_path, "drop", "failed to allocate IOVA: -12")
    transcript = _climb(sick.board)
    assert transcript.healthy and _results(transcript)[-1] == ("3", "healthy")


def test_without_such_a_line_the_caches_are_left(sim: InProcessBoard, tmp_path: Path) -> None:
    transcript = _climb(_Sick(sim, tmp_path, "drop").board)
    assert not transcript.healthy and ("3", "skipped") in _results(transcript)
    assert "reboot" in transcript.needs and "power cycle" in transcript.needs
    assert recovery_document(transcript)["needs"] == transcript.needs


def test_a_reset_is_no_cure_for_memory(sim: InProcessBoard, tmp_path: Path) -> None:
    sick = _Sick(sim, tmp_path, "drop", "failed to allocate IOVA: -12")
    answers = (Answer("core 0", ""), Answer(IMPORTED, "no NPU memory"))
    board = dataclasses.replace(sick.board, canary=lambda: answers[: 1 if sick.well else 2])
    transcript = _climb(board)
    assert transcript.healthy and sim.kernel.scheduler.resets == 0
    assert _results(transcript) == [("1", "skipped"), ("1b", "no help"), ("2", "skipped"), ("3", "healthy")]


def test_no_rung_above_the_highest_allowed(sim: InProcessBoard, tmp_path: Path) -> None:
    transcript = _climb(_Sick(sim, tmp_path, "reset").board, max_rung=1)
    assert [rung for rung, _ in _results(transcript)] == ["1", "1b"] and not transcript.healthy
    assert "--max-rung 4" in transcript.needs
    nothing = _climb(_Sick(sim, tmp_path / "zero", "reset").board, max_rung=0)
    assert nothing.tried == () and not nothing.changed


def test_a_risky_rung_needs_consent(sim: InProcessBoard, tmp_path: Path) -> None:
    sick = _Sick(sim, tmp_path, "reset")
    transcript = _climb(sick.board, consent=lambda plan: "add --confirm rock-5b")
    assert not transcript.healthy and not sick.well and "add --confirm rock-5b" in transcript.needs
    assert ("2", "refused") in _results(transcript)


def test_a_dry_run_does_nothing(sim: InProcessBoard, tmp_path: Path) -> None:
    sick = _Sick(sim, tmp_path, "reset")
    transcript = _climb(sick.board, dry_run=True)
    assert sick.effects.count == 0 and not transcript.changed
    assert ("2", "planned") in _results(transcript) and "--dry-run" in transcript.needs


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("failed to soft reset for rknpu: -110", "a reboot"),
        ("mismatch domain get from iommu_get_domain_for_dev", "a reboot"),
    ],
)
def test_where_the_log_says_nothing_less_helps_no_reset_is_tried(
    sim: InProcessBoard, tmp_path: Path, line: str, needs: str
) -> None:
    sick = _Sick(sim, tmp_path, "reset", line)
    transcript = _climb(sick.board)
    assert not transcript.healthy and transcript.needs.startswith(needs)
    assert ("2", "refused") in _results(transcript) and not sick.well


def test_holders_are_ended_before_anything_else(sim: InProcessBoard, tmp_path: Path) -> None:
    device = sim.device()
    ending = SimEffects(sim, on_terminate=lambda pid: device.close())
    transcript = _climb(guarded(sim, tmp_path, ending))
    assert transcript.healthy and "is held by" in transcript.fault
    assert _results(transcript) == [("1", "healthy")] and len(ending.terminated) == 1


def test_a_job_left_behind_by_a_dead_program_is_cleared(sim: InProcessBoard, tmp_path: Path) -> None:
    """A NONBLOCK job that never completes survives a reset; only the next such submit drops it."""
    device = sim.device()
    client = Client(device)
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0x30000000)
    client.submit(work.tasks, 1, flags=7, timeout=100)
    with sim.kernel.condition:
        core = sim.kernel.scheduler.cores[0]
        assert sim.kernel.condition.wait_for(lambda: core.owner is not None and core.owner.hung, 10)
    device.close()
    SimEffects(sim).reset_npu()
    assert core.owner is not None, "a reset alone does not remove it"
    transcript = _climb(guarded(sim, tmp_path))
    assert _results(transcript)[-1] == ("2", "healthy"), transcript.lines()
    assert _climb(guarded(sim, tmp_path)).tried == ()


def test_a_wedge_only_power_can_end_is_said(sim: InProcessBoard, tmp_path: Path) -> None:
    sim.kernel.dead = "wedged"
    transcript = _climb(guarded(sim, tmp_path))
    assert not transcript.healthy and "power cycle" in transcript.needs
    assert transcript.lines()[-1].startswith("not recovered; it needs: ")


def test_the_ladder_climbs_and_has_no_way_to_reboot_unbind_or_kill() -> None:
    assert [rung.number for rung in LADDER] == sorted(rung.number for rung in LADDER)
    recovering = inspect.getsource(recover_module) + inspect.getsource(reset_module)
    assert '"reset"' in recovering
    forbidden = {
        name for name in VERBS if any(word in name for word in ("boot", "bind", "kill", "power-cycle"))
    }
    assert "reboot" in forbidden
    assert not {name for name in forbidden if f'Step("{name}"' in recovering}
    source = inspect.getsource(effects)
    assert "SIGTERM" in source and "SIGKILL" not in source


@pytest.mark.parametrize("kind", [NoDriverError, DeniedError, RefusedError])
def test_where_nothing_can_be_computed_nothing_is_found_and_nothing_climbed(
    sim: InProcessBoard, tmp_path: Path, kind: type[OrkError]
) -> None:
    counted = SimEffects(sim)

    def canary() -> tuple[Answer, ...]:
        raise kind("whether the NPU is well cannot be tried")

    with pytest.raises(kind):
        _climb(dataclasses.replace(guarded(sim, tmp_path, counted), canary=canary))
    assert counted.count == 0 and not (tmp_path / "journal").exists()


def test_a_wedged_chip_without_known_programs_is_well_when_its_load_ends(
    sim: InProcessBoard, tmp_path: Path
) -> None:
    def canary() -> tuple[Answer, ...]:
        raise RefusedError("programs for this chip")

    sim.machine.set_fault("wedge=1")
    transcript = _climb(dataclasses.replace(guarded(sim, tmp_path, SimEffects(sim)), canary=canary))
    assert transcript.healthy and _results(transcript)[-1] == ("2", "healthy")


def test_a_program_that_hangs_in_the_driver_is_not_waited_for(sim: InProcessBoard, tmp_path: Path) -> None:
    sim.machine.set_fault("process-stuck-D")
    effects = SimEffects(sim)
    transcript = _climb(guarded(sim, tmp_path, effects))
    assert _results(transcript)[0] == ("1", "refused") and effects.count == 0 and not transcript.changed
    assert transcript.needs.startswith("a reboot: ork-run (pid ") and not transcript.healthy
