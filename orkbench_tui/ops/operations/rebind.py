"""Take the NPU's driver off its device and put it back: the last thing before a reboot, and no source has tested it."""

from __future__ import annotations

import re

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.verbs import DRIVER_FOLDER
from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.ops.operations.preflight import (
    health_step,
    idle,
    no_holders,
    require_rknpu,
    tested_by,
)

__all__ = ["REBIND"]

_BUFFERS = "/sys/kernel/debug/dma_buf/bufinfo"
_SWITCH = re.compile(r"switch iommu domain from \d+ to (\d+)")


def _device(board: GuardedBoard) -> str:
    """The bound device's name, "" when none is bound."""
    return next((name for name in board.files.list(DRIVER_FOLDER) if name.endswith(".npu")), "")


def _no_buffers(board: GuardedBoard) -> Check:
    what = "no exported buffer is alive"
    text = board.text(_BUFFERS)
    total = re.search(r"Total (\d+) objects", text or "")
    if total is None:
        return Check("warn", what, f"{_BUFFERS} cannot be read: unknown")
    return Check.of(total[1] == "0", what, f"{total[1]} dma-bufs")


def _domain_zero(board: GuardedBoard) -> Check:
    what = "domain 0 is live"
    if not board.log_readable():
        return Check("warn", what, "the kernel log cannot be read: unknown")
    live = "0"
    for record in parse_kmsg(board.files.kernel_log()):
        found = _SWITCH.search(record.message)
        live = found[1] if found else live
    return Check.of(
        live == "0", what, f"the log's last switch went to {live}; a small matmul in domain 0 goes back"
    )


def plan(board: GuardedBoard, words: Words) -> Plan:
    require_rknpu(board)
    device = _device(board)
    node = f"{DRIVER_FOLDER}/{device}"
    return Plan(
        REBIND,
        board.host,
        facts=(("device", device or "none is bound"),),
        checks=(
            Check.of(bool(device), "the driver is bound", DRIVER_FOLDER),
            no_holders(board),
            idle(board),
            _no_buffers(board),
            _domain_zero(board),
        ),
        steps=(
            Step("unbind", node, "bound", "unbound"),
            Step("bind", node, None, "bound", "after two seconds"),
            health_step(board),
        )
        if device
        else (),
        verified_by=f"the driver's version is back, then {tested_by(board)}",
        phrase=REBIND.second_word,
        words=words,
    )


REBIND = Operation(
    name="rebind",
    title="unbind and bind the NPU's driver",
    risk=Risk.UNREACHABLE,
    why="frees every domain with what leaked in it, without a reboot; the driver frees memory under open files, so "
    "nothing may be open, and no source has seen it tested",
    root="writing to /sys/bus/platform/drivers/RKNPU",
    lasting="leaked mappings, and every domain besides 0",
    second_word="rebind",
    plan=plan,
    holds_npu=True,
)
