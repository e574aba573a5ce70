"""Guarded operations as a user types them, on the simulated board."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui import locations
from tests.conftest import ork

SIM = ("--target", "sim")
NO_TERMINAL = {"stdin": subprocess.DEVNULL}


def _data(*words: str) -> Any:
    answer = ork("board", *words, *SIM, "--json", **NO_TERMINAL)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)["data"]


@pytest.mark.parametrize("name", ["drop-caches", "governors", "irq-affinity", "drain", "reset"])
def test_a_dry_run_prints_the_plan_and_keeps_no_journal(name: str) -> None:
    page = ork("board", name, "--dry-run", *SIM)
    assert page.returncode == 0, page.stderr
    assert " on rock-5b (" in page.stdout.splitlines()[0] and "  why: " in page.stdout
    assert _data(name, "--dry-run")["host"] == "rock-5b"
    assert ork("board", "journal").stdout == "no operation was run yet\n"


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("drop-caches",), "--yes"),
        (("governors",), "--yes"),
        (("reset",), "--confirm rock-5b"),
        (("reset", "--confirm", "pi5"), "--confirm rock-5b"),
    ],
)
def test_without_confirmation_nothing_is_done_and_the_flag_is_named(
    words: tuple[str, ...], flag: str
) -> None:
    answer = ork("board", *words, *SIM, **NO_TERMINAL)
    assert answer.returncode == 7 and answer.stderr.rstrip().endswith(flag)
    assert ork("board", "journal").stdout == "no operation was run yet\n"


def test_governors_up_back_and_in_the_journal() -> None:
    done = _data("governors", "--yes")
    assert done["result"]["outcome"] == "done" and done["facts_after"]["NPU"] == "performance at 1000000000"
    assert len(done["plan"]["steps"]) == 5
    again = _data("governors", "--yes")
    assert again["result"] is None and again["plan"]["steps"] == []
    back = _data("governors", "restore", "--yes")
    assert back["facts_after"]["DDR"] == "dmc_ondemand at 2112000000"
    runs = json.loads(ork("board", "journal", "--json").stdout)["data"]
    assert [(run["operation"], run["outcome"]) for run in runs] == [("governors", "done")] * 2
    assert all(step["done"] and step["found"] for step in runs[0]["steps"])
    lines = ork("board", "journal").stdout.splitlines()
    assert len(lines) == 2 and "governors restore" in lines[1] and "done" in lines[1]


def test_the_simulated_board_keeps_what_was_written_between_commands() -> None:
    assert _data("irq-affinity", "--yes")["facts_after"] == {
        "interrupt 35": "CPUs 1",
        "interrupt 36": "CPUs 2",
        "interrupt 37": "CPUs 3",
    }
    assert "94 MiB cached" in _data("drop-caches", "--yes")["facts_after"]["memory now"]


def test_reset_sram_and_stuck() -> None:
    assert _data("reset", "--confirm", "rock-5b")["result"]["outcome"] == "done"
    sram = _data("sram")
    assert sram["total_bytes"] == 0 and sram["built_in"] is False and sram["granted_bytes"] is None
    assert _data("stuck") == []
    assert "no program hangs" in ork("board", "stuck", *SIM).stdout


def test_recover_leaves_a_healthy_board_alone_twice() -> None:
    for _ in range(2):
        found = _data("recover")
        assert found == {
            "healthy": True,
            "changed": False,
            "fault": None,
            "rungs": [],
            "needs": None,
            "untested": None,
        }
    assert ork("board", "journal").stdout == "no operation was run yet\n"


@pytest.mark.parametrize(
    ("board", "fault", "code", "says"),
    [
        ("rocket", "", 3, "rocket"),
        ("rk3566", "", 7, "no test job runs on it; what can be seen: load 0 %, no fault in the kernel log"),
        ("rk3566", "", 7, "`ork board reset` resets it without a test job"),
        ("rock-5b", "permission-denied", 4, "permission"),
    ],
)
def test_where_nothing_can_be_tried_recover_says_why_and_touches_nothing(
    board: str, fault: str, code: int, says: str
) -> None:
    assert ork("sim", "start", "--board", board).returncode == 0
    if fault:
        assert ork("sim", "fault", "set", fault).returncode == 0
    answer = ork("board", "recover", "--yes", "--i-know", "recover", *SIM, **NO_TERMINAL)
    assert answer.returncode == code and says in answer.stderr.splitlines()[-1] and not answer.stdout
    assert ork("board", "journal").stdout == "no operation was run yet\n"


def test_a_chip_without_known_programs_is_reset_and_recovered() -> None:
    assert ork("sim", "start", "--board", "rk3566").returncode == 0
    done = _data("reset", "--yes", "--i-know", "reset")
    assert [step["verb"] for step in done["plan"]["steps"]] == ["reset", "healthy"]
    assert done["result"]["outcome"] == "done" and "matmul" not in json.dumps(done)
    assert ork("sim", "fault", "set", "wedge").returncode == 0
    time.sleep(4)  # the driver shows the load of the last whole second, and a core is busy before it is stuck
    found = _data("recover", "--yes", "--i-know", "recover")
    assert found["healthy"] and found["rungs"][-1]["rung"] == "2" and found["untested"] == "rk3566"


def test_recover_takes_yes_with_its_name_and_not_yes_alone() -> None:
    process = _holder(exclusive=False)
    try:
        alone = ork("board", "recover", "--yes", *SIM, **NO_TERMINAL)
        assert alone.returncode == 6 and process.poll() is None
        wrong = ork("board", "recover", "--yes", "--i-know", "reset", *SIM, **NO_TERMINAL)
        assert wrong.returncode == 6 and process.poll() is None
        assert _data("recover", "--yes", "--i-know", "recover")["healthy"] and process.wait(20) != 0
    finally:
        process.terminate()


_HOLDER = """
import sys, time
from orkbench_tui.settings import Settings
from orkbench_tui.target import open_target
with open_target(Settings.load(target="sim")) as target:
    npu = target.open_npu(exclusive={exclusive})
    print("held", flush=True)
    time.sleep(120)
