"""The driver: there, new enough, reachable for this user, powered, with clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.incidents import hangs
from orkbench_tui.ops.diagnosis.readings import Entry
from orkbench_tui.ops.diagnosis.rules_jobs import BROKEN_MULTICORE
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import make, quotes

__all__ = ["debugfs", "missing", "opp", "permission", "power", "too_old"]

_NEEDED = (0, 9, 6)
_OPEN_FAILED = (
    r"failed to open rknpu|failed to open rknn device|need to insmod rknpu|RKNN_ERR_DEVICE_UNAVAILABLE|"
    r"can(?:not|'t) open .*(?:/dev/dri|rknpu|accel)|no (?:rknpu|NPU) (?:device|driver|found)|open.*(?:renderD|card)\d+.*fail"
)
_REFUSED = r"Permission denied|EACCES|Operation not permitted|EPERM|errno: ?(?:13|1)\b"
_DEVICE = re.compile(r"^/dev/(?:dri|rknpu|accel|dma_heap)(?:/|$)")
_TREE = re.compile(r"^/proc/device-tree|^/sys/firmware/devicetree")
_NODE_NAME = re.compile(r"(?:card|renderD|accel)\d+|rknpu")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def _nodes(evidence: Evidence) -> list[Entry]:
    return [
        entry
        for entry in evidence.entries
        if entry.kind in ("c", "")
        and _NODE_NAME.fullmatch(entry.name.rsplit("/", 1)[-1])
        and "boot" not in entry.folder
    ]


def _started(evidence: Evidence) -> bool:
    """Whether the vendor driver is known to run."""
    return bool(
        (evidence.driver == "rknpu" and not evidence.of("npu.boot.failed"))
        or (evidence.driver_version and evidence.driver != "rocket")
        or evidence.loads
    )


def _missing_groups(evidence: Evidence) -> list[str]:
    user = evidence.user
    if user is None or user.uid == 0:
        return []
    wanted = {entry.group for entry in _nodes(evidence) if entry.kind == "c" and entry.mode[3:5] == "rw"} - {
        "root",
        "",
    }
    # The render node is enough for every call of the driver, but runtimes also try the card node.
    return sorted(wanted - user.groups)


def permission(evidence: Evidence) -> Iterator[Verdict]:
    denied = [e for e in evidence.errors if e.errno in ("EACCES", "EPERM")]
    devices = [e for e in denied if _DEVICE.match(e.path)]
    debug = [e for e in denied if e.path.startswith("/sys/kernel/debug")]
    opening = evidence.said(_OPEN_FAILED)
    refused = devices or (opening and evidence.said(_REFUSED))
    groups = _missing_groups(evidence)
    nodes = [entry for entry in _nodes(evidence) if entry.kind == "c"]
    user = evidence.user
    no_group = bool(user and user.uid != 0 and nodes and not user.groups & {entry.group for entry in nodes})
    closed = [entry for entry in nodes if entry.group == "root" and "rw" not in entry.mode[6:]]
    if refused or (opening and (groups or (closed and user and user.uid != 0))) or no_group:
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
                if _started(evidence) or nodes
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


def missing(evidence: Evidence) -> Iterator[Verdict]:
    failed = evidence.of("npu.boot.failed")
    opening = evidence.said(_OPEN_FAILED + r"|modprobe: FATAL: Module rknpu not found|Module rknpu not found")
    started = _started(evidence)
    absent = [e for e in evidence.errors if e.errno in ("ENOENT", "ENODEV") and _DEVICE.match(e.path)]
    disabled = [
        p
        for p, v in evidence.values.items()
        if re.search(r"npu@[0-9a-f]+/status$", p) and v.startswith("disabled")
    ]
    config = evidence.config.get("CONFIG_ROCKCHIP_RKNPU", "")
    whole_boot = evidence.log_given and any(
        m.startswith(("Linux version", "Booting Linux")) for m in evidence.messages
    )
    silent = whole_boot and not any(re.search(r"(?i)rknpu|\brocket\b", m) for m in evidence.messages)
    listed = any(folder.startswith("/dev") for folder in evidence.folders)
    no_node = listed and not any(
        re.match(r"renderD|rknpu|accel|card[1-9]", e.name.rsplit("/", 1)[-1]) for e in evidence.entries
    )
    rocket = evidence.driver == "rocket" and bool(opening or evidence.said(r"rknn|rkllm"))
    if evidence.live and not started and evidence.driver != "rocket":
        silent = True
    if failed:
        reason = "the driver is there and did not start"
    elif rocket:
        reason = "the mainline rocket driver owns the NPU; the vendor runtime needs rknpu"
    elif started and not absent:
        return
    elif disabled:
        reason = "the device tree has the NPU disabled"
    elif config == "n" and not started:
        reason = "this kernel was built without the rknpu driver"
    elif not started and (silent or no_node or absent):
        reason = "no rknpu driver runs here"
    elif not started and not _refused(evidence) and (opening or _masked(evidence)):
        opening = opening or _masked(evidence)
        yield make(
            "driver-missing",
            "the runtime cannot open the NPU; cause open: no driver, or no permission",
            evidence=opening[:3],
            advice=(
                "take a second reading: `ls -l /dev/dri`, `id`, `cat /sys/module/rknpu/version`",
                "with the module's version there it is a matter of groups (video, render) and a new login; without it the kernel has no "
                "rknpu driver",
                "the text about insmod is printed for both" if not _masked(evidence) else "",
                "without /proc/device-tree this is another kind of machine, or a container that masks it: look on the host"
                if _masked(evidence)
                else "",
            ),
            refuse=("insmod rknpu", "install a driver file from the net", "report the model as loaded"),
            facts={
                "cause": "open",
                "candidates": ["permission-denied", "driver-missing"],
                "driver": evidence.driver or None,
            },
        )
        return
    else:
        return
    kernel = f" (kernel {evidence.kernel})" if evidence.kernel else ""
    yield make(
        "driver-missing",
        reason + kernel,
        evidence=[
            *quotes(failed, 3),
            *opening[:2],
            *[e.line for e in absent[:2]],
            *[f"{p}: disabled" for p in disabled[:2]],
            *[f"{e.folder}/{e.name}" for e in evidence.entries[:4] if no_node],
        ],
        advice=(
            "boot a vendor kernel with the rknpu driver (BSP 5.10 or 6.1, `vendor` branch), with the device tree of the same kernel",
            "the vendor runtime does not work on rocket: either boot the vendor kernel, or use software made for rocket (/dev/accel)"
            if rocket or evidence.driver == "rocket"
            else "",
            "enable the NPU node in the device tree (an overlay of the distribution where there is one) and reboot"
            if disabled
            else "",
            "use the device tree and kernel that belong together: the probe lines above name what is missing"
            if failed
            else "",
            "in a container check the host first: pass the device node of the NPU into it, and make sure that /proc/device-tree is "
            "not masked",
            "look with `cat /sys/module/rknpu/version` and `ork board status`; a module is loaded with `sudo modprobe rknpu`",
        ),
        refuse=(
            "install a driver file from an unknown archive",
            "insmod a module of another kernel",
            "set the NPU clock under the mainline driver"
            if evidence.driver == "rocket"
            else "report the model as loaded",
        ),
        facts={
            "driver": evidence.driver or None,
            "kernel": evidence.kernel or None,
            "disabled": bool(disabled),
        },
    )


def _masked(evidence: Evidence) -> list[str]:
    """A device tree that is not there: a container hides it, or this is no such board."""
    return [e.line for e in evidence.errors if e.errno == "ENOENT" and _TREE.match(e.path)]


def _refused(evidence: Evidence) -> bool:
    return bool(_missing_groups(evidence)) or any(
        e.errno in ("EACCES", "EPERM") and _DEVICE.match(e.path) for e in evidence.errors
    )


_TOO_LOW = r"driver version is too low|please (?:upgrade|update).*(?:rknpu|driver)|Mismatch driver version|driver.*(?:at least|>=|too old)"
_LOAD_FAILED = r"load model file error|rkllm_init failed|rknn_init.*fail|can(?:'t| ?not) create weight memory|weight_memory is NULL|failed to allocate handle"


def too_old(evidence: Evidence) -> Iterator[Verdict]:
    warned = evidence.said(_TOO_LOW)
    failed = evidence.said(_LOAD_FAILED)
    version = _version(evidence.driver_version)
    wanted = next(
        (m[1] for line in warned if (m := re.search(r"(?:to|least|>=|version:?)\s*v?(\d+\.\d+\.\d+)", line))),
        "",
    )
    broken = evidence.driver_version in BROKEN_MULTICORE
    trouble = bool(failed or hangs(evidence.log) or evidence.said(r"(?i)core|submit|fail|hang"))
    old = bool(version) and version < _NEEDED
    if not (old or warned) or (broken and hangs(evidence.log)):
        return
    if version and not old and wanted and version >= _version(wanted):
        return
    claimed = bool(evidence.said(r"initialized successfully"))
    if broken:
        title = f"driver {evidence.driver_version} is known to break work on several cores"
    else:
        title = f"driver {evidence.driver_version or 'of unknown version'} is older than what is needed"
        title += f" ({wanted or '0.9.6'})"
    yield make(
        "driver-too-old",
        title,
        evidence=[
            *warned[:2],
            *failed[:3],
            f"driver {evidence.driver_version}, kernel {evidence.kernel or 'unknown'}",
        ],
        advice=(
            f"here runs {evidence.driver_version or 'an unknown version'}; needed is 0.9.6 or later"
            + (f", {wanted} for this runtime" if wanted and wanted != "0.9.6" else "")
            + ": models of more than one domain (4 GiB) need it",
            "newer is not always better: 0.9.2 and 0.9.3 break multi-core work; use one core, or go to 0.9.6 or later (0.9.8)",
            "the driver is part of the kernel: install a kernel package of your distribution that carries it, keep the old kernel "
            "bootable, and reboot; where it is a DKMS module rebuild that package",
            "until then: smaller models (one domain), one core",
            "the runtime's message of success is wrong: the model is not loaded"
            if claimed and failed
            else "",
        ),
        refuse=(
            "report the model as loaded",
            "install only a driver file or a module of another kernel",
            "download a driver archive of unknown origin",
        ),
        facts={
            "driver_version": evidence.driver_version or None,
            "wanted_version": wanted or "0.9.6",
            "kernel": evidence.kernel or None,
            "model_loaded": False if failed else None,
            "breaks_multicore": broken,
        },
        severity=None if trouble or warned else Level.LOW,
    )


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
        and not _started(evidence)
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


def power(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.power.domain", "npu.power.supply", "npu.power.panic")
    aborts = evidence.of("kernel.abort")
    trace = any("rknpu" in message for message in evidence.messages[-200:])
    before = [
        item for item in evidence.earlier if item.rule and item.rule.id in ("npu.power.panic", "kernel.abort")
    ]
    if aborts and trace:
        lines += aborts
    panic = any("panic" in item.record.message for item in (*lines, *before, *evidence.of("kernel.panic")))
    if not lines and not before:
        return
    names = sorted({item.figures["name"] for item in lines if "name" in item.figures})
    names += sorted(
        {m[1] for item in (*lines, *before) if (m := re.search(r"domain '(\w+)'", item.record.message))}
    )
    codes = sorted({item.figures["ret"] for item in lines if "ret" in item.figures})
    yield make(
        "power-domain-failure",
        f"the NPU's power domain{' ' + ', '.join(names) if names else ''} did not come up"
        + (", and the kernel stopped (panic)" if panic else "")
        + (" in an earlier boot of this log" if before and not lines else ""),
        evidence=quotes([*lines[:4], *before[:2], *evidence.of("kernel.panic")[:1]]),
        advice=(
            "boot the stock kernel with the device tree (dtb) that belongs to it: a kernel and device tree that do not match leave the "
            "NPU's supply (vdd_npu) or clock out",
            "check the supply in the device tree: rknpu-supply and the domain's supply must name a regulator that is on "
            "(`vdd_npu: disabling` about 30 s after boot switches an unused one off)",
            "if the board does not come up, disable the NPU node in the device tree of the next boot and keep a serial console",
            "after such a line reboot before the NPU is used again: the driver counts the power as on"
            if not panic
            else "",
        ),
        refuse=("start another job", "power the domain on by hand through debugfs", "raise the voltage"),
        facts={
            "domains": names,
            "ret": [int(code[:9]) for code in codes],
            "panic": panic,
            "earlier_boot": bool(before and not lines),
        },
    )


def opp(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.devfreq.absent", "npu.devfreq.opp", "npu.power.dvfs")
    npu = evidence.value(r"/devfreq/[0-9a-f]+\.(?:rk)?npu/(?:cur_freq|available_frequencies)$")
    empty = [path for path, text in npu if path.endswith("available_frequencies") and not text.strip()]
    listed = [e.name for e in evidence.entries if e.folder.endswith("/devfreq")]
    absent = bool(listed) and not any(re.search(r"npu", name) for name in listed) and _started(evidence)
    fixed = [
        text
        for path, text in npu
        if path.endswith("cur_freq") and text.isdigit() and len(text) < 12 and int(text) == 200_000_000
    ]
    slow = [
        f"{path}: {text}"
        for path, text in evidence.value(r"clk\w*npu\w*/(?:clk_)?rate$")
        if text == "200000000"
    ]
    slow += evidence.said(r"clk\w*_npu\w*\s.*\b200000000\b")
    said = [
        *slow,
        *evidence.said(
            r"(?:no|missing|without).*(?:opp|operating[- ]points)|npu.*devfreq.*(?:missing|not found)|rknpu_ondemand.*not"
        ),
    ]
    if not (lines or empty or absent or fixed or said):
        if ddr := evidence.of("ddr.devfreq.absent"):
            yield make(
                "opp-missing",
                "no frequency control of the DDR with this firmware; the NPU is not concerned",
                evidence=quotes(ddr, 1),
                advice=(
                    "speed figures bound by DDR are not comparable with other boards: say so beside them",
                ),
                refuse=("compare decode speed with boards whose DDR is pinned",),
                facts={"devfreq": None, "ddr_devfreq": False},
                severity=Level.INFO,
            )
        return
    yield make(
        "opp-missing",
        "no frequency control of the NPU: it stays at its boot clock (200 MHz on RK3588), up to seven times slower",
        evidence=[
            *quotes(lines),
            *[f"{path}: {text}" for path, text in npu[:3]],
            *said[:2],
            *[f"/sys/class/devfreq/{n}" for n in listed[:3]],
        ],
        advice=(
            "use the device tree of the same kernel: its operating points (opp table) must fit the driver; each opp-microvolt entry "
            "needs one triplet for each supply the driver registers",
            "read the clock from devfreq cur_freq or clk_summary before timing anything: figures at the boot clock are not comparable",
            "the NPU computes correctly meanwhile",
            "leave the clock alone under the mainline driver: setting it by hand can hang the board"
            if evidence.driver == "rocket"
            else "",
        ),
        refuse=(
            "write the NPU clock by hand",
            "raise the voltage",
            "compare speed figures taken at this clock",
        ),
        facts={
            "devfreq": False if lines or absent or empty else None,
            "cur_freq_hz": int(fixed[0]) if fixed else None,
            "failures": len(lines),
        },
    )
