"""An NPU that had a fault since its boot is not asked anything, unless somebody says so."""

from __future__ import annotations

import dataclasses

import pytest

from orkbench_tui import target as targets
from orkbench_tui.cli.main import run
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.counting import LogFacts, count
from orkbench_tui.ops.kernel_log.renderings import parse_log
from orkbench_tui.ops.probes.device_state import (
    Event,
    State,
    after,
    require_clean_device,
    state_of,
    state_of_log,
)
from orkbench_tui.settings import Settings
from tests.ops.fake_board import SAMPLES, FakeBoard, kmsg, sample_text


def facts(name: str) -> LogFacts:
    return count(classify_all(parse_log((SAMPLES / name).read_bytes())))


@pytest.mark.parametrize("start", State)
def test_only_a_boot_cleans_and_any_fault_soils(start: State) -> None:
    assert after(start, Event.BOOT) is State.CLEAN
    assert after(start, Event.FAULT) is State.DIRTY
    for event in (Event.RESET, Event.JOB):
        assert after(start, event) is start
    # A reset after a fault is what looks like a cure and is none.
    assert after(after(start, Event.FAULT), Event.RESET) is State.DIRTY


def test_a_healthy_log_is_clean_and_one_without_its_beginning_tells_nothing() -> None:
    healthy = facts("dmesg-healthy-boot.txt")
    assert state_of(healthy, log_given=True) == (State.CLEAN, "no fault since boot")
    cut = dataclasses.replace(healthy, lower_bound=True)
    assert state_of(cut, log_given=True)[0] is State.UNKNOWN
    assert state_of(healthy, log_given=False)[0] is State.UNKNOWN


@pytest.mark.parametrize(
    "name", ["hangs", "page_faults", "switch_timeouts", "resets_forced", "iova_failures"]
)
def test_every_kind_of_fault_is_named(name: str) -> None:
    for lower_bound in (False, True):
        found = LogFacts(lower_bound=lower_bound, **{name: 3})
        state, seen = state_of(found, log_given=True)
        assert state is State.DIRTY and seen == f"{name.replace('_', ' ')} 3"
    # A reset somebody asked for is no fault.
    assert state_of(LogFacts(lower_bound=False, resets=9), log_given=True)[0] is State.CLEAN


def test_what_is_refused_and_what_is_told() -> None:
    with pytest.raises(RefusedError, match=r"hangs 1.*power cycle.*--consent"):
        require_clean_device(State.DIRTY, "hangs 1", on_board=True, consent=False)
    assert "hangs 1" in require_clean_device(State.DIRTY, "hangs 1", on_board=True, consent=True)
    assert "not readable" in require_clean_device(State.UNKNOWN, "not readable", on_board=True, consent=False)
    assert require_clean_device(State.CLEAN, "", on_board=True, consent=False) == ""
    assert require_clean_device(State.DIRTY, "hangs 1", on_board=False, consent=False) == ""


def test_the_kernels_records_tell() -> None:
    assert state_of_log(kmsg(sample_text("dmesg-healthy-boot.txt")))[0] is State.CLEAN
    state, seen = state_of_log(kmsg(sample_text("dmesg-domain-switch-timeout.txt")))
    assert state is State.DIRTY and "switch timeouts" in seen
    assert state_of_log([]) == (State.UNKNOWN, "the kernel log is not readable")


@pytest.mark.parametrize(
    ("log", "code"), [("dmesg-domain-switch-timeout.txt", 7), ("dmesg-healthy-boot.txt", 0)]
)
def test_the_command_does_not_open_the_npu_of_a_board_with_a_past(
    log: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[int] = []
    real = targets.open_target
    open_npu = targets.Target.open_npu

    def as_board(settings: Settings) -> targets.Target:
        simulated, fake = real(settings), FakeBoard()
        fake.log = kmsg(sample_text(log))
        simulated.files.kernel_log = fake.kernel_log  # type: ignore[method-assign]
        simulated.label = "board"
        return simulated

    def counted(self: targets.Target) -> Npu:
        opened.append(1)
        return open_npu(self)

    monkeypatch.setattr(targets, "open_target", as_board)
    monkeypatch.setattr(targets.Target, "open_npu", counted)
    assert run(["npu", "probe", "pack-variants", "--target", "sim"]) == code
    assert bool(opened) is (code == 0)
    assert ("power cycle the board" in capsys.readouterr().err) is (code == 7)