"""


def _holder(exclusive: bool) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER.format(exclusive=exclusive)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_program_of_ours_at_work_is_never_disturbed_by_recover_or_reset() -> None:
    process = _holder(exclusive=True)
    try:
        for words in (("recover",), ("reset", "--confirm", "rock-5b")):
            answer = ork("board", *words, *SIM, **NO_TERMINAL)
            assert answer.returncode == 5 and f"pid {process.pid}" in answer.stderr
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(20)


def test_drain_ends_a_holder_and_then_there_is_nothing_to_do() -> None:
    process = _holder(exclusive=False)
    try:
        plan = _data("drain", "--dry-run")
        assert [step["verb"] for step in plan["steps"]] == ["terminate", "released"]
        assert plan["steps"][0]["subject"] == str(process.pid)
        refused = ork("board", "reset", "--confirm", "rock-5b", *SIM, **NO_TERMINAL)
        assert refused.returncode == 7 and f"pid {process.pid}" in refused.stderr
        assert _data("drain", "--confirm", "rock-5b")["result"]["outcome"] == "done"
        assert process.wait(20) != 0
    finally:
        process.terminate()
    assert _data("drain", "--confirm", "rock-5b")["result"] is None


def test_recover_ends_a_foreign_holder_only_when_told_to() -> None:
    process = _holder(exclusive=False)
    try:
        refused = ork("board", "recover", *SIM, "--json", **NO_TERMINAL)
        data = json.loads(refused.stdout)["data"]
        assert refused.returncode == 6 and not data["healthy"] and "--confirm rock-5b" in data["needs"]
        assert process.poll() is None
        found = _data("recover", "--confirm", "rock-5b")
        assert found["healthy"] and found["rungs"][0]["rung"] == "1" and process.wait(20) != 0
    finally:
        process.terminate()


def test_an_interrupted_operation_is_named_and_resumed(own_home: Path) -> None:
    assert ork("board", "resume", *SIM).stdout == "nothing was interrupted\n"
    _data("governors", "--yes")
    (path,) = (own_home / "xdg_state_home" / "ork" / "journal").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]))
    answer = ork("board", "drop-caches", "--yes", *SIM)
    assert answer.returncode == 7 and "ork board resume" in answer.stderr
    (outcome,) = _data("resume")
    assert outcome["outcome"] == "rolled back"
    assert _data("governors", "--dry-run")["facts"]["NPU"].startswith("rknpu_ondemand")
    assert _data("resume") == []


def test_a_journal_of_a_newer_version_is_refused(own_home: Path) -> None:
    folder = own_home / "xdg_state_home" / "ork" / "journal"
    folder.mkdir(parents=True)
    (folder / "new.jsonl").write_text('{"event": "begin", "version": 2}\n')
    for words in (("drop-caches", "--yes"), ("resume",)):
        answer = ork("board", *words, *SIM)
        assert answer.returncode == 7 and "version 2" in answer.stderr and "newer" in answer.stderr


def _typed(words: tuple[str, ...], answer: bytes) -> tuple[int, str]:
    """Run ``ork`` on a terminal and type an answer to its question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "orkbench_tui.cli.main", *words])
    seen = b""
    asked = False
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
        if not asked and (b"[y/N] " in seen or b" to go on: " in seen):
            asked = True
            os.write(terminal, answer)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "answer", "code"),
    [
        (("drop-caches",), b"y\n", 0),
        (("drop-caches",), b"\n", 7),
        (("reset",), b"rock-5b\n", 0),
        (("reset",), b"y\n", 7),
    ],
)
def test_typed_confirmation(words: tuple[str, ...], answer: bytes, code: int) -> None:
    status, seen = _typed(("board", *words, *SIM), answer)
    assert status == code, seen
    assert (": done" in seen) == (code == 0)


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_stopped_in_the_middle_names_resume_which_puts_the_board_right(signal: str, code: int) -> None:
    before = _data("governors", "--dry-run")["facts"]
    program = (
        "import os, signal, sys, time\n"
        "from orkbench_tui.ops.guard import effects\n"
        "from orkbench_tui.cli import main\n"
        "write, written = effects.BoardEffects.write, []\n"
        "def stopped(self, path, data):\n"
        "    write(self, path, data)\n"
        "    written.append(path)\n"
        "    if len(written) == 2:\n"
        f"        os.kill(os.getpid(), signal.{signal})\n"
        "        time.sleep(10)\n"
        "effects.BoardEffects.write = stopped\n"
        "sys.argv = ['ork', 'board', 'governors', '--yes', '--target', 'sim']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **NO_TERMINAL,
    )
    assert done.returncode == code, done.stderr
    assert "`ork board resume` finishes it or takes it back" in done.stderr and "Traceback" not in done.stderr
    refused = ork("board", "drop-caches", "--yes", *SIM, **NO_TERMINAL)
    assert refused.returncode == 7 and "ork board resume" in refused.stderr
    assert ork("board", "resume", *SIM, **NO_TERMINAL).returncode == 0
    after = _data("governors", "--dry-run")["facts"]
    assert after in (before, _data("governors", "--yes")["facts_after"])


def test_a_journal_that_cannot_be_read_hides_no_other() -> None:
    _data("drop-caches", "--yes")
    folder = locations.state_dir() / "journal"
    (kept,) = folder.glob("*.jsonl")
    head = json.loads(kept.read_text().splitlines()[0])
    newer = folder / "20990101T000000000000-governors-ffff.jsonl"
    newer.write_text(json.dumps({**head, "version": 99}) + "\n")
    shown = ork("board", "journal")
    assert shown.returncode == 7 and "drop-caches" in shown.stdout
    assert newer.name in shown.stderr and shown.stderr.count("\n") == 1
    assert [run["operation"] for run in json.loads(ork("board", "journal", "--json").stdout)["data"]] == [
        "drop-caches"
    ]
    refused = ork("board", "governors", "--yes", *SIM, **NO_TERMINAL)
    assert refused.returncode == 7, "what cannot be read may be an operation that was interrupted"
