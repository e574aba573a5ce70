"""The guarded operations on kernels, in the order they are shown."""

from __future__ import annotations

from orkbench_tui.ops.guard.declaration import Operation
from orkbench_tui.ops.kernel.deploy import DEPLOY
from orkbench_tui.ops.kernel.going_back import MARK_GOOD, ROLLBACK

__all__ = ["KERNEL_OPERATIONS"]

KERNEL_OPERATIONS: dict[str, Operation] = {
    operation.name: operation for operation in (DEPLOY, MARK_GOOD, ROLLBACK)
}
