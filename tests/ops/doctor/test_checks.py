"""The preflight: fit boards pass, each spoiled reading fails its own row, unreadable rows stay unknown."""

from __future__ import annotations

import pytest

from orkbench_tui.ops.doctor.checks import CHECKS, Outcome, fit, run_checks
from orkbench_tui.ops.doctor.readings import read_board
from orkbench_tui.ops.doctor.report import doctor_lines
from tests.ops.fake_board import FakeBoard, kmsg, sample_text

IDLE = sample_text("npu-load-rk3588-idle.txt")
MEMORY = "MemTotal: 32507904 kB\nMemFree: 28412388 kB\nMemAvailable: 29811204 kB\nCached: 1990112 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nCmaTotal: 262144 kB\nCmaFree: 231200 kB\n"


def fit_board() -> FakeBoard:
    board = FakeBoard()
    board.links = {}
    board.files["/sys/kernel/debug/rknpu/load"] = IDLE
    board.files["/proc/meminfo"] = MEMORY
    for policy in (0, 4, 6):
        board.files[f"/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"] = "performance\n"
    board.files["/sys/class/thermal/cooling_device0/type"] = "thermal-cpufreq-0\n"
    board.files["/sys/class/thermal/cooling_device0/cur_state"] = "0\n"
    board.files["/sys/kernel/debug/rknpu/mm"] = sample_text("npu-mm-free.txt")
    for number in (35, 36, 37):
        board.files[f"/proc/irq/{number}/effective_affinity_list"] = "0\n"
    return board


def outcomes(board: FakeBoard, **options: object) -> dict[str, Outcome]:
    found = run_checks(read_board(board, pause=lambda _: None, **options))  # type: ignore[arg-type]
    return {outcome.check.id: outcome for outcome in found}


def test_a_fit_board() -> None:
    found = outcomes(fit_board(), own_cpus=(4, 5, 6, 7))
    assert {name: o.finding for name, o in found.items() if o.finding.status in ("warn", "fail")} == {}
    assert fit(tuple(found.values()))
    assert found["npu.idle"].finding.status == "ok" and found["sram"].finding.status == "ok"
    assert found["irq.placement"].finding.status == "ok"


def test_all_rows_of_the_table_are_there() -> None:
    assert sorted(check.number for check in CHECKS) == list(range(1, 26))
    assert len({check.id for check in CHECKS}) == 25 and all(check.want and check.why for check in CHECKS)


SPOILED = {
    "npu.clock": {"/sys/class/devfreq/fdab0000.npu/cur_freq": "200000000\n"},
    "npu.governor": {"/sys/class/devfreq/fdab0000.npu/governor": "powersave\n"},
    "ddr.clock": {"/sys/class/devfreq/dmc/cur_freq": "528000000\n"},
    "cpu.clocks": {"/sys/devices/system/cpu/cpufreq/policy4/scaling_governor": "ondemand\n"},
    "heat": {"/sys/class/thermal/thermal_zone6/temp": "76000\n"},
    "throttle": {"/sys/class/thermal/cooling_device0/cur_state": "2\n"},
    "npu.idle": {"/sys/kernel/debug/rknpu/load": sample_text("npu-load-rk3588-busy.txt")},
    "page.cache": {"/proc/meminfo": sample_text("meminfo-rk3588-32g-page-cache-full.txt")},
}


@pytest.mark.parametrize("name", SPOILED)
def test_each_spoiled_reading_fails_its_row_and_says_why_and_what(name: str) -> None:
    board = fit_board()
    board.files |= SPOILED[name]
    found = outcomes(board)
    assert found[name].finding.status == "fail" and not fit(tuple(found.values()))
    document = found[name].document()
    assert document["why"] and document["fix"] and document["found"]
    others = {n for n, o in found.items() if o.finding.status == "fail"} - {name}
    assert others == set()


def test_holders_and_faults_fail() -> None:
    board = fit_board()
    board.links = {"/proc/3120/fd/7": "/dev/dri/renderD129"}
    board.log = kmsg(sample_text("dmesg-reset-storm.txt"))
    found = outcomes(board)
    assert found["npu.users"].finding.found == "3120 (llama-cli)"
    assert found["faults"].finding.status == "fail" and "hangs 4" in found["faults"].finding.found
    assert outcomes(board, own_pid=3120)["npu.users"].finding.status == "ok"


def test_what_cannot_be_read_is_unknown_and_never_ok() -> None:
    found = outcomes(FakeBoard({}), sees_all_processes=False)
    ok = {name for name, o in found.items() if o.finding.status == "ok"}
    assert ok == {"sampler", "time.base", "faults", "resets", "kernel"} - (
        {"kernel"} if found["kernel"].finding.status != "ok" else set()
    )
    board = FakeBoard({})
    board.denied.add("/dev/kmsg")
    unread = outcomes(board, sees_all_processes=False)
    assert (
        unread["faults"].finding.status
        == unread["npu.users"].finding.status
        == unread["heat"].finding.status
        == "unknown"
    )


def test_the_mainline_clock_is_left_alone() -> None:
    board = FakeBoard({})
    board.log = kmsg(sample_text("dmesg-rocket-mainline.txt"))
    found = outcomes(board)
    assert "leave the NPU clock alone" in found["npu.clock"].fix and "echo" not in found["npu.clock"].fix


def test_lines_fit() -> None:
    board = fit_board()
    for values in SPOILED.values():
        board.files |= values
    lines = doctor_lines(tuple(outcomes(board).values()))
    assert all(len(line) <= 80 for line in lines)
    assert "unfit for measuring" in "\n".join(lines) and "unknown" in lines[-1]
