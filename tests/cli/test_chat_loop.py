"""The chat's own files, driven line by line over a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orkbench_tui.cli.chat_loop import ChatLoop
from orkbench_tui.cli.chat_session import ChatSession
from orkbench_tui.cli.model_session import ModelSession
from tests.cli.test_chat_session import talk, tiny
from tests.cli.test_prompt_file import session_of

__all__ = ["tiny"]


class Lines:
    """Lines as if typed one after the other, then Ctrl-D."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def read(self, prompt: str) -> str:
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        if line == "^C":
            raise KeyboardInterrupt
        return line

    def abandoned(self) -> str:
        return ""

    def more_waiting(self) -> bool:
        return False

    def remember(self, text: str) -> None:
        pass


def chat(model: Path, *lines: str, kept: Path | None = None) -> None:
    @contextmanager
    def opened() -> Iterator[ModelSession]:
        yield session_of(model)

    ChatLoop(opened, talk, Lines(*lines), ChatSession(kept)).run()


def test_save_and_load(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my chat"
    chat(tiny, "the rain", f"/save {path}", "/reset", "/stats", f"/load {path}", "and the wind", "/stats")
    said = capsys.readouterr()
    assert f"2 messages in {path}" in said.out
    assert f"2 messages from {path}" in said.out
    first, second = (part for part in said.out.split("context    ")[1:])
    assert first.startswith("0 of")
    assert not second.startswith("0 of")
    assert "answers    2" in second
    assert "error" not in said.err


def test_a_kept_conversation_is_greeted_and_kept_however_it_is_left(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chat"
    for number, leaving in enumerate((("/exit",), (), ("^C", "^C"))):
        chat(tiny, "the rain", *leaving, kept=path)
        notes = capsys.readouterr().err
        assert ("goes on after" in notes) == (number > 0)
    chat(tiny, "/save", kept=path)
    said = capsys.readouterr()
    assert "goes on after 3 questions" in said.err
    assert f"6 messages in {path}" in said.out


def test_a_file_that_is_refused_ends_the_chat_before_it_begins(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear all")
    with pytest.raises(Exception, match="not a kept conversation"):
        chat(tiny, "the rain", kept=tmp_path / "letter")
    assert (tmp_path / "letter").read_text() == "dear all"
