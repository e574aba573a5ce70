"""``ork-tui``: one state, a sampling thread that posts into it, pages that draw it."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter
from textual.message import Message

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.feed import Feed
from orkbench_tui.ops.telemetry.history import History
from orkbench_tui.screens.colour import WithoutColour
from orkbench_tui.screens.dashboard import Dashboard
from orkbench_tui.screens.glyphs import UNICODE, Glyphs
from orkbench_tui.screens.hang_up import end_with_terminal
from orkbench_tui.screens.keys import ELSEWHERE, ONE_BOARD, keys_for
from orkbench_tui.screens.page import Page
from orkbench_tui.screens.page_factory import PageFactory
from orkbench_tui.screens.palette import BACKGROUND, background_of
from orkbench_tui.screens.sampling import BoardLost, Sampler, Taken
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.work.background import Call

if TYPE_CHECKING:
    from orkbench_tui.ops.remote.fleet import Fleet
    from orkbench_tui.ops.telemetry.replay_feed import ReplayFeed
    from orkbench_tui.screens.chat_screen import ChatScreen
    from orkbench_tui.screens.operations_screen import OperationsScreen
    from orkbench_tui.screens.palette_screen import Command

__all__ = ["INTERVALS_S", "OrkApp"]

INTERVALS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

_STALE_AFTER = 3
_PLOT_SAMPLES = 400
_NOTICE_S = 8.0
_OWN_COST_SPAN_S = 0.5


class Report(Message):
    """What the sampling thread has to say."""

    def __init__(self, news: Taken | BoardLost) -> None:
        super().__init__()
        self.news = news


class OrkApp(App[None]):
    """The live pages.

    ``connect`` opens the board's files, or a feed of samples, and raises OrkError or OSError while there is no board; it
    is tried again at every interval. ``replay`` is the recording shown, where it is one;
    ``fleet`` are other boards, of which ``connect`` gives the first. ``process_time`` and ``steady`` are clocks in seconds. Without ``services`` only the
    pages that read samples are there.
    """

    TITLE = "ork-tui"
    ENABLE_COMMAND_PALETTE = False
    CSS = f"Screen {{ background: {BACKGROUND}; overflow: hidden; layers: base; }}"
    BINDINGS = [  # noqa: RUF012 - Textual declares it so
        Binding(key.keys, key.action, key.label, show=False, priority=key.keys == "ctrl+c")
        for key in keys_for("everywhere")
    ]

    def __init__(
        self,
        connect: Callable[[], BoardFiles | Feed],
        occupancy_dir: Path,
        *,
        replay: ReplayFeed | None = None,
        fleet: Fleet | None = None,
        interval_s: float = 1.0,
        colour: bool = True,
        theme: str = "dark",
        glyphs: Glyphs = UNICODE,
        notice: str = "",
        services: Services | None = None,
        process_time: Callable[[], float] | None = time.process_time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._colour = colour
        super().__init__()
        self.animation_level = "none"
        self._history = History()
        self._occupancy_dir = occupancy_dir
        self.fleet, self.host = fleet, fleet.hosts[0] if fleet is not None else ""
        self._sampler = self._sampler_of(connect, interval_s)
        self._replay = replay
        self._process_time, self._steady = process_time, steady
        self._cost_mark: tuple[float, float] | None = None
        self._arrived_s: float | None = None
        look = theme if colour else "mono"
        self._live = ViewState(interval_s=interval_s, glyphs=glyphs, notice=notice, look=look)
        self._held: ViewState | None = None
        self._notice_from_s = steady()
        self._leaving = False
        self._factory = PageFactory(self, services)
        self._pages: dict[str, Page] = {}

    # what is drawn

    @property
    def state(self) -> ViewState:
        """What the pages show: the live state, or the one held when frozen."""
        return dataclasses.replace(self._held or self._live, work=self._work())

    def _work(self) -> str:
        if self.running_operation:
            return f"{self.running_operation} runs (5)"
        chat = cast("ChatScreen | None", self._pages.get("chat"))
        return chat.activity if chat is not None else ""

    @property
    def running_operation(self) -> str:
        """The operation under way that changes something, "" for none."""
        page = cast("OperationsScreen | None", self._pages.get("operations"))
        return page.running if page is not None else ""

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = [] if not self._colour else list(super().get_line_filters())
        return filters if self._colour else [WithoutColour()]

    def get_default_screen(self) -> Dashboard:
        return Dashboard()

    def draw(self) -> None:
        screen = self.screen
        if isinstance(screen, Dashboard | Page):
            screen.show(self.state)

    # sampling

    def on_mount(self) -> None:
        if not self.is_headless and sys.__stdin__ is not None:
            end_with_terminal(sys.__stdin__.fileno())
        threading.Thread(target=self._sampler.run, name="sampler", daemon=True).start()
        self.set_interval(0.5, self._check_age)
        self._paint_ground()
        self.draw()

    def _sampler_of(self, connect: Callable[[], BoardFiles | Feed], interval_s: float) -> Sampler:
        def deliver(news: Taken | BoardLost) -> None:
            # A board left behind may still have something to say.
            if self._sampler is sampler:
                self.post_message(Report(news))

        sampler = Sampler(connect, self._occupancy_dir, interval_s, deliver)
        return sampler

    def watch_board(self, host: str) -> None:
        """Show another board of the fleet on every page."""
        fleet = self.fleet
        if fleet is None or host == self.host:
            self.action_go_back()
            return
        self._sampler.stop()
        self.host = host
        self._history.clear()
        self._arrived_s = None
        self._held = None
        self._live = dataclasses.replace(
            self._live, sample=None, loads=(), history=(), stale=False, lost="", notice=""
        )
        self._sampler = self._sampler_of(lambda: fleet.feed(host), self._live.interval_s)
        threading.Thread(target=self._sampler.run, name="sampler", daemon=True).start()
        self.action_go_back()
        self.draw()

    def on_unmount(self) -> None:
        self._sampler.stop()

    def on_report(self, report: Report) -> None:
        news = report.news
        if isinstance(news, BoardLost):
            self._live = dataclasses.replace(self._live, lost=news.reason)
        else:
            self._take(news)
        self.draw()

    def _take(self, news: Taken) -> None:
        self._arrived_s = self._steady()
        if news.past is not None:
            self._history.clear()
            for sample in news.past:
                self._history.add(sample)
        else:
            self._history.add(news.sample)
        cores = range(len(news.sample.npu.cores))
        self._live = dataclasses.replace(
            self._live,
            sample=news.sample,
            loads=tuple(tuple(self._history.npu_load(core, _PLOT_SAMPLES)) for core in cores),
            history=tuple(self._history),
            stale=False,
            lost="",
            own_cpu_pct=self._own_cost(),
        )

    def _own_cost(self) -> float | None:
        """This process's CPU use over the last half second or more, in percent of one core."""
        if self._process_time is None:
            return None
        mark = (self._process_time(), self._steady())
        before = self._cost_mark
        if before is not None and mark[1] - before[1] < _OWN_COST_SPAN_S:
            return self._live.own_cpu_pct
        self._cost_mark = mark
        if before is None:
            return None
        return 100 * (mark[0] - before[0]) / (mark[1] - before[1])

    def _check_age(self) -> None:
        if self._live.notice and self._steady() - self._notice_from_s > _NOTICE_S:
            self._tell("")
        if self._arrived_s is None:
            return
        stale = self._steady() - self._arrived_s > _STALE_AFTER * self._live.interval_s
        if stale != self._live.stale:
            self._live = dataclasses.replace(self._live, stale=stale)
            self.draw()

    # work in the background

    def post(self, call: Callable[[], None]) -> None:
        """Have something called on the screen's thread, from any thread."""
        self.post_message(Call(call))

    def on_call(self, message: Call) -> None:
        message.call()

    def aside(self, step: Callable[[], None]) -> None:
        """Run ``step`` with the terminal given back, from a worker thread; waits for it."""

        def given_back() -> None:
            with self.suspend():
                step()

        self.call_from_thread(given_back)

    def chat_holds_npu(self) -> bool:
        chat = cast("ChatScreen | None", self._pages.get("chat"))
        return chat is not None and chat.holds_npu

    def chat_with(self, model: str) -> None:
        chat = cast("ChatScreen | None", self.page("chat"))
        if chat is not None:
            self.action_show_page("chat")
            chat.use_model(model)

    def go_to_operation(self, name: str, words: dict[str, str]) -> None:
        page = cast("OperationsScreen | None", self.page("operations"))
        if page is not None:
            self.action_show_page("operations")
            page.choose(name, **words)

    # pages

    def page(self, name: str) -> Page | None:
        """A page by its name, made when it is first asked for; None for one that is not there."""
        if name not in self._pages:
            made = self._factory.make(name)
            if made is None:
                return None
            made.styles.background = background_of(self._live.look)
            self.install_screen(made, name)
            self._pages[name] = made
        return self._pages[name]

    def action_show_page(self, name: str) -> None:
        """Show a page; help asked for again goes back. The page keeps what it showed before."""
        screen = self.screen
        here = screen.where if isinstance(screen, Page) else "dashboard"
        if name in ("help", "log") and here == name:
            self.action_go_back()
            return
        if name == here:
            return
        if name == "dashboard":
            self.action_go_back()
            return
        page = self.page(name)
        if page is None:
            self._tell(ONE_BOARD if name == "boards" else ELSEWHERE)
            return
        page.opened_from(here)
        if len(self.screen_stack) > 1 and name != "help":
            self._to_dashboard()
        self.push_screen(page)
        self.call_after_refresh(self.draw)

    def _to_dashboard(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_go_back(self) -> None:
        """Close the top page; the dashboard stays."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            self.call_after_refresh(self.draw)

    def action_palette(self) -> None:
        palette = self.page("palette")
        screen = self.screen
        if palette is None or screen is palette:
            return
        palette.opened_from(screen.where if isinstance(screen, Page) else "dashboard")
        self.push_screen(palette)
        self.call_after_refresh(self.draw)

    def run_command(self, command: Command) -> None:
        """Run what the palette chose, on the page it was opened from."""
        self.action_go_back()

        async def run() -> None:
            namespace = self if command.where == "everywhere" else self.screen
            await self.run_action(command.action, default_namespace=namespace)
            self.draw()

        self.call_after_refresh(run)

    def action_plan_operation(self, index: int) -> None:
        page = cast("OperationsScreen | None", self.page("operations"))
        if page is not None:
            self.action_show_page("operations")
            page.choose_row(index)
            self.call_after_refresh(page.action_plan)

    # keys

    def action_leave(self) -> None:
        if self.running_operation and not self._leaving:
            self._leaving = True
            self._tell(
                f"{self.running_operation} is at work; q again leaves it (`ork board resume` brings it to an end)"
            )
            self.set_timer(5.0, self._stay)
            return
        self.exit()

    def _stay(self) -> None:
        self._leaving = False

    def _tell(self, text: str) -> None:
        self._notice_from_s = self._steady()
        self._live = dataclasses.replace(self._live, notice=text)
        if self._held:
            self._held = dataclasses.replace(self._held, notice=text)
        self.draw()

    def action_freeze(self) -> None:
        if self._replay is not None:
            self._steer(self._replay.pause)
            return
        self._held = None if self._held else dataclasses.replace(self._live, frozen=True)
        self.draw()

    def action_replay_step(self, many: int) -> None:
        if self._replay is None:
            self._tell("nothing to step through: `ork-tui --replay FILE` shows a recording")
            return
        self._steer(partial(self._replay.step, many))

    def action_replay_jump(self, seconds: float) -> None:
        if self._replay is not None:
            self._steer(partial(self._replay.jump, seconds))

    def action_replay_end(self, side: int) -> None:
        if self._replay is not None:
            self._steer(self._replay.to_end if side > 0 else self._replay.to_start)

    def _steer(self, move: Callable[[], None]) -> None:
        move()
        self._sampler.sample_now()

    def action_theme(self) -> None:
        if self._colour:
            look = "light" if self._live.look == "dark" else "dark"
            self._live = dataclasses.replace(self._live, look=look)
            if self._held:
                self._held = dataclasses.replace(self._held, look=look)
            self._paint_ground()
            self.draw()

    def _paint_ground(self) -> None:
        for screen in (*self._pages.values(), *self.screen_stack):
            screen.styles.background = background_of(self._live.look)

    def action_sample_now(self) -> None:
        self._sampler.sample_now()

    def action_faster(self) -> None:
        self._set_interval(max((s for s in INTERVALS_S if s < self._live.interval_s), default=INTERVALS_S[0]))

    def action_slower(self) -> None:
        self._set_interval(
            min((s for s in INTERVALS_S if s > self._live.interval_s), default=INTERVALS_S[-1])
        )

    def _set_interval(self, interval_s: float) -> None:
        self._sampler.interval_s = interval_s
        self._sampler.sample_now()
        self._live = dataclasses.replace(self._live, interval_s=interval_s)
        if self._held:
            self._held = dataclasses.replace(self._held, interval_s=interval_s)
        self.draw()
