"""``ork board watch --alerts`` and ``--until-alert`` on the simulated board."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.conftest import ork

WATCH = ("board", "watch", "--target", "sim", "--interval", "0.2")


def test_until_alert_ends_with_its_own_code_and_runs_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = tmp_path / "hook.py"
    program.write_text(f"import os; open({str(out)!r}, 'a').write(os.environ['ORKBENCH_ALERT'] + '\\n')\n")
    assert ork("sim", "start").returncode == 0
    assert ork("sim", "fault", "set", "wedge").returncode == 0
    answer = ork(
        *WATCH, "--until-alert", "--count", "200", "--alert-command", f"{sys.executable} {program}",
        env={**os.environ, "ORK_ALERT_STUCK_S": "2"},
    )  # fmt: skip
    assert answer.returncode == 10, answer.stderr
    last = answer.stdout.splitlines()[-1]
    assert "ALERT critical  npu.wedged: an NPU core is busy" in last and "ork board recover" in last
    assert out.read_text() == "npu.wedged\n"


def test_alerts_are_in_the_documents() -> None:
    answer = ork(*WATCH, "--json", "--alerts", "--count", "2")
    assert answer.returncode == 0, answer.stderr
    for line in answer.stdout.splitlines():
        assert set(json.loads(line)["data"]["alerts"]) == {"active", "events"}


def test_without_an_alert_the_count_is_the_end() -> None:
    answer = ork(
        *WATCH, "--until-alert", "--count", "2", env={**os.environ, "ORK_ALERT_TEMPERATURE_C": "149"}
    )
    assert answer.returncode in (0, 10) and "ALERT" not in answer.stdout.splitlines()[0]
    assert ork(*WATCH, "--alert-command", "'").returncode == 2
    assert ork(*WATCH, env={**os.environ, "ORK_ALERT_STUCK_S": "1"}).returncode == 2
