"""The ledger of own results and the published figures, read together."""

from __future__ import annotations

from orkbench_tui.driver.timing.reproduction import comparisons
from orkbench_tui.runner.bench.kept_comparisons import kept_comparisons
from orkbench_tui.runner.bench.ledger import Ledger
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.views.bench import BenchShown

__all__ = ["read_bench"]


def read_bench(services: Services) -> BenchShown:
    """Own results, newest first, and the published figures.

    Raises:
        OrkError: the ledger cannot be read.
    """
    loaded = Ledger(services.ledger_file).rows()
    own = tuple(sorted(loaded.rows, key=lambda row: -row.taken_unix_s))
    return BenchShown(
        own=own,
        comparisons=tuple(comparisons()),
        arms=kept_comparisons(loaded.rows),
        note="; ".join(loaded.skipped),
    )
