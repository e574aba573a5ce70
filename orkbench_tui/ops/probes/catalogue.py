"""Every probe by name."""

from __future__ import annotations

from orkbench_tui.ops.probes import (
    attention,
    chains,
    concurrency,
    decode,
    experts,
    host_work,
    imports,
    layout,
    memory,
    modes,
    rotation,
    submits,
    transitions,
    walls,
    weights,
)
from orkbench_tui.ops.probes.declaration import Probe

__all__ = ["PROBES"]

_GROUPS = (
    submits,
    chains,
    decode,
    weights,
    experts,
    host_work,
    attention,
    memory,
    imports,
    layout,
    modes,
    concurrency,
    transitions,
    rotation,
    walls,
)

PROBES: dict[str, Probe] = {probe.name: probe for group in _GROUPS for probe in group.PROBES}
