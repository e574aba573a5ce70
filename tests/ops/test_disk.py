"""A board's disk at a folder: links stay inside, mounts are read, effects are one call each."""

from __future__ import annotations

from pathlib import Path

import pytest

from orkbench_tui.ops.disk import HostDisk, Kind, file_system_of, files_below, tree_digest

MOUNTS = "/dev/nvme0n1p1 / ext4 rw 0 0\n/dev/mmcblk0p1 /boot vfat ro,relatime 0 0\n/dev/sda /boot\\040two ext4 rw 0 0\n"


@pytest.fixture
def disk(tmp_path: Path) -> HostDisk:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/a").write_bytes(b"kernel")
    (tmp_path / "boot/Image").symlink_to("a")
    (tmp_path / "boot/out").symlink_to("/etc/passwd")
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/modules").mkdir(parents=True)
    (tmp_path / "mounts").write_text(MOUNTS)
    return HostDisk(str(tmp_path), str(tmp_path / "mounts"))


def test_the_mount_a_path_lies_on() -> None:
    assert file_system_of(MOUNTS, "/boot/x") == ("vfat", "/boot", True)
    assert file_system_of(MOUNTS, "/bootx") == ("ext4", "/", False)
    assert file_system_of(MOUNTS, "/boot two/x")[1] == "/boot two"
    assert file_system_of("", "/boot")[0] == "unknown"


def test_links_are_followed_inside_the_root(disk: HostDisk, tmp_path: Path) -> None:
    assert disk.kind("/boot/Image") is Kind.LINK and disk.read("/boot/Image", 99) == b"kernel"
    assert disk.readlink("/boot/Image") == "a" and disk.readlink("/boot/a") is None
    with pytest.raises(FileNotFoundError):
        disk.read("/boot/out", 99)
    disk.make_folder("/lib/modules/6.1")
    assert (tmp_path / "usr/lib/modules/6.1").is_dir() and disk.list("/lib/modules") == ["6.1"]
    (tmp_path / "boot/loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        disk.read("/boot/loop", 1)


def test_new_files_are_new_and_have_their_mode(disk: HostDisk, tmp_path: Path) -> None:
    disk.create("/boot/x.sh", b"#!/bin/sh\necho $ROOT $1\nexit 3\n", 0o755)
    assert disk.mode("/boot/x.sh") == 0o755
    with pytest.raises(FileExistsError):
        disk.create("/boot/x.sh", b"", 0o644)
    assert disk.run_script("/boot/x.sh", "--dry-run") == (3, f"{tmp_path} --dry-run\n")
    disk.sync_file("/boot/x.sh")
    disk.sync_folder("/boot")
    disk.rename("/boot/x.sh", "/boot/a")
    assert disk.read("/boot/Image", 9) == b"#!/bin/sh"


def test_a_digest_of_a_folder_sees_content_names_and_links(disk: HostDisk) -> None:
    first = tree_digest(files_below(disk, "/boot"))
    disk.link("a", "/boot/new")
    second = tree_digest(files_below(disk, "/boot"))
    disk.remove("/boot/new")
    disk.link("b", "/boot/new")
    assert len({first, second, tree_digest(files_below(disk, "/boot"))}) == 3


def test_a_disk_may_say_how_full_it_is(disk: HostDisk, tmp_path: Path) -> None:
    assert disk.file_system("/boot").type == "vfat" and not disk.file_system("/boot").has_links
    (tmp_path / "boot/.statvfs").write_text("1234")
    assert disk.file_system("/boot").free_bytes == 1234


def test_a_pipe_under_a_boot_file_s_name_is_no_file(disk: HostDisk, tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "boot/pipe")
    assert disk.kind("/boot/pipe") is Kind.OTHER
    with pytest.raises(OSError, match="no regular file"):
        disk.read("/boot/pipe", 1)
