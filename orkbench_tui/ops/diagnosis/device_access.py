"""What the readings say about the NPU's device nodes, and who may open them."""

from __future__ import annotations

import re

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.readings import Entry

__all__ = ["DEVICE", "OPEN_FAILED", "device_nodes", "driver_started", "missing_groups", "refused"]

OPEN_FAILED = (
    r"failed to open rknpu|failed to open rknn device|need to insmod rknpu|RKNN_ERR_DEVICE_UNAVAILABLE|"
    r"can(?:not|'t) open .*(?:/dev/dri|rknpu|accel)|no (?:rknpu|NPU) (?:device|driver|found)|open.*(?:renderD|card)\d+.*fail"
)
DEVICE = re.compile(r"^/dev/(?:dri|rknpu|accel|dma_heap)(?:/|$)")
_NODE_NAME = re.compile(r"(?:card|renderD|accel)\d+|rknpu")


def device_nodes(evidence: Evidence) -> list[Entry]:
    return [
        entry
        for entry in evidence.entries
        if entry.kind in ("c", "")
        and _NODE_NAME.fullmatch(entry.name.rsplit("/", 1)[-1])
        and "boot" not in entry.folder
    ]


def driver_started(evidence: Evidence) -> bool:
    """Whether the vendor driver is known to run."""
    return bool(
        (evidence.driver == "rknpu" and not evidence.of("npu.boot.failed"))
        or (evidence.driver_version and evidence.driver != "rocket")
        or evidence.loads
    )


def missing_groups(evidence: Evidence) -> list[str]:
    user = evidence.user
    if user is None or user.uid == 0:
        return []
    wanted = {
        entry.group for entry in device_nodes(evidence) if entry.kind == "c" and entry.mode[3:5] == "rw"
    } - {
        "root",
        "",
    }
    # The render node is enough for every call of the driver, but runtimes also try the card node.
    return sorted(wanted - user.groups)


def refused(evidence: Evidence) -> bool:
    return bool(missing_groups(evidence)) or any(
        e.errno in ("EACCES", "EPERM") and DEVICE.match(e.path) for e in evidence.errors
    )
