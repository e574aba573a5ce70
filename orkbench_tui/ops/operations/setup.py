"""What a plain user needs to work with the NPU: groups, device permissions, and reading debugfs."""

from __future__ import annotations

import re

from orkbench_tui.errors import UsageError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.disk_steps import folder_steps, removal_steps, text_steps
from orkbench_tui.ops.guard.groups import members, parse_groups
from orkbench_tui.ops.kernel.facts import required_disk

__all__ = ["SETUP"]

_GROUPS = ("render", "video")
_RULES = "/etc/udev/rules.d/60-ork-npu.rules"
_RULES_TEXT = """# The NPU's render node and the buffer heaps for members of render and video.
SUBSYSTEM=="drm", KERNEL=="renderD*", GROUP="render", MODE="0660"
SUBSYSTEM=="dma_heap", GROUP="video", MODE="0660"
"""
_MOUNT = "/etc/systemd/system/sys-kernel-debug.mount.d/ork.conf"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def plan(board: GuardedBoard, words: Words) -> Plan:
    user, mode = words.get("user", ""), words.get("mode", "do")
    if _USER.fullmatch(user) is None or user == "root":
        raise UsageError(f"user {user!r}", why="a plain user's name: lower case letters, digits, _ and -")
    if mode not in ("do", "undo"):
        raise UsageError(f"mode {mode!r}", why="allowed: do, undo")
    disk = required_disk(board)
    groups = parse_groups(disk.read("/etc/group", 1 << 20).decode("utf-8", "replace"))
    missing = [name for name in _GROUPS if name not in groups]
    wanted = "member" if mode == "do" else "no member"
    joins = tuple(
        Step("group", f"{user} {name}", now, wanted)
        for name in _GROUPS
        if name in groups and (now := members(groups, user, name)) != wanted
    )
    gid = groups[_GROUPS[0]].gid if not missing else 0
    mount = f"[Mount]\nOptions=gid={gid},mode=0750\n"
    if mode == "do":
        files = (
            *folder_steps(disk, _RULES.rpartition("/")[0]),
            *text_steps(disk, _RULES, _RULES_TEXT, "device permissions"),
            *folder_steps(disk, _MOUNT.rpartition("/")[0]),
            *text_steps(disk, _MOUNT, mount, f"debugfs can be read by {_GROUPS[0]}"),
        )
    else:
        files = (*removal_steps(disk, _RULES), *removal_steps(disk, _MOUNT))
    return Plan(
        SETUP,
        board.host,
        facts=(("user", user), *((name, members(groups, user, name)) for name in _GROUPS if name in groups)),
        checks=(Check.of(not missing, "the groups exist", ", ".join(missing) or ", ".join(_GROUPS)),),
        steps=(*joins, *files),
        verified_by="reading groups and files again; groups count from the next login, the rest from the next boot",
        words=words,
    )


SETUP = Operation(
    name="setup",
    title="let a plain user work with the NPU",
    risk=Risk.REVERSIBLE,
    why="the node belongs to group render, buffers to video, and the load lies in debugfs, which only root may read",
    root="changing groups, and writing to /etc",
    lasting="",
    plan=plan,
    options=(("user", "whose"), ("mode", "do or undo")),
)
