"""Cores, domains, log, models, doctor: their keys under a pilot, and what they say when there is nothing to show."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from orkbench_tui.driver.guard_table import GUARDS
from orkbench_tui.driver.modes import POLICIES
from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.sample import Occupancy, Unavailable
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.ledger import Ledger
from orkbench_tui.runner.bench.record import ModelFacts, Row
from orkbench_tui.screens.app import OrkApp, Report
from orkbench_tui.screens.glyphs import ASCII
from orkbench_tui.screens.palette import colours_of
from orkbench_tui.screens.sampling import BoardLost
from orkbench_tui.screens.text_line import in_ascii, line, plain, width_of
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.cores import cores_lines
from orkbench_tui.screens.views.domains import domains_lines, fragmentation
from orkbench_tui.screens.views.log_filter import LogFilter, compiled, next_event
from orkbench_tui.screens.views.log_page import log_lines
from orkbench_tui.screens.views.rules import RulesShown, rules_lines
from orkbench_tui.screens.widgets.lines import changed_cells
from tests.screens.fake_services import FakeWorld
from tests.screens.feed import CHAT, feed, quiet_app, samples, with_chat

STORM = samples(5, storm=True)
HEALTHY = samples(5)


@pytest.fixture
def world(tmp_path: Path) -> FakeWorld:
    return FakeWorld(tmp_path)


def text_of(app: OrkApp, page: str) -> str:
    shown = app.page(page)
    assert shown is not None
    return "\n".join(plain(item).rstrip() for item in shown.body.lines)


async def settle(pilot: Pilot[None]) -> None:
    await pilot.pause()
    await pilot.pause()


async def until(pilot: Pilot[None], page: str, wanted: str) -> None:
    for _ in range(400):
        await pilot.pause()
        if wanted in text_of(pilot.app, page):  # type: ignore[arg-type]
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain:\n" + text_of(pilot.app, page))  # type: ignore[arg-type]


# -- cores


async def test_cores_page_shows_every_core_and_the_processes() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        many = tuple(Holder(4000 + n, f"tool{n}", "/dev/dri/renderD129", 2, 5 << 20) for n in range(9))
        feed(app, [*STORM[:-1], dataclasses.replace(with_chat(STORM[-1]), holders=many)])
        await pilot.press("2")
        await settle(pilot)
        page = text_of(app, "cores")
        assert all(f" core {n}" in page for n in range(3)) and page.count("A55") == page.count("A76") == 4
        assert "10 seen by this user" in page and "ork run chat" in page
        assert "4008" not in page
        await pilot.press("G")
        await settle(pilot)
        assert "4008 " in text_of(app, "cores") and "5.0 MiB" in text_of(app, "cores")
        await pilot.press("g")
        await settle(pilot)
        assert "2211" in text_of(app, "cores")


def test_a_load_that_cannot_be_read_says_so_and_the_cpu_is_still_there() -> None:
    gap = Unavailable("npu.load", "denied", "/sys/kernel/debug/rknpu/load", "EACCES")
    sample = dataclasses.replace(HEALTHY[-1], unavailable=(gap,))
    page = "\n".join(plain(item) for item in cores_lines(ViewState(sample=sample), 0, 80, 22))
    assert "no permission" in page and "A76" in page


@settings(deadline=None, max_examples=60)
@given(st.integers(60, 250), st.integers(13, 80), st.sampled_from([None, HEALTHY[-1], with_chat(STORM[-1])]))
def test_pages_never_grow_beyond_their_box(width: int, height: int, sample: object) -> None:
    state = ViewState(sample=sample, history=(sample,) if sample else ())  # type: ignore[arg-type]
    rows = sample.log.rows if sample else ()  # type: ignore[attr-defined]
    for lines in (
        cores_lines(state, 0, width, height),
        domains_lines(state, 0, width, height),
        log_lines(state, rows, len(rows) - 1, "", width, height),
    ):
        assert len(lines) <= height
        titled = [item for item in lines if plain(item).startswith("── ")]
        assert {width_of(item) for item in titled} == {width}


# -- domains


async def test_domains_page_moves_over_the_windows() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, [*HEALTHY[:-1], with_chat(HEALTHY[-1])])
        await pilot.press("3")
        await settle(pilot)
        page = text_of(app, "domains")
        assert "▶ d0" in page and "312 MiB of 4.0 GiB" in page and "3.5 GiB" in page and "61/s" in page
        await pilot.press("down")
        await settle(pilot)
        assert "▶ d1" in text_of(app, "domains") and "largest buffer that still fits: 1.0 GiB" in text_of(
            app, "domains"
        )


@pytest.mark.parametrize("key", ["2", "3", "4"])
async def test_old_figures_are_dim_on_every_live_page(key: str) -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, [*STORM[:-1], with_chat(STORM[-1])])
        app.on_report(Report(BoardLost("gone")))
        await pilot.press(key)
        await settle(pilot)
        body = app.screen.body.lines[1:-1]  # type: ignore[attr-defined]
        assert {span.role for item in body for span in item if span.text.strip()} == {"dim"}


async def test_ascii_pages_send_nothing_else(world: FakeWorld) -> None:
    app = quiet_app(glyphs=ASCII, services=world.services())
    async with app.run_test(size=(110, 40)) as pilot:
        feed(app, [*STORM[:-1], with_chat(STORM[-1])])
        for key in "234567890":
            await pilot.press(key)
            await settle(pilot)
            await asyncio.sleep(0.05)
            page = "".join(plain(item) for item in app.screen.body.lines)  # type: ignore[attr-defined]
            assert page.isascii(), key
    assert plain(in_ascii(line("48 °C, 漢 é"))) == "48  C, ?? ?"


def test_fragmentation_is_what_lies_outside_the_largest_hole() -> None:
    whole, cut = CHAT.domains[1], dataclasses.replace(CHAT.domains[0], largest_free_bytes=1 << 30)
    assert fragmentation(whole) == 0
    assert 0.7 < (fragmentation(cut) or 0) < 0.75
    assert fragmentation(dataclasses.replace(whole, used_bytes=whole.capacity_bytes)) is None


def test_domains_of_two_processes_are_added_up() -> None:
    other = dataclasses.replace(CHAT, pid=9000, command="bench")
    sample = dataclasses.replace(HEALTHY[-1], occupancy=Occupancy((CHAT, other), {}))
    page = "\n".join(plain(item) for item in domains_lines(ViewState(sample=sample), 0, 100, 30))
    assert "624 MiB of 4.0 GiB by 2 processes" in page and "9000 bench" in page


def test_no_domains_says_who_holds_the_npu_and_what_to_do() -> None:
    page = "\n".join(plain(item) for item in domains_lines(ViewState(sample=HEALTHY[-1]), 0, 80, 22))
    assert "llama-cli (3120)" in page and "ork run chat" in page


# -- log


async def test_log_page_filters_searches_pauses_and_jumps() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, STORM)
        await pilot.press("4")
        await settle(pilot)
        assert "9 rows" in text_of(app, "log") and "following" in text_of(app, "log")
        await pilot.press("N")
        await settle(pilot)
        assert "▶23:42:29 ▲ warn" in text_of(app, "log") and "following" not in text_of(app, "log")
        await pilot.press("g", "n")
        await settle(pilot)
        assert "▶23:41:52 ✖ error" in text_of(app, "log")
        await pilot.press("c")
        await settle(pilot)
        assert "class npu.job.timeout" in text_of(app, "log") and "4 rows" in text_of(app, "log")
        await pilot.press("c", "s", "s", "s")
        await settle(pilot)
        assert "error and worse" in text_of(app, "log") and "5 rows" in text_of(app, "log")
        await pilot.press("s", "slash", *"core 1", "enter")
        await settle(pilot)
        assert "1 row, with 'core 1'" in text_of(app, "log")
        await pilot.press("slash", "ctrl+u", *"!job", "enter")
        await settle(pilot)
        assert (
            "without 'job'" in text_of(app, "log")
            and "timed out" not in text_of(app, "log").split("Meaning")[0][90:]
        )
        await pilot.press("slash", "ctrl+u", *"!warn", "enter", "G", "n")
        await settle(pilot)
        assert "no warning or error after this line" in text_of(app, "log")
        await pilot.press("k")
        await settle(pilot)
        assert "after this line" not in text_of(app, "log")
        await pilot.press("slash", "ctrl+u", "enter", "p")
        await settle(pilot)
        assert "PAUSED, 0 new lines waiting" in text_of(app, "log")
        row = dataclasses.replace(STORM[-1].log.rows[-1], message="a new line", lines=("a new line",))
        newer = dataclasses.replace(STORM[-1].log, rows=(*STORM[-1].log.rows, row))
        feed(app, [dataclasses.replace(STORM[-1], log=newer)])
        await settle(pilot)
        assert "1 new line waiting" in text_of(app, "log") and "a new line" not in text_of(app, "log")
        await pilot.press("p")
        await settle(pilot)
        assert "a new line" in text_of(app, "log")


async def test_filters_survive_a_look_at_another_page() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, STORM)
        await pilot.press("4", "s", "s", "2", "4")
        await settle(pilot)
        assert "warning and worse" in text_of(app, "log")


def test_filters_are_what_they_say() -> None:
    rows = STORM[-1].log.rows
    assert len(LogFilter(noise=True).rows(rows)) > len(LogFilter().rows(rows))
    assert all(row.severity >= Severity.ERROR for row in LogFilter(least=Severity.ERROR).rows(rows))
    assert LogFilter(text="(").rows(rows) == tuple(
        r for r in LogFilter().rows(rows) if any("(" in x for x in r.lines)
    )
    assert next_event(rows, len(rows) - 1, 1) == len(rows) - 1
    assert next_event((), -1, 1) == -1


@given(st.text(max_size=60))
def test_any_text_can_be_searched_for(text: str) -> None:
    compiled(text).search("RKNPU: job abort, flags: 0x0, ret: -22" * 20)


def test_a_pattern_that_would_never_end_is_taken_as_text() -> None:
    assert compiled("(a+)+$").search("x(a+)+$") is not None
    assert compiled("(a+)+$").search("a" * 60 + "b") is None


def test_an_unreadable_log_says_the_remedy() -> None:
    gap = Unavailable("resets", "denied", "/dev/kmsg", "EPERM")
    sample = dataclasses.replace(HEALTHY[-1], unavailable=(gap,))
    page = "\n".join(plain(item) for item in log_lines(ViewState(sample=sample), (), -1, "", 80, 22))
    assert "the kernel log is denied: /dev/kmsg EPERM" in page and "root reads it" in page


# -- models


async def test_models_page_follows_the_folder_and_verifies(world: FakeWorld) -> None:
    app = quiet_app(services=world.services())
    models = world.folder / "models"
    models.mkdir()
    async with app.run_test(size=(100, 30)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("6")
        await until(pilot, "models", "not here")
        assert "smollm2-135m-instruct" in text_of(app, "models") and "ork model pull" in text_of(
            app, "models"
        )
        data = b"GGUF" + bytes(60)
        (models / "mine-Q4_K_M.gguf").write_bytes(data)
        await until(pilot, "models", "mine-Q4_K_M.gguf")
        await pilot.press("G")
        await settle(pilot)
        assert "Q4_K_M" in text_of(app, "models") and "not checked" in text_of(app, "models")
        await pilot.press("v")
        await until(pilot, "models", "has no digest for it")
        assert hashlib.sha256(data).hexdigest()[:20] in text_of(app, "models")
        (models / "mine-Q4_K_M.gguf").unlink()
        for _ in range(200):
            await pilot.pause()
            if "mine-Q4_K_M.gguf  " not in text_of(app, "models"):
                break
            await asyncio.sleep(0.02)
        assert "mine-Q4_K_M.gguf  " not in text_of(app, "models")


async def test_a_model_is_taken_to_the_chat(world: FakeWorld) -> None:
    app = quiet_app(services=world.services())
    async with app.run_test(size=(100, 30)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("6")
        await until(pilot, "models", "not here")
        await pilot.press("enter")
        await settle(pilot)
        assert "Chat · " in text_of(app, "chat") and app.screen is app.page("chat")


async def test_a_file_that_is_no_pack_is_not_usable(world: FakeWorld) -> None:
    packs = world.folder / "packs"
    packs.mkdir()
    (packs / "bad.orkpack").write_bytes(b"ORKPACK1" + bytes(100))
    app = quiet_app(services=world.services())
    async with app.run_test(size=(100, 40)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("6")
        await until(pilot, "models", "pack  bad ")
        await pilot.press("G")
        await settle(pilot)
        assert "not usable" in text_of(app, "models")


# -- doctor


async def test_doctor_reads_explains_and_leads_to_the_operation(world: FakeWorld) -> None:
    app = quiet_app(services=world.services())
    async with app.run_test(size=(100, 36)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("8")
        await until(pilot, "doctor", "cpu.clocks")
        page = text_of(app, "doctor")
        # It begins at the first check that failed.
        assert "unfit" in page and "▶✖ fail    cpu.clocks" in page
        assert "want: all CPU policies" in page and "why:" in page and "found: policy0" in page
        assert "enter: to the operation governors performance" in page
        await pilot.press("g", "c")
        await settle(pilot)
        assert world.preflights == 2
        assert "want: NPU at its highest" in text_of(app, "doctor")
        await pilot.press("j", "j", "j", "enter")
        await settle(pilot)
        assert "▶governors performance" in text_of(app, "operations")


async def test_doctor_without_a_board_says_so_and_tries_again(world: FakeWorld) -> None:
    world.files.gone = True
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        app.on_report(Report(BoardLost("the board went away")))
        await pilot.press("8")
        await until(pilot, "doctor", "look at its cable")
        assert "tries again" in text_of(app, "doctor")
        world.files.gone = False
        await pilot.press("c")
        await until(pilot, "doctor", "fit")


# -- bench


async def test_bench_page_shows_published_figures_and_own_results(world: FakeWorld) -> None:
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("9")
        await until(pilot, "bench", "RES-01")
        await pilot.press("j", "j")
        await settle(pilot)
        page = text_of(app, "bench")
        assert "178.00 tok/s" in page and "predicted" in page and "optimization roadmap" in page
        await pilot.press("o")
        await settle(pilot)
        assert "no results yet; `ork run bench`" in text_of(app, "bench")
    Ledger(world.folder / "results.jsonl").append([own_row(), own_row(taken=2000.0, speeds=(12.0,))])
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("9")
        await until(pilot, "bench", "pp512")
        page = text_of(app, "bench")
        assert "2 rows" in page and "12.00" in page and "10.50" in page and "not comparable: cold" in page


def own_row(taken: float = 1000.0, speeds: tuple[float, ...] = (10.0, 11.0)) -> Row:
    model = ModelFacts("tiny", "tiny.gguf", "", "", "w8a8", "f16", "npu", 1000, 2000)
    case = Case(512, 0, 512, 512, 4)
    return Row(case, model, "host", speeds, True, False, None, ("cold",), "0.1", "abc1234", taken, 4)


async def test_bench_page_shows_comparisons_with_their_verdict(world: FakeWorld) -> None:
    world.keep_comparison()
    app = quiet_app(services=world.services())
    async with app.run_test(size=(120, 30)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("9")
        await until(pilot, "bench", "pp512")
        await pilot.press("o")
        await until(pilot, "bench", "o: comparisons")
        await pilot.press("o")
        await until(pilot, "bench", "Comparisons")
        page = text_of(app, "bench")
        assert "1.100" in page and "faster" in page and "w8a8-rot / w8a8" in page
        assert "w8a8: 100.00, 101.00, 99.00 tok/s (host)" in page and "the interval leaves out 1" in page
        await pilot.press("o")
        await until(pilot, "bench", "Own results")


async def test_a_ledger_that_is_no_ledger_says_so(world: FakeWorld) -> None:
    (world.folder / "results.jsonl").write_text("no json\n")
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("9")
        await until(pilot, "bench", "results.jsonl")


# -- rules


async def test_every_guard_can_be_reached_with_its_evidence() -> None:
    app = quiet_app()
    async with app.run_test(size=(110, 30)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("0", "j")
        await settle(pilot)
        assert "GRD-02, " in text_of(app, "rules")
        await pilot.press("G")
        await settle(pilot)
        assert f"{list(GUARDS)[-1]}, " in text_of(app, "rules")
    for index, guard in enumerate(GUARDS.values()):
        page = " ".join(plain(item) for item in rules_lines(RulesShown(chosen=index), ViewState(), 160, 40))
        assert f"{guard.id}, {guard.place}" in page and f"evidence: {guard.evidence[:40]}" in page
        assert f"consequence: {guard.consequence[:40]}" in page and f"instead: {guard.action[:40]}" in page


async def test_every_change_of_mode_is_there() -> None:
    app = quiet_app()
    async with app.run_test(size=(110, 50)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("0", "o")
        await settle(pilot)
        page = text_of(app, "rules")
        for profile, policy in POLICIES.items():
            for target in policy.targets:
                assert re.search(rf"{profile} +{target} ", page), (profile, target)
        assert "105 ms, published" in page


# -- pages in general


async def test_palette_runs_a_command_of_the_page_below() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, STORM)
        await pilot.press("4", "ctrl+p", *"pause", "enter")
        await settle(pilot)
        assert app.screen is app.page("log") and "PAUSED" in text_of(app, "log")
        await pilot.press("colon", *"go to domains", "enter")
        await settle(pilot)
        assert app.screen is app.page("domains")
        await pilot.press("colon", "escape", "escape")
        await settle(pilot)
        assert app.screen.id != "domains" and len(app.screen_stack) == 1


async def test_theme_changes_live_and_keeps_the_page() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("2", "t")
        await settle(pilot)
        assert app.state.look == "light" and app.screen is app.page("cores")
        await pilot.press("t")
        await settle(pilot)
        assert app.state.look == "dark"


@pytest.mark.parametrize("size", [(20, 5), (59, 24), (80, 10)])
async def test_every_page_survives_a_tiny_terminal(size: tuple[int, int], world: FakeWorld) -> None:
    app = quiet_app(services=world.services())
    async with app.run_test(size=size) as pilot:
        feed(app, HEALTHY)
        for key in "234567890":
            await pilot.press(key)
            await settle(pilot)
            assert "needs 60x15" in plain(app.screen.body.lines[0])  # type: ignore[attr-defined]
        await pilot.press("q")
        await settle(pilot)
    assert not app.is_running


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("look", ["dark", "light"])
def test_every_text_can_be_read_on_its_ground(look: str) -> None:
    for role, (ink, ground) in colours_of(look).items():
        high, low = sorted((_luminance(ink), _luminance(ground)), reverse=True)
        wanted = (
            1.3 if role in ("track", "rule") else 3.0 if role in ("npu_odd", "cpu", "iova", "memory") else 4.5
        )
        assert (high + 0.05) / (low + 0.05) >= wanted, role


def test_both_themes_know_the_same_roles() -> None:
    assert set(colours_of("dark")) == set(colours_of("light"))


def test_only_the_cells_that_differ_are_painted() -> None:
    old = line("head ", ("12:00:01", "dim"), " tail")
    assert changed_cells(old, old) == []
    assert changed_cells(old, line("head ", ("12:00:02", "dim"), " tail")) == [(12, 13)]
    assert changed_cells(line("漢 ", "a"), line("漢 ", "b")) == [(0, 4)]
    # The same characters in other spans are the same cells.
    assert changed_cells(line("ab", "cd"), line("abc", "d")) == []
    assert changed_cells(line(("ab", "dim")), line("ab")) == [(0, 2)]
    # Changes far apart are sent apart, near ones together.
    assert changed_cells(line("1" + " " * 40 + "2"), line("3" + " " * 40 + "4")) == [(0, 1), (41, 42)]
    assert changed_cells(line("1" + " " * 4 + "2"), line("3" + " " * 4 + "4")) == [(0, 6)]
