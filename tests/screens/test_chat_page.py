"""Chat from the screen: streaming, stopping, clearing, choosing a model, losing the NPU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import Paste
from textual.pilot import Pilot

from orkbench_tui.errors import NoDeviceError, UsageError
from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.chat_screen import ChatScreen
from orkbench_tui.screens.entry_line import Entry, draw_entry, pasted, typed
from orkbench_tui.screens.text_line import plain, width_of
from orkbench_tui.screens.views.chat import wrapped_cells
from tests.screens.fake_services import FakeWorld
from tests.screens.feed import feed, quiet_app, samples

HEALTHY = samples(3)


def chat_of(app: OrkApp) -> ChatScreen:
    page = app.page("chat")
    assert isinstance(page, ChatScreen)
    return page


def text_of(app: OrkApp) -> str:
    return "\n".join(plain(item).rstrip() for item in chat_of(app).body.lines)


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    for _ in range(400):
        await pilot.pause()
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain:\n" + text_of(pilot.app))  # type: ignore[arg-type]


async def ask(pilot: Pilot[None], question: str) -> None:
    app = pilot.app
    assert isinstance(app, OrkApp)
    app.screen.post_message(Paste(question))
    await pilot.pause()
    await pilot.press("enter")


async def test_an_answer_streams_with_its_figures(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        # Keys that mean something elsewhere are text here.
        await pilot.press("q", "1", "question_mark", "space", "o", "k", "enter")
        await until(pilot, lambda: "[host: in 3 tok" in text_of(app))
        page = text_of(app)
        assert world.opened == ["tiny"] and "q1? ok" in page and app.is_running
        assert "tiny, w8a8, on sim" in page and "2 of 512 tokens" in page
        await ask(pilot, "one more")
        await until(pilot, lambda: text_of(app).count("[host:") == 2)
        assert world.opened == ["tiny"]


async def test_escape_stops_an_answer_and_other_pages_stay_alive(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.chat.gate = threading.Event()
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        await ask(pilot, "first second third")
        await until(pilot, lambda: "answering" in text_of(app) and text_of(app).count("first") == 2)
        await pilot.press("escape", "2")
        await pilot.pause()
        assert "chat answers" in plain(app.page("cores").body.lines[-1])  # type: ignore[union-attr]
        world.chat.gate.set()
        await pilot.press("7")
        await until(pilot, lambda: "[stopped]" in text_of(app))
        assert text_of(app).count("third") == 1


async def test_clear_and_close_and_another_model(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        await ask(pilot, "hello")
        await until(pilot, lambda: "[host:" in text_of(app))
        await pilot.press("escape", "c")
        await until(pilot, lambda: world.chat.resets == 1)
        assert "[host:" not in text_of(app)
        chat_of(app).use_model("other.gguf")
        await until(pilot, lambda: world.closed == 1)
        await until(pilot, lambda: "other.gguf" in text_of(app))
        await ask(pilot, "hello")
        await until(pilot, lambda: world.opened == ["tiny", "other.gguf"])
        await pilot.press("escape", "w")
        await until(pilot, lambda: world.closed == 2)
        assert not chat_of(app).holds_npu


@pytest.mark.parametrize("where", ["open", "ask", "lost"])
async def test_failures_are_told_with_the_next_step(tmp_path: Path, where: str) -> None:
    world = FakeWorld(tmp_path)
    if where == "open":
        world.chat_error = NoDeviceError("no rknpu NPU on this machine", do="use --target sim")
    elif where == "lost":
        world.chat.error = NoDeviceError("the NPU went away", do="run the command again")
    else:
        world.chat.error = UsageError("the prompt has 900 tokens", do="shorten it")
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        await ask(pilot, "hello")
        wanted = {"open": "use --target sim", "lost": "the conversation is kept", "ask": "shorten it"}[where]
        await until(pilot, lambda: wanted in text_of(app))
        assert chat_of(app).holds_npu is (where == "ask")


async def test_the_conversation_goes_on_after_the_npu_was_away(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        await ask(pilot, "hello")
        await until(pilot, lambda: "[host:" in text_of(app))
        world.chat.error = NoDeviceError("the NPU went away")
        await ask(pilot, "again")
        await until(pilot, lambda: world.closed == 1 and "kept" in text_of(app))
        world.chat.error = None
        await ask(pilot, "once more")
        await until(pilot, lambda: world.kept == [False, True])
        # Closed by hand, the next question begins anew.
        await until(pilot, lambda: text_of(app).count("[host:") == 2)
        await pilot.press("escape", "w")
        await until(pilot, lambda: world.closed == 2)
        await pilot.press("i")
        await ask(pilot, "hello")
        await until(pilot, lambda: world.kept == [False, True, False])


async def test_control_sequences_of_a_model_never_reach_the_screen(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        chat_of(app)._on_text("a\x1b]0;title\x07b [bold]c[/] \u202ed")
        await pilot.pause()
        assert "\x1b" not in text_of(app) and "[bold]c[/]" in text_of(app) and "\u202e" not in text_of(app)


async def test_earlier_questions_come_back(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i")
        await ask(pilot, "first question")
        await until(pilot, lambda: "[host:" in text_of(app))
        await pilot.press("up")
        await pilot.pause()
        assert plain(chat_of(app).body.lines[-1]).startswith(" > first question")


@given(st.text(max_size=200), st.integers(10, 60))
def test_wrapping_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrapped_cells(text, width)
    assert all(cell_len(item) <= width or len(item) == 1 for item in lines)
    kept = [c for item in lines for c in item if not c.isspace()]
    assert kept == [c for c in text.expandtabs(4) if not c.isspace()]


def test_wrapping_keeps_lines_and_indents() -> None:
    text = "def f():\n    return 1\n\nThe end of it"
    assert wrapped_cells(text, 40) == ("def f():", "    return 1", "", "The end of it")
    assert wrapped_cells("漢字漢字漢字", 10) == ("漢字漢字漢", "字")


KEYS = ["left", "right", "home", "end", "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k"]


@given(st.text(max_size=30), st.lists(st.sampled_from(KEYS), max_size=12), st.integers(6, 40))
def test_the_typed_line_holds_together(text: str, keys: list[str], width: int) -> None:
    entry = pasted(Entry(), text)
    for key in keys:
        after = typed(entry, key, None)
        assert after is not None
        entry = after
        assert (0 <= entry.cursor <= len(entry.text) and entry.text.isprintable()) or not entry.text
    assert width_of(draw_entry(" > ", entry, width)) in (width, width + 1)


def test_editing_keys() -> None:
    entry = Entry.of("read the log")
    assert typed(entry, "ctrl+w", None) == Entry("read the ", 9)
    assert typed(Entry("abc", 1), "x", "x") == Entry("axbc", 2)
    assert typed(entry, "f5", None) is None
    assert pasted(Entry(), "two\nlines\x1b[2J") == Entry("two lines[2J", 12)


async def test_an_empty_line_says_how_to_leave_it(tmp_path: Path) -> None:
    app = quiet_app(services=FakeWorld(tmp_path).services())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("7", "i")
        await pilot.pause()
        last = chat_of(app).body.lines[-1]
        assert plain(last).startswith(" > ") and plain(last).endswith("esc leaves this line ")
        assert width_of(last) == 80
        await pilot.press("x")
        await pilot.pause()
        last = chat_of(app).body.lines[-1]
        assert plain(last).startswith(" > x") and "esc" not in plain(last) and width_of(last) == 80
