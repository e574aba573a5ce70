"""Pictures of the live screen for documents: the app itself, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.screens.app import OrkApp

__all__ = ["save_picture"]

_LOOK_S = 0.1


def save_picture(
    connect: Callable[[], BoardFiles],
    occupancy_dir: Path,
    path: Path,
    *,
    size: tuple[int, int] = (100, 30),
    seconds: float = 30.0,
    interval_s: float = 0.5,
    ready: Callable[[Sample], bool] | None = None,
) -> None:
    """Run the dashboard for ``seconds`` at ``size`` (columns, rows) and write what it shows as SVG.

    With ``ready`` the picture is taken at the first sample it holds for, at the latest after ``seconds``.
    """
    app = OrkApp(connect, occupancy_dir, interval_s=interval_s, process_time=None)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            for _ in range(max(1, round(seconds / _LOOK_S))):
                await asyncio.sleep(_LOOK_S)
                sample = app.state.sample
                if ready is not None and sample is not None and ready(sample):
                    break
            await pilot.pause()
            path.write_text(app.export_screenshot(title="ork-tui"))

    asyncio.run(run())
