"""All guarded operations, in the order they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from orkbench_tui.ops.guard.declaration import Operation, Risk
from orkbench_tui.ops.operations.drain import DRAIN
from orkbench_tui.ops.operations.drop_caches import DROP_CACHES
from orkbench_tui.ops.operations.governors import GOVERNORS
from orkbench_tui.ops.operations.irq_affinity import IRQ_AFFINITY
from orkbench_tui.ops.operations.rebind import REBIND
from orkbench_tui.ops.operations.reboot import REBOOT
from orkbench_tui.ops.operations.recover import RECOVER
from orkbench_tui.ops.operations.reset import RESET
from orkbench_tui.ops.operations.setup import SETUP
from orkbench_tui.ops.operations.watchdog import WATCHDOG

__all__ = ["OPERATIONS", "table"]

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        DROP_CACHES,
        GOVERNORS,
        IRQ_AFFINITY,
        DRAIN,
        RESET,
        RECOVER,
        REBIND,
        REBOOT,
        WATCHDOG,
        SETUP,
    )
}


def table(operations: Mapping[str, Operation] = OPERATIONS) -> str:
    """The declarations as a Markdown table: that of docs/operations.md, or of docs/kernel.md."""
    confirmed = {
        Risk.REVERSIBLE: "`y` or `--yes`",
        Risk.INTERRUPTS: "host name or `--confirm HOST`",
        Risk.UNREACHABLE: "host name and {word} or `--confirm 'HOST {word}'`",
    }
    rows = [
        "| command | does | risk | confirmed by | needs root | cannot be undone |",
        "|---|---|---|---|---|---|",
    ]
    for operation in operations.values():
        by = confirmed[operation.risk].format(word=operation.second_word)
        rows.append(
            f"| `{operation.called}` | {operation.title}: {operation.why} | {operation.risk.value} | {by} "
            f"| {operation.root or 'nothing'} | {operation.lasting or 'nothing, it is undone as a whole'} |"
        )
    return "\n".join(rows) + "\n"
