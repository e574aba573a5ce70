"""The settings page: shows, checks in place, saves, and survives a bad file."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.text_line import plain
from orkbench_tui.settings import Settings
from tests.screens.feed import quiet_app


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "ork" / "config.toml"
    path.parent.mkdir()
    return path


def shown(app: OrkApp) -> str:
    page = app.page("settings")
    assert page is not None
    return "\n".join(plain(item).rstrip() for item in page.body.lines)


async def opened(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press("e", *keys)
    await pilot.pause()
    await pilot.pause()


async def to(pilot: Pilot[None], app: OrkApp, name: str) -> None:
    await pilot.press("g")
    for _ in range(60):
        await pilot.pause()
        if f"\n {name} = " in shown(app):
            return
        await pilot.press("j")
    raise AssertionError(shown(app))


async def test_every_setting_is_reached_with_value_origin_range_and_meaning(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("context = 512\n")
    monkeypatch.setenv("ORK_THREADS", "3")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        for name, field in Settings.__dataclass_fields__.items():
            page = shown(app)
            assert f"\n {name} = " in page and "allowed: " in page
            assert field.metadata["doc"].split()[0] in page
            if field.metadata["choices"]:
                assert ", ".join(field.metadata["choices"][:2]) in page
            await pilot.press("j")
        await to(pilot, app, "context")
        assert "▶ context             512" in shown(app) and "from the file below" in shown(app)
        await to(pilot, app, "threads")
        assert "ORK_THREADS in the environment" in shown(app) and "file: /" in shown(app)


async def test_a_wrong_value_stays_open_and_a_right_one_is_saved(config: Path) -> None:
    config.write_text("# mine\ncontext = 512 # small\n")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "context")
        await pilot.press("enter", "ctrl+u", *"3", "enter")
        await pilot.pause()
        assert "allowed: 16 to 1048576; context = 3" in shown(app)
        assert config.read_text() == "# mine\ncontext = 512 # small\n"
        await pilot.press("ctrl+u", *"many", "enter")
        await pilot.pause()
        assert "context = many" in shown(app) and "whole number" in shown(app)
        await pilot.press("ctrl+u", *"4096", "enter")
        await pilot.pause()
        assert "saved context = 4096" in shown(app)
        assert config.read_text() == "# mine\ncontext = 4096 # small\n"
        await pilot.press("d")
        await pilot.pause()
        assert config.read_text() == "# mine\n# small\n" and "2048" in shown(app)


async def test_choices_go_by_arrows_and_escape_cancels(config: Path) -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "theme")
        await pilot.press("enter", "down", "escape")
        await pilot.pause()
        assert "theme was not changed" in shown(app) and not config.exists()
        await pilot.press("enter", "down", "enter")
        await pilot.pause()
        assert config.read_text() == 'theme = "light"\n'


async def test_what_the_environment_says_still_holds_and_that_is_told(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORK_THEME", "dark")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "theme")
        await pilot.press("enter", "up", "enter")
        await pilot.pause()
        assert "ORK_THEME in the environment still overrules" in shown(app)
        assert config.read_text() == 'theme = "light"\n'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"theme = [", "no TOML"),
        (b"\xff", "byte 0"),
        (b"thene = 3\n", "thene"),
        (b"theme = 'pink'\n", "dark, light"),
    ],
)
async def test_a_bad_file_is_shown(config: Path, content: bytes, told: str) -> None:
    config.write_bytes(content)
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        page = " ".join(shown(app).split())
        assert told in page and "no command starts until" in page
        unread = told in ("no TOML", "byte 0")
        assert ("file not read" in page) is unread and (
            f"of {len(Settings.__dataclass_fields__)} set" in page
        ) is not unread
        if told in ("no TOML", "byte 0"):
            await pilot.press("enter")
            await pilot.pause()
            assert "not changed here" in shown(app)
            await pilot.press("d")
            await pilot.pause()
            assert "is not in the file" in shown(app)
        assert config.read_bytes() == content


async def test_an_unknown_key_is_named_with_the_likely_one_and_saving_does_not_promise_what_cannot_hold(
    config: Path,
) -> None:
    config.write_text("thene = 3\n")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        page = " ".join(shown(app).split())
        assert "there is no setting thene, perhaps theme is meant" in page
        await to(pilot, app, "theme")
        await pilot.press("enter", "down", "enter")
        await pilot.pause()
        assert config.read_text() == 'thene = 3\ntheme = "light"\n'
        assert "no command starts yet" in shown(app) and "holds for what is started" not in shown(app)
        config.write_text('theme = "light"\n')
        await pilot.press("enter", "up", "enter")
        await pilot.pause()
        assert "holds for what is started" in shown(app) and "no setting" not in shown(app)


async def test_more_trouble_than_fits_says_that_there_is_more(config: Path) -> None:
    config.write_text("".join(f"unknown_{number} = 1\n" for number in range(9)))
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert "no setting unknown_0" in shown(app) and "and more: mend these first" in shown(app)
        assert "\n target = " in shown(app)


async def test_an_unread_file_keeps_what_the_environment_sets(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("theme = [")
    monkeypatch.setenv("ORK_THREADS", "3")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert "file not read, 1 set by the environment" in shown(app)


async def test_a_folder_that_cannot_be_written_is_told(config: Path) -> None:
    config.parent.rmdir()
    config.parent.write_text("a file")
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "theme")
        await pilot.press("enter", "down", "enter")
        await pilot.pause()
        assert "not saved" in shown(app) and "in the way" in " ".join(shown(app).split())
        assert config.parent.read_text() == "a file"


async def test_upstream_variables_that_set_nothing_are_told(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orkbench_tui.upstream_variables import UPSTREAM_VARIABLES, Danger

    bad = next(variable for variable in UPSTREAM_VARIABLES.values() if variable.danger is Danger.CORRUPTS)
    monkeypatch.setenv(bad.name, "1")
    app = quiet_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await opened(pilot)
        page = app.page("settings")
        assert page is not None
        roles = {span.role for item in page.body.lines for span in item if bad.name in span.text}
        assert roles == {"warning"}


async def test_values_that_cannot_hold_together_are_refused(config: Path) -> None:
    config.write_text('dispatch = "down=npu"\n')
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "quant")
        await pilot.press("enter", "ctrl+u", *"f32", "enter")
        await pilot.pause()
        page = " ".join(shown(app).split())
        assert (
            "is not saved: with quant f32 everything runs on the CPU" in page and "refused, see above" in page
        )
        assert config.read_text() == 'dispatch = "down=npu"\n'
        await pilot.press("ctrl+u", *"w8a8", "enter")
        await pilot.pause()
        assert 'quant = "w8a8"' in config.read_text() and "is not saved" not in shown(app)
        await to(pilot, app, "dispatch")
        await pilot.press("enter", "ctrl+u", *"down=moon", "enter")
        await pilot.pause()
        assert "moon" in " ".join(shown(app).split()) and "moon" not in config.read_text()


async def test_settings_that_run_programs_are_marked(config: Path) -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "alert_command")
        page = app.page("settings")
        assert page is not None
        roles = {span.role for item in page.body.lines for span in item if "runs a program" in span.text}
        assert roles == {"warning"}


async def test_keys_that_come_in_one_read_go_where_they_were_meant(config: Path) -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await to(pilot, app, "quant")
        for key in ("enter", "down", "down", "enter"):
            app.post_message(events.Key(key, None))
        for _ in range(5):
            await pilot.pause()
        assert config.exists() and config.read_text() == 'quant = "w8a8"\n'
