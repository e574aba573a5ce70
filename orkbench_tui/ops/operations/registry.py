"""All guarded operations, in the order they are shown."""

from __future__ import annotations

from orkbench_tui.ops.guard.declaration import Operation
from orkbench_tui.ops.operations.drain import DRAIN
from orkbench_tui.ops.operations.drop_caches import DROP_CACHES
from orkbench_tui.ops.operations.governors import GOVERNORS
from orkbench_tui.ops.operations.irq_affinity import IRQ_AFFINITY
from orkbench_tui.ops.operations.recover import RECOVER
from orkbench_tui.ops.operations.reset import RESET

__all__ = ["OPERATIONS", "table"]

OPERATIONS: dict[str, Operation] = {
    operation.name: operation for operation in (DROP_CACHES, GOVERNORS, IRQ_AFFINITY, DRAIN, RESET, RECOVER)
}


def table() -> str:
    """The declarations as the Markdown table of docs/operations.md."""
    confirmed = {"reversible": "`y` or `--yes`", "interrupts": "host name or `--confirm HOST`"}
    rows = [
        "| command | does | risk | confirmed by | needs root | cannot be undone |",
        "|---|---|---|---|---|---|",
    ]
    for operation in OPERATIONS.values():
        by = confirmed.get(operation.risk.value, "host name and phrase")
        rows.append(
            f"| `ork board {operation.name}` | {operation.title}: {operation.why} | {operation.risk.value} | {by} "
            f"| {operation.root or 'nothing'} | {operation.lasting or 'nothing, it is undone as a whole'} |"
        )
    return "\n".join(rows) + "\n"
