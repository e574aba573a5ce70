"""Pictures of the live screen for documents: the app itself, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.screens.app import OrkApp

__all__ = ["save_picture"]


def save_picture(
    connect: Callable[[], BoardFiles],
    occupancy_dir: Path,
    path: Path,
    *,
    size: tuple[int, int] = (100, 30),
    seconds: float = 30.0,
    interval_s: float = 0.5,
) -> None:
    """Run the dashboard for ``seconds`` at ``size`` (columns, rows) and write what it shows as SVG."""
    app = OrkApp(connect, occupancy_dir, interval_s=interval_s, process_time=None)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await asyncio.sleep(seconds)
            await pilot.pause()
            path.write_text(app.export_screenshot(title="ork-tui"))

    asyncio.run(run())
