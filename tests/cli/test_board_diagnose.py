"""``ork board diagnose``, ``bundle`` and ``doctor`` as a user types them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.conftest import ork

DATA = Path(__file__).parents[1] / "data"
CASES = DATA / "cases" / "br"


def test_a_case_folder() -> None:
    answer = ork("board", "diagnose", str(CASES / "BR-011"), "--json")
    document = json.loads(answer.stdout)
    assert (
        answer.returncode == 6
        and document["schema"] == "ork.board.diagnose/1"
        and document["source"] == "replay"
    )
    first = document["data"][0]
    assert list(first) == ["class", "severity", "title", "evidence", "advice", "refuse", "facts"]
    assert first["class"] == "domain-switch-timeout" and first["facts"]["domain_ids"] == [1]
    text = ork("board", "diagnose", str(CASES / "BR-011"))
    assert text.returncode == 6 and text.stdout.startswith("1. HIGH domain-switch-timeout:")
    assert all(len(line) <= 80 for line in text.stdout.splitlines())


def test_several_files_are_one_capture_and_stdin_is_one() -> None:
    case = CASES / "BR-013"
    answer = ork(
        "board",
        "diagnose",
        *[str(case / f"input.{name}.txt") for name in ("dmesg", "fds", "meminfo")],
        "--json",
    )
    assert answer.returncode == 6 and json.loads(answer.stdout)["data"][0]["facts"]["holder_pids"] == [
        812,
        955,
    ]
    piped = ork("board", "diagnose", "-", input=(DATA / "samples" / "dmesg-reset-storm.txt").read_text())
    assert piped.returncode == 6 and "reset-storm" in piped.stdout.splitlines()[0]


def test_healthy_is_zero_and_nothing_usable_is_two(tmp_path: Path) -> None:
    assert ork("board", "diagnose", str(CASES / "BR-056")).returncode == 0
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 20)
    for words in ((str(tmp_path),), ("/nonexistent",), (str(tmp_path / "x.bin"),)):
        answer = ork("board", "diagnose", *words)
        assert answer.returncode == 2 and answer.stdout == "", answer
        assert len([line for line in answer.stderr.splitlines() if line.startswith("error: ")]) == 1


def test_the_runner_tells_which_tokenizers_it_knows(tmp_path: Path) -> None:
    kv = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "no-such-pre", "tokenizer.chat_template": "x"}
    path = tmp_path / "gguf.json"
    path.write_text(json.dumps({"given": "m.gguf", "header": {"magic": "GGUF", "version": 3, "kv": kv}}))
    data = json.loads(ork("board", "diagnose", str(path), "--json").stdout)["data"]
    assert data[0]["class"] == "tokenizer-unknown" and "smollm" in " ".join(data[0]["advice"])


def test_the_simulated_board_to_bundle_to_verdict(tmp_path: Path) -> None:
    live = ork("board", "diagnose", "--target", "sim", "--json")
    assert live.returncode == 0, live.stdout
    assert (
        json.loads(live.stdout)["data"][0]["class"] == "healthy"
        and json.loads(live.stdout)["source"] == "sim"
    )
    for name in ("bundle", "bundle.tar.gz"):
        path = tmp_path / name
        made = ork("board", "bundle", str(path), "--target", "sim")
        assert made.returncode == 0, made.stderr
        assert ork("board", "bundle", str(path), "--target", "sim").returncode == 7
        again = ork("board", "diagnose", str(path), "--json")
        assert again.returncode == 0 and json.loads(again.stdout)["data"] == json.loads(live.stdout)["data"]
    text = "".join(path.read_text() for path in (tmp_path / "bundle").iterdir())
    assert "1f2e3d4c5b6a7988" not in text and "6a1c2a3e-1d52" not in text and "<uuid-1>" in text


def test_doctor_on_the_simulated_board() -> None:
    answer = ork("board", "doctor", "--target", "sim", "--json")
    data = json.loads(answer.stdout)["data"]
    rows = {row["id"]: row for row in data["checks"]}
    assert answer.returncode == (0 if data["fit"] else 1)
    assert rows["cpu.clocks"]["status"] == "fail" and rows["npu.clock"]["status"] == "ok"
    assert rows["double.residency"]["status"] == "unknown" and len(rows) == 25


@pytest.mark.parametrize("words", [("diagnose",), ("doctor",)])
def test_a_machine_without_npu_is_looked_at_when_asked_for(words: tuple[str, ...], tmp_path: Path) -> None:
    environment = {"ORK_BOARD_ROOT": str(tmp_path)}
    import os

    answer = ork("board", *words, "--target", "board", "--json", env={**os.environ, **environment})
    assert answer.returncode in (1, 6, 0), answer.stderr
    if words == ("diagnose",):
        assert json.loads(answer.stdout)["data"][0]["class"] == "driver-missing" and answer.returncode == 6


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("wedge", "npu-job-timeout"),
        ("hard-wedge", "power-domain-failure"),
        ("iova-leak", "iommu-unmap-leak"),
        ("hot", "thermal-throttle"),
        ("parked-governor", "governor-not-max"),
        ("permission-denied", "permission-denied"),
        ("old-driver", "driver-too-old"),
        ("process-stuck-D", "process-stuck-D"),
        ("boot-image-broken", "kernel-image-invalid"),
    ],
)
def test_faults_of_the_simulated_board_are_named(fault: str, kind: str) -> None:
    assert ork("sim", "start").returncode == 0
    assert ork("sim", "fault", "set", fault).returncode == 0
    # The driver shows the load of the last whole second, and a core is busy before it is stuck.
    end_s = time.monotonic() + (15 if fault == "wedge" else 0)
    answer = ork("board", "diagnose", "--target", "sim", "--json")
    while answer.returncode == 0 and time.monotonic() < end_s:
        answer = ork("board", "diagnose", "--target", "sim", "--json")
    assert answer.returncode == 6 and json.loads(answer.stdout)["data"][0]["class"] == kind
