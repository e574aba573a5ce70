"""``/proc/interrupts``: completions per NPU core.

Every finished command chain raises one interrupt, but the line is shared with the core's IOMMU, whose page
faults count too. The number on the left changes per boot, so lines are found by device name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orkbench_tui.ops.kernel_log.rules import NPU_NODE

__all__ = ["NpuInterrupt", "parse_npu_interrupts"]

_LINE = re.compile(r"\s*([0-9]{1,6}):((?:\s+[0-9]{1,20})+)\s+([A-Za-z]\S*)\s+([0-9]{1,10})\s+(.*)", re.ASCII)
_NODE = re.compile(rf"\b{NPU_NODE}\b")


@dataclass(frozen=True, slots=True)
class NpuInterrupt:
    """One line; ``hwirq`` orders the cores, ``count`` is the sum over all CPUs since boot."""

    hwirq: int
    node: str
    count: int
    per_cpu: tuple[int, ...]


def parse_npu_interrupts(text: str) -> tuple[NpuInterrupt, ...]:
    """NPU lines in core order; empty when the driver has requested none."""
    found: list[NpuInterrupt] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        node = _NODE.search(match[5])
        if node is None:
            continue
        counts = tuple(int(word) for word in match[2].split())
        found.append(NpuInterrupt(int(match[4]), node[0], sum(counts), counts))
    return tuple(sorted(found, key=lambda item: item.hwirq))
