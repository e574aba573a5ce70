"""Alerts: when they begin and end, and what the user's command gets."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.kernel_log.counting import LogFacts
from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.alert_hook import Hook, hook_words
from orkbench_tui.ops.telemetry.alerts import ALERTS, Event, Thresholds, Watcher
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.memory import Memory
from orkbench_tui.ops.telemetry.sample import (
    KernelLog,
    Npu,
    NpuCore,
    Resets,
    Sample,
    Temperature,
    Unavailable,
)
from orkbench_tui.ops.telemetry.thermal import CoolingDevice
from tests.screens.feed import samples

CALM = dataclasses.replace(samples(1)[0], memory=Memory(total_bytes=100, available_bytes=50))


def at(second: float, **changes: object) -> Sample:
    return dataclasses.replace(CALM, mono_s=second, unix_s=1000.0 + second, **changes)  # type: ignore[arg-type]


def hot(celsius: float) -> tuple[Temperature, ...]:
    return (Temperature("soc", 40.0), Temperature("npu", celsius))


def names(events: list[Event]) -> list[str]:
    return [f"{'-' if event.over else '+'}{event.alert}" for event in events]


def test_a_calm_board_gives_none() -> None:
    watcher = Watcher(Thresholds())
    assert [watcher.take(at(second)) for second in range(20)] == [[]] * 20


def test_hysteresis() -> None:
    watcher = Watcher(Thresholds())
    told = [
        names(watcher.take(at(second, temperatures=hot(celsius))))
        for second, celsius in enumerate([84, 86, 84, 86, 86, 86, 84, 86, 81, 86, 80, 86, 86, 86])
    ]
    # It must last two seconds, a dip below the threshold is not its end, and five degrees below is.
    begun, ended = ["+temperature"], ["-temperature"]
    assert told == [[], [], [], [], [], begun, [], [], [], [], ended, [], [], begun]


@given(st.lists(st.floats(81, 89), max_size=80))
def test_a_value_that_wavers_gives_at_most_one_alert(values: list[float]) -> None:
    watcher = Watcher(Thresholds())
    told = [
        event for n, celsius in enumerate(values) for event in watcher.take(at(n, temperatures=hot(celsius)))
    ]
    assert len(told) <= 1


def test_each_condition_begins_and_ends() -> None:
    load = (Unavailable("npu.load", "invalid", "/x"),)
    cases: dict[str, dict[str, object]] = {
        "npu.wedged": {"npu": Npu((NpuCore(0, 100, 0.0, 9.0),))},
        "npu.hung": {"holders": (Holder(7, "llama", "/dev/dri/renderD129", state="D", hung_s=31.0),)},
        "npu.gone": {"identity": dataclasses.replace(CALM.identity, driver="")},
        "npu.load.invalid": {"unavailable": load},
        "temperature": {"temperatures": hot(99.0)},
        "speed.capped": {"cooling": (CoolingDevice(0, "thermal-cpufreq-0", 2, 6),)},
        "memory.low": {"memory": Memory(total_bytes=100, available_bytes=2)},
        "cma.low": {
            "memory": Memory(total_bytes=100, available_bytes=50, cma_total_bytes=100, cma_free_bytes=0)
        },
    }
    cooled: dict[str, dict[str, object]] = {
        "speed.capped": {"cooling": (CoolingDevice(0, "thermal-cpufreq-0", 0, 6),)},
        "cma.low": {
            "memory": Memory(total_bytes=100, available_bytes=50, cma_total_bytes=100, cma_free_bytes=50)
        },
    }
    assert set(cases) == {rule.id for rule in ALERTS if not rule.counts}
    for name, changes in cases.items():
        watcher = Watcher(Thresholds())
        watcher.take(at(0))
        told = [names(watcher.take(at(second, **changes))) for second in range(1, 10)]
        assert [entry for entry in told if entry] == [[f"+{name}"]], name
        assert watcher.active == (name,)
        told = [names(watcher.take(at(second, **cooled.get(name, {})))) for second in range(10, 13)]
        assert [entry for entry in told if entry] == [[f"-{name}"]], name


def log(**counts: int) -> dict[str, object]:
    return {
        "log": KernelLog(LogFacts(**counts)),  # type: ignore[arg-type]
        "resets": Resets(counts.get("resets", 0), counts.get("resets_forced", 0), False, None, None),
    }


def test_counts_of_the_log_alert_when_they_grow() -> None:
    watcher = Watcher(Thresholds())
    # What was there before is history.
    assert watcher.take(at(0, **log(hangs=3, oom_kills=1))) == []
    events = watcher.take(at(1, **log(hangs=4, oom_kills=1)))
    assert names(events) == ["+npu.job.timeout"] and "4 since boot" in events[0].text
    assert watcher.take(at(2, **log(hangs=9, oom_kills=1))) == []
    assert watcher.take(at(61, **log(hangs=9, oom_kills=1))) == []
    assert names(watcher.take(at(62, **log(hangs=9, oom_kills=1)))) == ["-npu.job.timeout"]
    # A log that may not be read says nothing.
    assert watcher.take(at(63, log=KernelLog(), resets=None)) == []
    assert names(watcher.take(at(64, **log(hangs=10, oom_kills=1)))) == ["+npu.job.timeout"]


def test_another_boot_counts_from_nothing() -> None:
    watcher = Watcher(Thresholds())
    watcher.take(at(0, **log(hangs=3)))
    reborn = dataclasses.replace(CALM.identity, boot_id="another")
    assert watcher.take(at(1, identity=reborn, **log())) == []
    assert names(watcher.take(at(2, identity=reborn, **log(hangs=1)))) == ["+npu.job.timeout"]


def test_unknown_values_neither_begin_nor_end() -> None:
    watcher = Watcher(Thresholds())
    for second in range(4):
        watcher.take(at(second, temperatures=hot(90.0)))
    assert watcher.take(at(5, temperatures=())) == [] and watcher.active == ("temperature",)


EVENT = Event("npu.wedged", Severity.CRITICAL, 'a "core"; $(touch x)\x1b[31m\n', "do", 6.5, 1000.0)
WRITE = "import json,os,sys; json.dump([dict(os.environ),sys.argv[1:]], open(os.environ['OUT'],'w'))"


def test_the_command_gets_facts_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    hook = Hook(
        [sys.executable, "-c", WRITE, "$ORKBENCH_ALERT", "; ls"],
        environment={"OUT": str(out), "PATH": "/usr/bin"},
    )
    assert hook.run(EVENT, "rock-5b") == ""
    hook.settle(30.0)
    environment, words = json.loads(out.read_text())
    assert words == ["$ORKBENCH_ALERT", "; ls"]
    assert environment["ORKBENCH_ALERT"] == "npu.wedged" and environment["ORKBENCH_ALERT_STATE"] == "begun"
    assert (
        environment["ORKBENCH_ALERT_SEVERITY"] == "critical"
        and environment["ORKBENCH_ALERT_HOST"] == "rock-5b"
    )
    assert "\x1b" not in environment["ORKBENCH_ALERT_TEXT"] and "\n" not in environment["ORKBENCH_ALERT_TEXT"]
    assert environment["ORKBENCH_ALERT_VALUE"] == "6.5"


def test_the_command_is_started_seldom() -> None:
    now = [0.0]
    hook = Hook([sys.executable, "-c", ""], steady=lambda: now[0])
    assert hook.run(EVENT, "h") == ""
    now[0] = 9.9
    assert "less than 10 s" in hook.run(EVENT, "h")
    # Its end, and other alerts, are told apart.
    assert hook.run(dataclasses.replace(EVENT, over=True), "h") == ""
    for program in hook._running.values():
        program.wait(30)
    now[0] = 10.0
    assert hook.run(EVENT, "h") == ""
    for program in hook._running.values():
        program.wait(30)


def test_one_that_still_runs_is_not_started_again() -> None:
    now = [0.0]
    hook = Hook([sys.executable, "-c", "import sys,time; time.sleep(60)"], steady=lambda: now[0])
    assert hook.run(EVENT, "h") == ""
    now[0] = 100.0
    assert "still runs" in hook.run(EVENT, "h")
    for program in hook._running.values():
        program.kill()
        program.wait(30)


def test_commands_that_cannot_be() -> None:
    assert "No such file" in Hook(["/nonexistent/program"]).run(EVENT, "h")
    for text in ("", "   ", "'open"):
        with pytest.raises(UsageError):
            hook_words(text)
    assert hook_words("notify 'NPU alert' -u critical") == ["notify", "NPU alert", "-u", "critical"]
