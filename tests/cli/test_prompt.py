"""The file of earlier questions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orkbench_tui.cli import prompt


def test_history_keeps_questions_of_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history.jsonl"
    lines = prompt.Prompt(file)
    for text in ("one", "two\nlines — ü", "two\nlines — ü", "one"):
        lines.remember(text)
    assert prompt._load(file) == ["one", "two\nlines — ü", "one"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_damaged_lines_are_passed_over_and_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("{\n3\n\xff\n" + '"q"\n' * (2 * prompt.HISTORY_ENTRIES) + '"last"\n')
    entries = prompt._load(file)
    assert entries[-1] == "last"
    assert len(entries) == prompt.HISTORY_ENTRIES
    assert len(file.read_text().splitlines()) == prompt.HISTORY_ENTRIES


def test_a_pipe_in_the_files_place_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history.jsonl")
    assert prompt._load(tmp_path / "history.jsonl") == []
    prompt.Prompt(tmp_path / "history.jsonl").remember("one")
    # With a reader at its other end it could be written, and still is not.
    reader = os.open(tmp_path / "history.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    prompt._append(tmp_path / "history.jsonl", "two")
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_huge_history_costs_its_oldest_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(f'"entry {number}"\n' for number in range(100)))
    monkeypatch.setattr(prompt, "HISTORY_BYTES", 100)
    entries = prompt._load(file)
    assert entries[-1] == "entry 99"
    assert 2 <= len(entries) <= 10
    assert file.stat().st_size <= 110


def test_no_file_is_no_history(tmp_path: Path) -> None:
    assert prompt._load(None) == prompt._load(tmp_path / "none") == []


def test_a_history_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prompt.Prompt(tmp_path / "file" / "history.jsonl").remember("one")
