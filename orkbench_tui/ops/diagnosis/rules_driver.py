"""The driver: there, and new enough."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.device_access import (
    DEVICE,
    OPEN_FAILED,
    driver_started,
    refused,
)
from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.incidents import hangs
from orkbench_tui.ops.diagnosis.rules_jobs import BROKEN_MULTICORE
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import make, quotes

__all__ = ["missing", "too_old"]

_NEEDED = (0, 9, 6)
_FOLDER = "/sys/bus/platform/drivers/RKNPU"


_TREE = re.compile(r"^/proc/device-tree|^/sys/firmware/devicetree")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def missing(evidence: Evidence) -> Iterator[Verdict]:
    failed = evidence.of("npu.boot.failed")
    opening = evidence.said(OPEN_FAILED + r"|modprobe: FATAL: Module rknpu not found|Module rknpu not found")
    started = driver_started(evidence)
    absent = [e for e in evidence.errors if e.errno in ("ENOENT", "ENODEV") and DEVICE.match(e.path)]
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
    wanted = bool(opening or evidence.said(r"rknn|rkllm"))
    rocket = evidence.driver == "rocket" and (wanted or evidence.live)
    if evidence.live and not started and evidence.driver != "rocket":
        silent = True
    unbound = _unbound(evidence)
    if failed:
        reason = "the driver is there and did not start"
    elif unbound:
        reason = "the rknpu driver was taken off the NPU and has no device"
    elif rocket:
        reason = "the mainline rocket driver owns the NPU; " + (
            "the vendor runtime needs rknpu"
            if wanted
            else "`ork run` and all else that needs rknpu do not use it"
        )
    elif started and not absent:
        return
    elif disabled:
        reason = "the device tree has the NPU disabled"
    elif config == "n" and not started:
        reason = "this kernel was built without the rknpu driver"
    elif not started and (silent or no_node or absent):
        reason = "no rknpu driver runs here"
    elif not started and not refused(evidence) and (opening or _masked(evidence)):
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
            f"put it back: `ork board resume` where `ork board rebind` was interrupted, else `echo DEVICE | sudo tee {_FOLDER}/bind` "
            "(fdab0000.npu on an RK3588), or reboot"
            if unbound
            else "boot a vendor kernel with the rknpu driver (BSP 5.10 or 6.1, `vendor` branch), with the device tree of the same "
            "kernel",
            "the vendor runtime does not work on rocket: either boot the vendor kernel, or use software made for rocket (/dev/accel)"
            if rocket or evidence.driver == "rocket"
            else "",
            "enable the NPU node in the device tree (an overlay of the distribution where there is one) and reboot"
            if disabled
            else "",
            "use the device tree and kernel that belong together: the probe lines above name what is missing"
            if failed
            else "",
            ""
            if unbound
            else "in a container check the host first: pass the device node of the NPU into it, and make sure that /proc/device-tree "
            "is not masked",
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
        severity=Level.LOW if rocket and not wanted and not failed else None,
    )


def _unbound(evidence: Evidence) -> bool:
    """Whether the driver's folder was listed and holds no NPU."""
    names = {entry.name for entry in evidence.entries if entry.folder == _FOLDER}
    return "bind" in names and not any(name.endswith(".npu") for name in names)


def _masked(evidence: Evidence) -> list[str]:
    """A device tree that is not there: a container hides it, or this is no such board."""
    return [e.line for e in evidence.errors if e.errno == "ENOENT" and _TREE.match(e.path)]


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
