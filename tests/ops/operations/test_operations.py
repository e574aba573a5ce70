"""Each operation on the simulated board: what it plans, does, refuses and gives back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.declaration import Plan, Risk, Words
from orkbench_tui.ops.operations.drain import patience_s
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.ops.operations.sram import sram_report
from orkbench_tui.ops.operations.stuck import hanging_for, stuck_lines, stuck_programs
from orkbench_tui.ops.telemetry.sram_map import parse_mm
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import Killed, SimEffects, guarded, nodes

NPU = "/sys/class/devfreq/fdab0000.npu"
RKNPU = "/sys/kernel/debug/rknpu"


def _plan(sim: InProcessBoard, state: Path, name: str, words: Words | None = None) -> Plan:
    return OPERATIONS[name].plan(guarded(sim, state), words or {})


def _run(
    sim: InProcessBoard, state: Path, name: str, words: Words | None = None, effects: SimEffects | None = None
) -> engine.Outcome:
    board = guarded(sim, state, effects)
    return engine.run(board, OPERATIONS[name].plan(board, words or {}))


def _states(plan: Plan) -> dict[str, str]:
    return {check.what: check.state for check in plan.checks}


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"watchdog", "setup"}))
def test_planning_changes_nothing_and_says_everything(sim: InProcessBoard, tmp_path: Path, name: str) -> None:
    before = nodes(sim)
    effects = SimEffects(sim)
    plan = OPERATIONS[name].plan(guarded(sim, tmp_path, effects), {})
    operation = plan.operation
    assert effects.count == 0 and nodes(sim) == before and not list(tmp_path.iterdir())
    assert operation.why and operation.title and plan.host == "rock-5b"
    takes_back = all(step.before is not None for step in plan.steps if step.verb != "healthy")
    assert bool(operation.lasting) != (bool(plan.steps) and takes_back)


def test_drop_caches_syncs_first_and_frees_memory(sim: InProcessBoard, tmp_path: Path) -> None:
    plan = _plan(sim, tmp_path, "drop-caches")
    assert [step.verb for step in plan.steps] == ["sync", "drop"] and plan.steps[1].after == "1"
    before = dict(plan.facts)["memory now"]
    assert _run(sim, tmp_path, "drop-caches", {"level": "3"}).kind == "done"
    after = dict(_plan(sim, tmp_path, "drop-caches").facts)["memory now"]
    assert "1094 MiB cached" in before and "94 MiB cached" in after
    assert sim.files().read("/proc/sys/vm/drop_caches").data == b"3\n"
    with pytest.raises(UsageError, match="allowed: 1, 2, 3"):
        _plan(sim, tmp_path, "drop-caches", {"level": "4"})


def test_governors_up_and_back_to_what_stood_before(sim: InProcessBoard, tmp_path: Path) -> None:
    sim.files().write(f"{NPU}/governor", b"userspace\n")
    sim.files().write(f"{NPU}/userspace/set_freq", b"600000000\n")
    before = nodes(sim)
    assert len(_plan(sim, tmp_path, "governors").steps) == 5
    assert _run(sim, tmp_path, "governors").kind == "done"
    assert sim.files().read(f"{NPU}/cur_freq").data == b"1000000000\n"
    assert _plan(sim, tmp_path, "governors").steps == (), "twice in a row is safe"
    sim.files().write("/sys/class/devfreq/dmc/governor", b"powersave\n")
    assert _run(sim, tmp_path, "governors").steps_done == 1
    assert _run(sim, tmp_path, "governors", {"mode": "restore"}).kind == "done"
    assert nodes(sim) == before, "the oldest recorded values, not those in between"
    assert _plan(sim, tmp_path, "governors", {"mode": "restore"}).steps == ()


def test_what_another_boot_recorded_is_not_restored(sim: InProcessBoard, tmp_path: Path) -> None:
    assert _run(sim, tmp_path, "governors").kind == "done"
    other = InProcessBoard()
    assert _plan(other, tmp_path, "governors", {"mode": "restore"}).steps == ()
    other.close()


def test_a_clock_without_a_performance_governor_is_left_and_named(
    sim: InProcessBoard, tmp_path: Path
) -> None:
    sim.files()._files["/sys/devices/platform/dmc/devfreq/dmc/available_governors"] = b"dmc_ondemand\n"
    plan = _plan(sim, tmp_path, "governors")
    assert _states(plan)["DDR has a performance governor"] == "warn" and len(plan.steps) == 4


def test_a_hot_board_gets_no_full_clocks(sim: InProcessBoard, tmp_path: Path) -> None:
    zone = "/sys/devices/virtual/thermal/thermal_zone0/temp"
    sim.files()._dynamic[zone] = lambda: b"81000\n"
    plan = _plan(sim, tmp_path, "governors")
    assert [check.what for check in plan.refusals] == ["the board is cool"]
    assert "81.0 C" in plan.refusals[0].evidence


def test_interrupts_go_to_little_cores_and_back(sim: InProcessBoard, tmp_path: Path) -> None:
    before = nodes(sim)
    assert _run(sim, tmp_path, "irq-affinity").kind == "done"
    assert [nodes(sim)[f"/proc/irq/{number}/smp_affinity_list"] for number in (35, 36, 37)] == ["1", "2", "3"]
    assert sim.files().read("/proc/irq/36/effective_affinity_list").data == b"2\n"
    assert _run(sim, tmp_path, "irq-affinity", {"mode": "restore"}).kind == "done"
    assert nodes(sim) == before


def test_drain_asks_waits_and_never_kills(sim: InProcessBoard, tmp_path: Path) -> None:
    device = sim.device()
    effects = SimEffects(sim, on_terminate=lambda pid: device.close())
    plan = _plan(sim, tmp_path, "drain")
    assert [step.verb for step in plan.steps] == ["terminate", "released"]
    assert plan.steps[1].after == "4" and patience_s(guarded(sim, tmp_path)) == 3.5
    assert plan.operation.risk is Risk.INTERRUPTS and plan.operation.failure is ExitCode.BUSY
    assert _run(sim, tmp_path, "drain", effects=effects).kind == "done"
    assert effects.terminated == [os.getpid()]
    assert _plan(sim, tmp_path, "drain").steps == ()


def test_a_program_that_stays_is_named(sim: InProcessBoard, tmp_path: Path) -> None:
    device = sim.device()
    effects = SimEffects(sim)
    began = sim.clock.now_ns()
    outcome = _run(sim, tmp_path, "drain", {"wait": "only"}, effects)
    assert outcome.kind == "failed" and f"pid {os.getpid()}" in outcome.text and effects.terminated == []
    assert sim.clock.now_ns() - began >= 3_500_000_000
    device.close()


def test_a_number_that_went_to_another_process_is_not_signalled(sim: InProcessBoard, tmp_path: Path) -> None:
    device = sim.device()
    plan = _plan(sim, tmp_path, "drain")
    device.close()
    effects = SimEffects(sim)
    assert engine.run(guarded(sim, tmp_path, effects), plan).kind == "done"
    assert effects.terminated == []


def test_reset_is_seen_in_the_log_and_tried_on_every_core(sim: InProcessBoard, tmp_path: Path) -> None:
    assert _run(sim, tmp_path, "reset").kind == "done" and sim.kernel.scheduler.resets >= 1


@pytest.mark.parametrize(
    ("setting", "check"),
    [("bypassed", "resets are enabled"), ("held", "no program holds the NPU")],
)
def test_a_reset_that_cannot_help_is_refused(
    sim: InProcessBoard, tmp_path: Path, setting: str, check: str
) -> None:
    if setting == "bypassed":
        sim.files().write(f"{RKNPU}/reset", b"off\n")
    else:
        sim.device()
    assert [item.what for item in _plan(sim, tmp_path, "reset").refusals] == [check]


def test_a_bypass_the_plan_could_not_see_shows_in_the_log(sim: InProcessBoard, tmp_path: Path) -> None:
    plan = _plan(sim, tmp_path, "reset")
    sim.files().write(f"{RKNPU}/reset", b"off\n")
    outcome = engine.run(guarded(sim, tmp_path), plan)
    assert outcome.kind == "failed" and "bypassed" in outcome.text


def test_after_two_failed_resets_no_third(sim: InProcessBoard, tmp_path: Path) -> None:
    plan = _plan(sim, tmp_path, "reset")
    sim.files().write(f"{RKNPU}/reset", b"off\n")
    for _ in range(2):
        assert engine.run(guarded(sim, tmp_path), plan).kind == "failed"
    sim.files().write(f"{RKNPU}/reset", b"on\n")
    assert [c.what for c in _plan(sim, tmp_path, "reset").refusals] == ["resets have not failed repeatedly"]


def test_resets_that_were_interrupted_have_not_failed(sim: InProcessBoard, tmp_path: Path) -> None:
    for _ in range(3):
        plan = _plan(sim, tmp_path, "reset")
        with pytest.raises(Killed):
            engine.run(guarded(sim, tmp_path, SimEffects(sim, stop_at=3)), plan)
        assert [outcome.kind for outcome in engine.resume(guarded(sim, tmp_path))] == ["failed"]
    assert _plan(sim, tmp_path, "reset").refusals == ()


MM = 'SRAM bitmap: "*" - used, "." - free (1bit = 4KB)\n[000] [**......]\n'


def test_the_sram_map_is_checked_against_its_sums() -> None:
    good = parse_mm(MM + "SRAM total size: 32768, used: 8192, free: 24576\n")
    assert good is not None and good.consistent and good.longest_free_bytes == 24576
    bad = parse_mm(MM + "SRAM total size: 32768, used: 4096, free: 28672\n")
    assert bad is not None and not bad.consistent
    assert parse_mm("") is None and parse_mm("SRAM total size: x") is None


def test_sram_of_both_kernels(sim: InProcessBoard, tmp_path: Path) -> None:
    without = sram_report(guarded(sim, tmp_path), total=0, free=0, grant=None)
    assert (without.built_in, without.owned, without.map) == (False, False, None)
    assert "no SRAM on this kernel" in without.verdict
    other = InProcessBoard(variant=BoardVariant(sram=True))
    board = guarded(other, tmp_path)
    found = sram_report(board, total=978944, free=978944, grant=(65536, 65536))
    assert (found.built_in, found.owned, found.leaked) == (True, True, False)
    assert found.map is not None and found.map.consistent and found.map.total_bytes == 978944
    leaked = sram_report(board, total=978944, free=974848, grant=None)
    assert "is granted" in found.verdict and leaked.map is not None
    other.close()


def test_a_waiting_program_is_explained(
    sim: InProcessBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = guarded(sim, tmp_path)
    assert stuck_lines(stuck_programs(board)) == ["no program hangs in the NPU's driver"]
    file = sim.kernel.open(os.getpid())
    file.jobs = 1
    (found,) = stuck_programs(board)
    assert (found.pid, found.holds_npu, found.wait) == (os.getpid(), True, "rknpu_job_wait")
    assert "at most three time-outs" in found.meaning and "kill -9" in stuck_lines((found,))[-1]
    file.jobs = 0


def test_only_a_program_that_hangs_all_the_while_is_flagged(sim: InProcessBoard, tmp_path: Path) -> None:
    board = guarded(sim, tmp_path)
    file = sim.kernel.open(os.getpid())
    clock = [0.0]
    looks = []

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        looks.append(clock[0])
        if len(looks) == leaves_after:
            file.jobs = 0

    def hanging(seconds: float) -> list[int]:
        clock[0], file.jobs = 0.0, 1
        looks.clear()
        return [found.pid for found in hanging_for(board, seconds, now=lambda: clock[0], sleep=sleep)]

    leaves_after = 0
    assert hanging(2.0) == [os.getpid()] and looks[-1] >= 2.0
    leaves_after = 3
    assert hanging(2.0) == [] and looks[-1] < 2.0, "a wait that ended is no hang, and ends the watch"
    leaves_after = 0
    assert hanging(0.0) == [os.getpid()] and looks == []
    file.jobs = 0


def test_a_number_that_another_program_got_does_not_go_on_hanging(
    sim: InProcessBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = guarded(sim, tmp_path)
    file = sim.kernel.open(os.getpid())
    file.jobs = 1
    starts = iter(["100", "200"])
    monkeypatch.setattr("orkbench_tui.ops.operations.stuck.process_start", lambda board, pid: next(starts))
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += 5.0

    assert hanging_for(board, 1.0, now=lambda: clock[0], sleep=sleep) == ()
    file.jobs = 0
