"""One setting changed in the file: every other byte stays, and what cannot be done leaves the file as it was."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.settings import Settings
from orkbench_tui.settings_file import changed_text, read_settings, save_setting

KEPT = '# mine\ntheme = "dark"   # at night\n\nsomething_else = [1, 2]  # not ours\n"refresh_s" = 2.0\r\n'


def _row(path: Path, name: str, **environment: str) -> tuple[object, str, str]:
    row = next(row for row in read_settings(path, environment).rows if row.name == name)
    return row.value, row.origin, row.fault


def test_a_change_touches_its_value_alone() -> None:
    assert changed_text(KEPT, "theme", "light") == KEPT.replace('"dark"', '"light"')
    assert changed_text(KEPT, "refresh_s", 0.5) == KEPT.replace("2.0", "0.5")
    assert changed_text(KEPT, "threads", 4) == KEPT + "threads = 4\n"
    assert changed_text("theme = 'dark'", "threads", 4) == "theme = 'dark'\nthreads = 4\n"


def test_removing_keeps_the_comment_behind_the_value() -> None:
    after = changed_text(KEPT, "theme", None)
    assert "# at night\n" in after and "theme" not in after
    assert changed_text("", "theme", None) == ""


def test_a_key_is_never_put_into_a_table() -> None:
    after = changed_text("[other]\ntheme = 3\n", "theme", "light")
    assert tomllib.loads(after) == {"theme": "light", "other": {"theme": 3}}


@pytest.mark.parametrize(
    "text", ['theme = """\ndark"""\n', "theme = '''dark'''\n", "theme = [\n1]\n", "theme = \n"]
)
def test_what_one_line_does_not_hold_is_refused(text: str) -> None:
    with pytest.raises(InvalidFileError, match=r"several lines|no TOML"):
        changed_text(text, "theme", "light")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_as_it_was_given(value: str) -> None:
    after = changed_text(KEPT.replace("theme", "model"), "model", value)
    assert tomllib.loads(after)["model"] == value
    assert "# at night" in after and "something_else" in after


def test_saved_is_what_the_commands_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    save_setting(path, "theme", "light")
    save_setting(path, "context", 512)
    loaded = Settings.load(config=path, environment={})
    assert (loaded.theme, loaded.context) == ("light", 512)
    assert _row(path, "theme") == ("light", "file", "") and _row(path, "quant")[1] == "default"
    assert [item.name for item in path.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("name", "value"), [("theme", "pink"), ("context", 3), ("refresh_s", "fast"), ("refresh_s", float("nan"))]
)
def test_a_value_outside_its_range_is_not_written(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "config.toml"
    path.write_text(KEPT)
    with pytest.raises(UsageError, match=r"allowed|expected"):
        save_setting(path, name, value)
    assert path.read_bytes() == KEPT.encode()


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "config.toml"
    real.write_text(KEPT)
    real.chmod(0o640)
    link.symlink_to(real)
    save_setting(link, "theme", "light")
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640 and '"light"' in real.read_text()


def test_a_write_that_fails_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text(KEPT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OrkError, match="no space"):
        save_setting(path, "theme", "light")
    assert path.read_bytes() == KEPT.encode() and len(list(tmp_path.iterdir())) == 1


def test_a_bad_file_is_shown_and_not_raised(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('theme = "pink"\nthreds = 3\ncontext = 64\n')
    picture = read_settings(path, {"ORK_CONTEXT": "many", "ORK_THEME": "light"})
    assert picture.unknown == ("threds",) and picture.fault == ""
    assert _row(path, "theme")[::2] == ("pink", "allowed: dark, light")
    assert _row(path, "theme", ORK_THEME="light") == (
        "light",
        "environment",
        "in the file: allowed: dark, light",
    )
    assert "not a number" in _row(path, "context", ORK_CONTEXT="many")[2]
    save_setting(path, "theme", "dark")
    assert _row(path, "theme") == ("dark", "file", "") and "threds = 3" in path.read_text()
    for content in (b"theme = [", b"\xff\xfe", b"x" * (2 << 20)):
        path.write_bytes(content)
        assert read_settings(path, {}).fault
        with pytest.raises(OrkError):
            save_setting(path, "theme", "light")
        assert path.read_bytes() == content
    assert read_settings(tmp_path, {}).fault and read_settings(tmp_path / "none", {}).fault == ""
