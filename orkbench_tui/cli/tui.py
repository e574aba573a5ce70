"""``ork-tui``: checks the terminal, then hands over to the screens."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli.main import run
from orkbench_tui.errors import NoDeviceError, UsageError
from orkbench_tui.plain_text import one_line
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.files import BoardFiles
    from orkbench_tui.ops.remote.fleet import Fleet
    from orkbench_tui.ops.telemetry.replay_feed import ReplayFeed
    from orkbench_tui.screens.plain_mode import PlainPages

_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
)


_REPLAY_KEYS = "recording: space pauses, , . a sample, < > a minute, ( ) the ends"


@_app.command()
def tui(
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", help="A recording of `ork board record` to step through, instead of a board."
        ),
    ] = None,
    board: Annotated[
        list[str] | None,
        typer.Option("--board", help="Another board, as ssh knows it; may be given several times."),
    ] = None,
    refresh: Annotated[
        float | None, typer.Option("--refresh", help="Seconds between samples, 0.1 to 60.")
    ] = None,
    theme: Annotated[str | None, typer.Option("--theme", help="dark or light.")] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Pages as lines of text, for screen readers and terminals that only print."
        ),
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour; the same as NO_COLOR=1.")] = False,
    ascii: Annotated[
        bool, typer.Option("--ascii", help="Plain characters instead of blocks and lines.")
    ] = False,
    mouse: Annotated[
        bool, typer.Option("--mouse", help="Take the mouse; off by default so that selecting text works.")
    ] = False,
) -> None:
    """Live screens of the board: cores, domains, kernel log, operations, models, chat, doctor. ? is the help."""
    settings = Settings.load(target=target, refresh_s=refresh, theme=theme)
    if replay is not None and (plain or target is not None):
        raise UsageError(
            f"--replay and --{'plain' if plain else 'target'} exclude each other",
            do="`ork board replay FILE` prints a recording as lines",
        )
    if board and (target is not None or replay is not None):
        other = "replay" if replay is not None else "target"
        raise UsageError(
            f"--board and --{other} exclude each other", do="`ork board status --board HOST` prints a page"
        )
    fleet = _fleet(board, settings) if board else None
    if plain:
        if fleet is not None:
            _plain_fleet(fleet)
        else:
            _plain_board(settings)
        return
    recorded = None if replay is None else _replay(replay)
    _require_terminal()
    # Read by Textual when it is imported; it takes an empty NO_COLOR for a set one.
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)

    from orkbench_tui.cli.screen_services import screen_services
    from orkbench_tui.screens.app import OrkApp
    from orkbench_tui.screens.glyphs import ASCII, UNICODE, locale_wants_ascii
    from orkbench_tui.target import occupancy_dir, open_target

    look: dict[str, Any] = {
        "interval_s": settings.refresh_s,
        "colour": not (no_color or os.environ.get("NO_COLOR")),
        "glyphs": ASCII if ascii or locale_wants_ascii() else UNICODE,
        "theme": settings.theme,
    }
    if fleet is not None:
        host = fleet.hosts[0]
        screens = OrkApp(lambda: fleet.feed(host), occupancy_dir(), fleet=fleet, **look)
    elif recorded is not None:
        screens = OrkApp(lambda: recorded, occupancy_dir(), replay=recorded, notice=_REPLAY_KEYS, **look)
    else:
        first = open_target(settings)
        services = screen_services(settings.with_flags(target=first.label), first.operations_lock)
        screens = OrkApp(
            _connector(settings, first.files, first.label),
            occupancy_dir(),
            # An operation that was interrupted goes before how the board was found.
            notice=next(iter(services.unfinished()), first.notice),
            services=services,
            **look,
        )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: screens.call_later(screens.exit, None, 128 + caught))
    with fleet or nullcontext():
        screens.run(mouse=mouse)
    if screens.return_code:
        raise typer.Exit(screens.return_code)


def _fleet(hosts: list[str], settings: Settings) -> Fleet:
    """
    Raises:
        UsageError: one of them is no host.
    """
    from orkbench_tui.ops.remote.fleet import Fleet

    return Fleet(hosts, settings, settings.refresh_s)


def _replay(path: Path) -> ReplayFeed:
    """
    Raises:
        InvalidFileError, UsageError: the file cannot be shown.
    """
    from orkbench_tui.ops.telemetry.recording import Recording
    from orkbench_tui.ops.telemetry.replay_feed import ReplayFeed

    feed = ReplayFeed(Recording(path))
    feed.sample()
    feed.to_start()
    return feed


def _plain_board(settings: Settings) -> None:
    """The board ``settings`` name."""
    from orkbench_tui.cli import diagnostics
    from orkbench_tui.cli.screen_services import screen_services
    from orkbench_tui.ops.telemetry.feed import BoardFeed
    from orkbench_tui.screens.plain_mode import PlainPages
    from orkbench_tui.target import occupancy_dir, open_target

    with open_target(settings) as target:
        if target.notice:
            diagnostics.note(target.notice)
        services = screen_services(settings.with_flags(target=target.label), target.operations_lock)
        _read_on(PlainPages(BoardFeed(target.files, occupancy_dir()), services))


def _plain_fleet(fleet: Fleet) -> None:
    """Other boards over ssh; the first is shown until another is asked for."""
    from orkbench_tui.screens.plain_mode import PlainPages

    with fleet:
        _read_on(PlainPages(fleet.feed(fleet.hosts[0]), None, fleet))


def _read_on(pages: PlainPages) -> None:
    """Prints a page, then reads which is wanted next."""
    from orkbench_tui.cli import output

    for text in (*pages.menu(), *pages.lines()):
        output.emit(one_line(text, 1000))
    while True:
        if sys.stdin.isatty():
            output.emit("page: ", end="")
        word = sys.stdin.readline()
        if not word or word.strip().lower() in ("q", "quit", "exit"):
            return
        if word.strip() and (wrong := pages.go(word)):
            output.emit(one_line(wrong, 1000))
            continue
        for text in pages.lines():
            output.emit(one_line(text, 1000))


def _require_terminal() -> None:
    """
    Raises:
        UsageError: input, output or the error stream is no terminal, or the terminal cannot place text.
    """
    instead = "use `ork board status` or `ork board watch`"
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("ork-tui needs a terminal for input, output and errors", do=instead)
    if os.environ.get("TERM", "dumb") in ("dumb", ""):
        raise UsageError("ork-tui needs a terminal that can place text", why="TERM is dumb", do=instead)


def _connector(settings: Settings, first: BoardFiles, label: str) -> Callable[[], BoardFiles]:
    """Gives the open files once; after they were lost, looks for the board again without starting a simulator."""
    waiting = [first]

    def connect() -> BoardFiles:
        if waiting:
            return waiting.pop()
        from orkbench_tui.target import connect_files, simulator

        if label == "sim" and simulator().status() is None:
            raise NoDeviceError("the simulated board stopped", do="`ork sim start` brings it back")
        return connect_files(settings.with_flags(target=label))

    return connect


def main() -> None:
    sys.exit(run(app=_app, prog="ork-tui"))
