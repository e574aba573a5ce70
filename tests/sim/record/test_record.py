"""A program's run is kept, decoded, run again and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.errors import ExitCode, InvalidFileError
from orkbench_tui.sim.record.events import packed, read_events, unpacked
from orkbench_tui.sim.record.replay import replay
from tests.sim.preload.test_exec import ork, programs

__all__ = ["programs"]


@pytest.fixture
def record(runtime_dir: Path, programs: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run.orkrec"
    assert ork("sim", "exec", "--record", str(path), str(programs / "heap_import")).returncode == 0
    return path


def test_calls_tasks_words_and_memory_are_kept(record: Path) -> None:
    head, *events = read_events(record)
    assert (head["board"], head["driver"]) == ("rock-5b", "0.9.8")
    submits = [event for event in events if event["kind"] == "submit"]
    assert len(submits) == 2
    assert len(submits[0]["tasks"]) == 1
    assert len(submits[0]["programs"][0]["words"]) == 112
    assert submits[0]["results"], "the job changed C"
    assert [event["kind"] for event in events if event["kind"].startswith("heap")] == ["heap", "heap-release"]


def test_the_decoder_reads_it(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "regcmd", "decode", str(record), "--json"]) == 0
    operations = [program["operation"] for program in json.loads(capsys.readouterr().out)["data"]["programs"]]
    assert [(one["m"], one["k"], one["n"]) for one in operations] == [(4, 32, 32)] * 2


def test_a_replay_compares_every_result(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "replay", str(record), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["same"] is True
    assert data["submits"] == 2
    assert data["results"] >= 2
    assert data["predicted_ns"] > 0


def test_a_changed_operand_is_found(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = record.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if '"kind": "submit"' in line)
    event = json.loads(lines[at])
    for change in event["memory"]:
        data = bytearray(unpacked(change["data"], 1 << 20))
        if len(data) == 4096 and change["side"] == "device" and any(data[:128]) and not any(data[128:]):
            data[0] ^= 0x55
            change["data"] = packed(bytes(data))
    lines[at] = json.dumps(event)
    record.write_text("\n".join(lines) + "\n")
    assert run(["sim", "replay", str(record)]) == ExitCode.INCONSISTENT
    assert "submit 1: other bytes in the buffer" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "words",
        '{"format": "ork-sim-record", "version": 99}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "toaster"}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b", "driver": "9.9"}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n{"kind": "dance"}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n{"kind": "submit", "file": 0}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n{"kind": "submit", "memory": [{"object": 1}]}\n',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n{"kind": "ioctl", "fi',
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n' + "[" * 100_000 + "\n",
        '{"format": "ork-sim-record", "version": 1, "board": "rock-5b"}\n{"kind": ["x"], "file": ["x"]}\n',
        "\0\ufffd" * 2000,
    ],
)
def test_what_is_no_record_is_an_invalid_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.orkrec"
    path.write_text(text)
    with pytest.raises(InvalidFileError):
        replay(path)


def test_memory_cannot_be_larger_than_its_buffer() -> None:
    assert unpacked(packed(b"abc"), 3) == b"abc"
    with pytest.raises(ValueError, match="over 2 bytes"):
        unpacked(packed(b"abc"), 2)


def test_a_record_that_cannot_be_written_is_refused(runtime_dir: Path) -> None:
    assert ork("sim", "exec", "--record", "/no/such/folder/x", "true").returncode == ExitCode.USAGE
