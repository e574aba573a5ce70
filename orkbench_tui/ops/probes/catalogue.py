"""Every probe by name."""

from __future__ import annotations

from orkbench_tui.ops.probes import (
    attention,
    chains,
    decode,
    experts,
    host_work,
    imports,
    layout,
    memory,
    modes,
    submits,
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
    walls,
)

PROBES: dict[str, Probe] = {probe.name: probe for group in _GROUPS for probe in group.PROBES}
