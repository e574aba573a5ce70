"""Kernels as a user types them, on the simulated board: leak, patched kernel, reboot, no leak, and back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from orkbench_tui import target
from orkbench_tui.settings import Settings
from tests.conftest import ork

SIM = ("--target", "sim")
NO_TERMINAL = {"stdin": subprocess.DEVNULL}


def _data(*words: str, code: int = 0) -> Any:
    answer = ork(*words, *SIM, "--json", **NO_TERMINAL)
    assert answer.returncode == code, answer.stderr
    return json.loads(answer.stdout)["data"]


def _leaks() -> int:
    """Mappings that an import in domain 1 leaves behind."""
    from orkbench_tui.driver.matmul.formats import INT8

    simulator = target.simulator()
    before = simulator.status()
    assert before is not None
    with target.open_target(Settings.load(target="sim")) as board, board.open_npu() as npu:
        matrix = np.ones((32, 32), np.int8)
        weight = npu.load(INT8, "w", matrix, domain=1, imported=True)
        npu.matmul_int8([weight], rows=4).run()
    after = simulator.status()
    assert after is not None
    return int(after.leaked_mappings - before.leaked_mappings)


def test_the_leak_goes_with_the_patched_kernel_and_comes_back_without_it(tmp_path: Path) -> None:
    assert ork("sim", "start").returncode == 0
    stock = _data("kernel", "status")["running"]
    assert _leaks() > 0
    made = ork("sim", "kernel", str(tmp_path / "k"), "--json")
    release = json.loads(made.stdout)["data"]["release"]
    assert ork("kernel", "plan", str(tmp_path / "k"), *SIM).returncode == 0
    refused = ork("kernel", "deploy", str(tmp_path / "k"), *SIM, **NO_TERMINAL)
    assert refused.returncode == 7 and refused.stderr.rstrip().endswith(f"--confirm 'rock-5b {release}'")
    deployed = _data("kernel", "deploy", str(tmp_path / "k"), "--yes", "--i-know", "deploy")
    assert deployed["result"]["outcome"] == "done"
    assert _data("kernel", "status")["next"]["release"] == release
    assert str(tmp_path / "k") in ork("board", "journal").stdout
    again = ork("kernel", "plan", str(tmp_path / "k"), *SIM)
    assert again.returncode == 7 and "is on trial" not in again.stderr.split("cannot be installed here")[0]
    rebooted = _data("board", "reboot", "--confirm", "rock-5b")
    assert rebooted["facts_after"]["running"] == release
    assert _leaks() == 0
    assert all(check["state"] != "fail" for check in _data("kernel", "check")["checks"])
    assert _data("kernel", "mark-good", "--yes")["result"]["outcome"] == "done"
    assert _data("kernel", "check") == {"on_trial": None, "checks": []}
    back = _data("kernel", "rollback", "--stock", "--confirm", f"rock-5b {stock}")
    assert back["result"]["outcome"] == "done"
    _data("board", "reboot", "--yes", "--i-know", "reboot")
    assert _data("kernel", "status")["running"] == stock
    assert _leaks() > 0
    assert _data("kernel", "rollback")["result"] is None


def test_a_kernel_never_marked_good_is_gone_at_the_next_boot(tmp_path: Path) -> None:
    assert ork("sim", "start").returncode == 0
    stock = _data("kernel", "status")["running"]
    ork("sim", "kernel", str(tmp_path / "k"))
    _data("kernel", "deploy", str(tmp_path / "k"), "--yes", "--i-know", "kernel-deploy")
    _data("board", "reboot", "--confirm", "rock-5b")
    assert _data("kernel", "status")["trial"]["boots"] == "1"
    _data("board", "reboot", "--confirm", "rock-5b")
    after = _data("kernel", "status")
    assert (after["running"], after["trial"]) == (stock, None)


def test_a_board_that_would_not_come_up_is_not_rebooted() -> None:
    assert ork("sim", "start").returncode == 0
    assert ork("sim", "fault", "set", "boot-image-broken").returncode == 0
    assert _data("kernel", "status")["next"]["faults"]
    refused = ork("board", "reboot", "--confirm", "rock-5b", *SIM, **NO_TERMINAL)
    assert refused.returncode == 7 and "cut short" in refused.stderr
    assert ork("sim", "fault", "clear", "boot-image-broken").returncode == 0
    assert _data("kernel", "status")["next"]["faults"] == []


def test_words_that_are_wrong_are_told_in_one_line(tmp_path: Path) -> None:
    for words, code, said in (
        (("kernel", "deploy", str(tmp_path / "none")), 2, "neither a folder nor a file"),
        (("kernel", "deploy", str(tmp_path)), 1, "no kernel image"),
        (("kernel", "rollback"), 7, "no kernel was installed by ork"),
    ):
        answer = ork(*words, *SIM, **NO_TERMINAL)
        assert (answer.returncode, answer.stderr.count("error:")) == (code, 1), answer.stderr
        assert said in answer.stderr
    assert ork("sim", "kernel", str(tmp_path)).returncode == 2
    assert "to rehearse" in ork("sim", "kernel", str(tmp_path / "k"), "--patches", "speed").stderr
    package = tmp_path / "a.deb"
    package.write_bytes(b"!<arch>\nnot a package")
    answer = ork("kernel", "deploy", str(package), *SIM, **NO_TERMINAL)
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1


def test_the_leak_is_counted_by_domains_and_reported(tmp_path: Path) -> None:
    found = _data("kernel", "leak", "--domains", "1,3")
    one, three = (run["warnings"] for run in found["runs"])
    assert one == 0 and three >= 2 and found["before_failure"] == 2
    for name, warnings in (("a", 2), ("b", 0)):
        found["runs"][1]["warnings"] = warnings
        found["kernel"] = name
        (tmp_path / name).write_text(json.dumps({"data": found}))
    table = ork("kernel", "leak", "--compare", str(tmp_path / "a"), "--compare", str(tmp_path / "b"))
    assert table.stdout.splitlines()[-1] == "it differs by kernel"
    text = ork("kernel", "leak", "--report", "--domains", "2", *SIM).stdout
    assert text.startswith("# Imports outside domain 0") and "| 2 | 2 | " in text and " | ended |" in text
    assert ork("kernel", "leak", "--domains", "0", *SIM).returncode == 2
    assert ork("kernel", "leak", "--compare", str(tmp_path / "none")).returncode == 2
