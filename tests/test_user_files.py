"""Files a user names: only regular ones, and only so many bytes."""

import io
import os

import pytest

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import open_regular, read_bounded, read_text_bounded


@pytest.mark.parametrize(
    "make", ["mkdir", "mkfifo", "/dev/zero", "loop", "nothing", "below a file", "", "a\0b"]
)
def test_what_is_no_file_is_refused_at_once(make, tmp_path):
    path = tmp_path / "x"
    if make == "mkdir":
        path.mkdir()
    elif make == "mkfifo":
        os.mkfifo(path)
    elif make == "loop":
        path.symlink_to(path)
    elif make == "below a file":
        path.write_text("")
        path = path / "y"
    elif make.startswith("/"):
        path.symlink_to(make)
    named = make if make in ("", "a\0b") else path
    with pytest.raises((UsageError, InvalidFileError)):
        open_regular(named, "text file")


def test_a_limit_counts_bytes_and_says_so():
    assert read_bounded(io.BytesIO(b"x" * 10), 10, "it") == b"x" * 10
    with pytest.raises(UsageError, match="allowed: up to"):
        read_bounded(io.BytesIO(b"x" * 11), 10, "it")


def test_text_that_is_none_names_the_byte(tmp_path):
    (tmp_path / "t").write_bytes(b"ab\xff")
    with pytest.raises(UsageError, match="byte 2"):
        read_text_bounded(tmp_path / "t", 100, "text file")


@pytest.mark.parametrize("make", ["mkdir", "mkfifo", "/dev/zero", "loop"])
def test_settings_that_are_no_file_are_not_ignored(make, tmp_path):
    path = tmp_path / "config.toml"
    if make == "mkdir":
        path.mkdir()
    elif make == "mkfifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path if make == "loop" else make)
    with pytest.raises(UsageError, match=r"config\.toml"):
        Settings.load(config=path, environment={})


def test_settings_without_end_of_brackets(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(UsageError):
        Settings.load(config=path, environment={})


def test_an_own_place_that_cannot_be_used_names_its_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    path = tmp_path.__class__("/dev/null/ork/packs")
    with pytest.raises(OSError) as found:
        path.mkdir(parents=True)
    error = own_file_error(found.value, path, "weight packs")
    assert isinstance(error, DeniedError) and "set XDG_CACHE_HOME" in error.line()
    full = own_file_error(OSError(28, "No space left on device"), path, "weight packs")
    assert isinstance(full, NoMemoryError)


def test_relative_base_folders_are_ignored(monkeypatch, tmp_path):
    from orkbench_tui import locations

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("XDG_RUNTIME_DIR", ".")
    assert locations.models_dir() == tmp_path / ".cache/ork/models"
    assert locations.runtime_dir().is_absolute()
