"""The kernel page: dry run on a tree, nothing applied without the typed word, the board's kernels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot

from orkbench_tui.ops.kernel.patch_series import default_folder, load_series
from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.text_line import plain
from tests.ops.kernel.preimage import make_tree
from tests.screens.fake_services import FakeWorld, with_boot_disk
from tests.screens.feed import quiet_app

SERIES = load_series(default_folder())


@pytest.fixture
def app(tmp_path: Path) -> OrkApp:
    return quiet_app(services=FakeWorld(tmp_path).services())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "linux"
    make_tree(folder, SERIES, "0.9.8")
    return folder


def shown(app: OrkApp) -> str:
    page = app.page("kernel")
    assert page is not None
    return "\n".join(plain(item).rstrip() for item in page.body.lines)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def until(pilot: Pilot[None], app: OrkApp, wanted: str) -> None:
    for _ in range(400):
        await pilot.pause()
        if wanted in shown(app):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain:\n" + shown(app))


async def named(pilot: Pilot[None], app: OrkApp, folder: Path) -> None:
    await pilot.press("K")
    await until(pilot, app, SERIES.patches[0].id)
    await pilot.press("f")
    app.screen.entry = type(app.screen.entry).of(str(folder))  # type: ignore[attr-defined]
    await pilot.press("enter")


async def test_every_patch_is_listed_and_told_about(app: OrkApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("K")
        await until(pilot, app, SERIES.patches[0].id)
        assert "no source tree named" in shown(app)
        for patch in SERIES.patches:
            assert f"▶ {patch.id}" in shown(app) and patch.purpose.split()[0] in shown(app)
            await pilot.press("j")
            await pilot.pause()
        await pilot.press("a")
        await pilot.pause()
        assert "f names the folder" in shown(app)


async def test_a_check_changes_nothing_and_applying_wants_the_word(app: OrkApp, tree: Path) -> None:
    before = content(tree)
    async with app.run_test(size=(80, 24)) as pilot:
        await named(pilot, app, tree)
        await until(pilot, app, "would be applied")
        assert "driver 0.9.8" in shown(app) and " fits " in shown(app)
        for refusal in (("n", "enter"), ("escape",)):
            await pilot.press("a")
            await until(pilot, app, "type y and enter")
            await pilot.press(*refusal)
            await until(pilot, app, "nothing was changed")
        assert content(tree) == before
        await pilot.press("a")
        await until(pilot, app, "type y and enter")
        await pilot.press("y", "enter")
        await until(pilot, app, "ork kernel patches build")
        assert content(tree) != before and " applied " in shown(app) and " fits " not in shown(app)
        await pilot.press("c")
        await until(pilot, app, "has all of them already")


async def test_one_that_does_not_fit_keeps_all_out(app: OrkApp, tree: Path) -> None:
    source = next(tree.rglob("rknpu_job.c"))
    source.write_text("another driver\n")
    before = content(tree)
    async with app.run_test(size=(80, 24)) as pilot:
        await named(pilot, app, tree)
        await until(pilot, app, "do not fit")
        assert "context moved" in shown(app)
        await pilot.press("a")
        await until(pilot, app, "nothing is applied")
        await pilot.press("y", "enter")
        assert content(tree) == before


async def test_an_optional_patch_is_taken_along_only_when_chosen(app: OrkApp, tree: Path) -> None:
    optional = next(n for n, patch in enumerate(SERIES.patches) if patch.optional)
    async with app.run_test(size=(120, 40)) as pilot:
        await named(pilot, app, tree)
        await until(pilot, app, "would be applied")
        usual = next(row for row in shown(app).splitlines() if SERIES.patches[optional].id in row)
        assert "optional" in usual
        await pilot.press(*"j" * optional, "x")
        await until(pilot, app, "not checked since the choice changed")
        await pilot.press("c")
        await until(pilot, app, "would be applied")
        row = next(row for row in shown(app).splitlines() if SERIES.patches[optional].id in row)
        assert " fits " in row


async def test_no_tree_and_no_driver_in_it_are_told(app: OrkApp, tmp_path: Path) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await named(pilot, app, tmp_path)
        await until(pilot, app, "name the top folder")


async def test_running_and_installed_kernels(tmp_path: Path) -> None:
    app = quiet_app(services=with_boot_disk(FakeWorld(tmp_path).services(), tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("K", "o")
        await until(pilot, app, "installed ")
        page = shown(app)
        assert "running" in page and "next boot" in page and " has " in page
