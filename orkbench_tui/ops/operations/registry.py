"""All guarded operations, in the order they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from orkbench_tui.ops.guard.declaration import Operation
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
        "reversible": "`y` or `--yes`",
        "interrupts": "host name or `--confirm HOST`",
        "unreachable": "host name and release or `--confirm 'HOST RELEASE'`",
    }
    rows = [
        "| command | does | risk | confirmed by | needs root | cannot be undone |",
        "|---|---|---|---|---|---|",
    ]
    for operation in operations.values():
        by = confirmed.get(operation.risk.value, "host name and phrase")
        rows.append(
            f"| `{operation.called}` | {operation.title}: {operation.why} | {operation.risk.value} | {by} "
            f"| {operation.root or 'nothing'} | {operation.lasting or 'nothing, it is undone as a whole'} |"
        )
    return "\n".join(rows) + "\n"
