"""The lock names its holder and goes with it."""

import os
import subprocess
import sys

import pytest

from orkbench_tui.driver.exclusive import DeviceLock
from orkbench_tui.errors import BusyError, ExitCode, OrkError

_HOLDER = """
import sys
from pathlib import Path
from orkbench_tui.driver.exclusive import DeviceLock
lock = DeviceLock(Path(sys.argv[1]), "npu")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_told_who_holds_the_npu(tmp_path):
    path = tmp_path / "npu.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BusyError, match=f"pid {holder.pid}") as caught:
        DeviceLock(path, "/dev/dri/card1")
    assert caught.value.exit_code is ExitCode.BUSY
    assert "\n" not in caught.value.line()
    holder.kill()
    holder.communicate()
    DeviceLock(path, "/dev/dri/card1").close()


def test_closing_frees_the_lock_and_the_name(tmp_path):
    path = tmp_path / "deep" / "npu.lock"
    lock = DeviceLock(path, "npu")
    assert str(os.getpid()) in path.read_text()
    lock.close()
    lock.close()
    assert path.read_text() == ""
    DeviceLock(path, "npu").close()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("keep")
    (tmp_path / "npu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="cannot open the NPU lock"):
        DeviceLock(tmp_path / "npu.lock", "npu")
    assert (tmp_path / "elsewhere").read_text() == "keep"


def test_the_first_owner_does_not_shut_others_out_by_the_umask(tmp_path):
    old = os.umask(0o077)
    try:
        DeviceLock(tmp_path / "npu.lock", "npu").close()
    finally:
        os.umask(old)
    assert (tmp_path / "npu.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize(
    "record",
    [
        '{"pid": 7, "command": "x", "since": 1e300}',
        '{"pid": 7, "command": "x", "since": NaN}',
        '{"pid": 7, "command": "x", "since": -Infinity}',
        '{"pid": 1e400, "command": "x", "since": 1}',
        '{"pid": -1, "command": "x", "since": 1}',
        '{"pid": 7, "command": "\\u001b[2J' + "y" * 3000 + '", "since": 1}',
        "[" * 4096,
    ],
)
def test_a_lock_with_a_record_nobody_can_have_written_is_told_plainly(tmp_path, record):
    path = tmp_path / "npu.lock"
    held = DeviceLock(path, "npu")
    path.write_text(record)
    with pytest.raises(BusyError) as caught:
        DeviceLock(path, "npu")
    assert len(caught.value.line()) < 400 and "\x1b" not in caught.value.line()
    held.close()


def test_a_file_in_the_place_of_the_locks_folder_is_named(tmp_path):
    (tmp_path / "ork").write_text("")
    with pytest.raises(OrkError, match=r"ork"):
        DeviceLock(tmp_path / "ork" / "npu.lock", "npu")
