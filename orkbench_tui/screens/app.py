"""``ork-tui``: one state, a sampling thread that posts into it, screens that draw it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter
from textual.message import Message

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.history import History
from orkbench_tui.screens.colour import WithoutColour
from orkbench_tui.screens.dashboard import Dashboard
from orkbench_tui.screens.glyphs import UNICODE, Glyphs
from orkbench_tui.screens.help_screen import HelpScreen
from orkbench_tui.screens.keys import keys_for
from orkbench_tui.screens.log_screen import LogScreen
from orkbench_tui.screens.palette import BACKGROUND
from orkbench_tui.screens.sampling import BoardLost, Sampler, Taken
from orkbench_tui.screens.view_state import ViewState

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
    """The live screens.

    ``connect`` opens the board's files and raises OrkError or OSError while there is no board; it is tried
    again at every interval. ``process_time`` and ``steady`` are clocks in seconds.
    """

    TITLE = "ork-tui"
    ENABLE_COMMAND_PALETTE = False
    CSS = f"Screen {{ background: {BACKGROUND}; overflow: hidden; layers: base; }}"
    BINDINGS = [  # noqa: RUF012 - Textual declares it so
        Binding(key.keys, key.action, key.label, show=False, priority=key.action == "leave")
        for key in keys_for("everywhere")
    ]

    def __init__(
        self,
        connect: Callable[[], BoardFiles],
        occupancy_dir: Path,
        *,
        interval_s: float = 1.0,
        colour: bool = True,
        glyphs: Glyphs = UNICODE,
        notice: str = "",
        process_time: Callable[[], float] | None = time.process_time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._colour = colour
        super().__init__()
        self.animation_level = "none"
        self._history = History()
        self._sampler = Sampler(connect, occupancy_dir, interval_s, self._deliver)
        self._process_time, self._steady = process_time, steady
        self._cost_mark: tuple[float, float] | None = None
        self._arrived_s: float | None = None
        self._live = ViewState(interval_s=interval_s, glyphs=glyphs, notice=notice)
        self._held: ViewState | None = None

    # what is drawn

    @property
    def state(self) -> ViewState:
        """What the screens show: the live state, or the one held when frozen."""
        return self._held or self._live

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = [] if not self._colour else list(super().get_line_filters())
        return filters if self._colour else [WithoutColour()]

    def get_default_screen(self) -> Dashboard:
        return Dashboard(colour=self._colour)

    def draw(self) -> None:
        screen = self.screen
        if isinstance(screen, Dashboard | LogScreen | HelpScreen):
            screen.show(self.state)

    # sampling

    def on_mount(self) -> None:
        threading.Thread(target=self._sampler.run, name="sampler", daemon=True).start()
        self.set_interval(0.5, self._check_age)
        self.draw()

    def on_unmount(self) -> None:
        self._sampler.stop()

    def _deliver(self, news: Taken | BoardLost) -> None:
        self.post_message(Report(news))

    def on_report(self, report: Report) -> None:
        news = report.news
        if isinstance(news, BoardLost):
            self._live = dataclasses.replace(self._live, lost=news.reason)
        else:
            self._take(news)
        self.draw()

    def _take(self, news: Taken) -> None:
        self._arrived_s = self._steady()
        self._history.add(news.sample)
        cores = range(len(news.sample.npu.cores))
        self._live = dataclasses.replace(
            self._live,
            notice=self._live.notice if len(self._history) * self._live.interval_s < _NOTICE_S else "",
            sample=news.sample,
            loads=tuple(tuple(self._history.npu_load(core, _PLOT_SAMPLES)) for core in cores),
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
        if self._arrived_s is None:
            return
        stale = self._steady() - self._arrived_s > _STALE_AFTER * self._live.interval_s
        if stale != self._live.stale:
            self._live = dataclasses.replace(self._live, stale=stale)
            self.draw()

    # keys

    def action_leave(self) -> None:
        self.exit()

    def action_freeze(self) -> None:
        self._held = None if self._held else dataclasses.replace(self._live, frozen=True)
        self.draw()

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

    def action_show_help(self) -> None:
        self._toggle(HelpScreen)

    def action_show_log(self) -> None:
        self._toggle(LogScreen)

    def _toggle(self, kind: type[HelpScreen] | type[LogScreen]) -> None:
        if isinstance(self.screen, kind):
            self.action_go_back()
            return
        screen = kind(colour=self._colour)
        self.push_screen(screen)
        self.call_after_refresh(self.draw)

    def action_go_back(self) -> None:
        """Close the top screen; the dashboard stays."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            self.call_after_refresh(self.draw)
