"""The picture for documents is the app itself."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.screens.picture import save_picture
from tests.ops.fake_board import FakeBoard


def test_a_picture_shows_the_board(tmp_path: Path) -> None:
    board = FakeBoard()
    path = tmp_path / "picture.svg"
    save_picture(
        lambda: board, tmp_path, path, seconds=20, interval_s=0.2, ready=lambda s: s.cores[0].busy_pct is None
    )
    text = path.read_text().replace("&#160;", " ")
    assert text.startswith("<svg") and "rock-5b" in text and "core 2" in text and "100 %" in text
