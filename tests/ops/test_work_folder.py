"""Folders for work in passing: gone with the block, a leftover after a kill, never touched while their process lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orkbench_tui.ops import work_folder as folders
from orkbench_tui.ops.work_folder import KERNEL, PATCHES, remove_leftovers, work_folder

_HOLD = (
    "import sys\n"
    "from orkbench_tui.ops.work_folder import KERNEL, work_folder\n"
    "with work_folder(KERNEL) as place:\n"
    "    (place / 'sub').mkdir()\n"
    "    (place / 'sub' / 'image').write_bytes(bytes(5000))\n"
    "    print(place, flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def _holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_killed_process_leaves_one_that_is_removed_and_a_live_one_is_not_touched(room: Path) -> None:
    alive, kept = _holder()
    dead, left = _holder()
    try:
        assert remove_leftovers() == []
        dead.kill()
        dead.wait(10)
        found = remove_leftovers()
        assert [(one.path, one.size_bytes, one.removed) for one in found] == [(left.parent, 5000, True)]
        assert not left.parent.exists() and (kept / "sub" / "image").stat().st_size == 5000
        assert remove_leftovers() == []
    finally:
        alive.communicate("")
    assert list(room.iterdir()) == []


def test_one_of_this_process_is_in_use_too_and_goes_with_its_block(room: Path) -> None:
    with pytest.raises(KeyboardInterrupt), work_folder(PATCHES) as place:
        assert place.parent.parent == room and place.parent.name.startswith(PATCHES)
        assert place.parent.stat().st_mode & 0o777 == 0o700
        assert remove_leftovers() == [] and place.is_dir()
        raise KeyboardInterrupt
    assert list(room.iterdir()) == []


def test_what_is_not_ours_stays(room: Path) -> None:
    (room / f"{KERNEL}notes").write_text("a file")
    (room / f"{KERNEL}plain").mkdir()
    (room / "kernel-lock").mkdir()
    (room / "kernel-lock" / "lock").touch()
    (room / f"{KERNEL}link").symlink_to(room / "kernel-lock")
    (room / f"{KERNEL}pipe").mkdir()
    os.mkfifo(room / f"{KERNEL}pipe" / "elsewhere")
    (room / f"{KERNEL}pipe" / "lock").symlink_to("elsewhere")
    before = sorted(room.rglob("*"))
    assert remove_leftovers() == []
    assert sorted(room.rglob("*")) == before


def test_another_user_s_leftover_stays(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (room / f"{KERNEL}x").mkdir()
    (room / f"{KERNEL}x" / "lock").touch()
    with monkeypatch.context() as other:
        other.setattr(folders.os, "getuid", lambda: room.stat().st_uid + 1)
        assert remove_leftovers() == []
    assert [one.removed for one in remove_leftovers()] == [True]


def test_links_in_a_leftover_are_removed_and_what_they_name_stays(room: Path) -> None:
    build = room / "build"
    build.mkdir()
    (build / "Image").write_text("image")
    process, left = _holder()
    (left / "boot").symlink_to(build)
    closed = left / "closed"
    closed.mkdir()
    (closed / "file").touch()
    closed.chmod(0o500)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert [one.removed for one in remove_leftovers()] == [True]
    assert list(room.iterdir()) == [build] and (build / "Image").read_text() == "image"
