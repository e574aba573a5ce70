"""What this user may read and open."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.device_access import (
    DEVICE,
    OPEN_FAILED,
    device_nodes,
    driver_started,
    missing_groups,
)
from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import make

__all__ = ["debugfs", "permission"]

_REFUSED = r"Permission denied|EACCES|Operation not permitted|EPERM|errno: ?(?:13|1)\b"


def permission(evidence: Evidence) -> Iterator[Verdict]:
    denied = [e for e in evidence.errors if e.errno in ("EACCES", "EPERM")]
    devices = [e for e in denied if DEVICE.match(e.path)]
    debug = [e for e in denied if e.path.startswith("/sys/kernel/debug")]
    opening = evidence.said(OPEN_FAILED)
    turned_away = devices or (opening and evidence.said(_REFUSED))
    groups = missing_groups(evidence)
    nodes = [entry for entry in device_nodes(evidence) if entry.kind == "c"]
    user = evidence.user
    no_group = bool(user and user.uid != 0 and nodes and not user.groups & {entry.group for entry in nodes})
    closed = [entry for entry in nodes if entry.group == "root" and "rw" not in entry.mode[6:]]
    if turned_away or (opening and (groups or (closed and user and user.uid != 0))) or no_group:
        root = user is not None and user.uid == 0
        names = " and ".join(groups) if groups else "video and render"
        yield make(
            "permission-denied",
            "this user may not open the NPU's device node"
            + (f": not in group {', '.join(groups)}" if groups else ""),
            evidence=[
                *[e.line for e in devices[:2]],
                *opening[:2],
                *[f"{e.kind}{e.mode} {e.owner} {e.group} {e.name}" for e in nodes[:4]],
                f"groups of this user: {' '.join(sorted(user.groups)) or 'none'}" if user else "",
            ],
            advice=(
                "root is refused too: this is a container or a security profile; pass the one device node "
                "(--device /dev/dri/renderD129 and /dev/dri/card1 as they are named here) and nothing more"
                if root
                else f'add the user to {names}: `sudo usermod -aG {",".join(groups) or "video,render"} "$USER"`',
                ""
                if root
                else "then log in again (log out fully; a new login picks up the groups), and check with `id`",
                "the driver runs: the message about insmod is wrong here"
                if driver_started(evidence) or nodes
                else "",
                "if the nodes belong to root alone, a udev rule with group render and mode 0660 is missing"
                if closed
                else "",
            ),
            refuse=(
                "chmod 777 (or any mode for everybody) on the device node",
                "insmod rknpu",
                "run everything as root",
                "a privileged container",
            ),
            facts={
                "missing_groups": groups,
                "uid": user.uid if user else None,
                "driver_version": evidence.driver_version or None,
            },
        )
    elif debug or [e for e in denied if e.path.startswith(("/sys", "/proc", "/dev/kmsg"))]:
        if evidence.live:
            return
        found = debug or denied
        yield make(
            "permission-denied",
            f"{found[0].path} is for root only",
            evidence=[e.line for e in found[:3]],
            advice=(
                "read it with sudo; debugfs is mode 0700 by design, the files exist",
                "without root: /proc/rknpu/load where the kernel was built with it, else jobs per core from /proc/interrupts and "
                "clocks from /sys/class/devfreq",
                "the value is unknown, not 0",
            ),
            refuse=("chmod 777 or any opening of /sys/kernel/debug", "show 0 for it", "insmod rknpu"),
            facts={"path": found[0].path, "errno": found[0].errno},
        )
    elif evidence.user and groups and opening:
        return


def debugfs(evidence: Evidence) -> Iterator[Verdict]:
    found = [e for e in evidence.errors if re.match(r"/sys/kernel/debug(?:/rknpu|/?$)|/proc/rknpu", e.path)]
    absent = [e for e in found if e.errno == "ENOENT"]
    denied = [e for e in found if e.errno in ("EACCES", "EPERM")]
    built_without = (
        evidence.config.get("CONFIG_ROCKCHIP_RKNPU_DEBUG_FS") == "n"
        or evidence.config.get("CONFIG_DEBUG_FS") == "n"
    )
    listed_empty = "/sys/kernel/debug" in evidence.folders and not any(
        e.name == "rknpu" for e in evidence.entries if e.folder == "/sys/kernel/debug"
    )
    unread = [item for item in evidence.capture.unreadable if item.path.endswith("rknpu/load")]
    if evidence.loads or not (absent or denied or built_without or listed_empty or unread):
        return
    if (
        not (absent or built_without or listed_empty)
        and not denied
        and all(i.reason == "absent" for i in unread)
        and not driver_started(evidence)
    ):
        return
    root_only = bool(denied or any(item.reason == "denied" for item in unread)) and not built_without
    yield make(
        "debugfs-unavailable",
        "the driver's debug files are for root only"
        if root_only
        else "the driver's debug files are not there",
        evidence=[
            *[e.line for e in (*denied, *absent)[:3]],
            *[f"{i.path}: {i.errno or i.reason}" for i in unread[:2]],
            *[
                f"{name}=n"
                for name in ("CONFIG_DEBUG_FS", "CONFIG_ROCKCHIP_RKNPU_DEBUG_FS")
                if evidence.config.get(name) == "n"
            ],
        ],
        advice=(
            "read them with sudo"
            if root_only
            else "mount debugfs (`sudo mount -t debugfs none /sys/kernel/debug`); if rknpu is still missing there, the kernel was built "
            "without CONFIG_ROCKCHIP_RKNPU_DEBUG_FS or the mainline driver runs, which has no load file",
            "without them: /proc/rknpu/load where the kernel has CONFIG_ROCKCHIP_RKNPU_PROC_FS, jobs per core from /proc/interrupts, "
            "clocks from /sys/class/devfreq, the version from /sys/module/rknpu/version",
            "the load is unknown, not 0",
        ),
        refuse=(
            "show 0 % for a load that cannot be read",
            "open debugfs for everybody (chmod)",
            "call the driver missing because of it",
        ),
        facts={"root_only": root_only, "driver": evidence.driver or None},
        severity=Level.INFO if evidence.live else None,
    )
