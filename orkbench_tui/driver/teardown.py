"""In which order buffers are given back.

Every destroy makes the kernel switch to the domain the object is recorded in, and a switch waits for the
NPU, so objects go domain by domain. Within a domain imports go before native buffers, and the anchor, which
must outlive every import, goes last. Nobody switches by hand in between: a switch and a destroy at the same
time leave the process stuck in the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orkbench_tui.driver.memory import Buffer

__all__ = ["switches", "teardown_order"]


def teardown_order(buffers: Iterable[Buffer]) -> list[Buffer]:
    """Domain 0 first: a stock kernel records every import there, and imports go before any anchor."""
    return sorted(buffers, key=lambda b: (b.recorded, b.anchor, b.source is None, b.domain, b.handle))


def switches(order: Iterable[Buffer], live: int | None) -> int:
    """Kernel switches that freeing in this order costs, from ``live`` (None when it is not known)."""
    count = 0
    for buffer in order:
        if buffer.recorded != live:
            count += 1
            live = buffer.recorded
    return count
