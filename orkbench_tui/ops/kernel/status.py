"""Running kernel, installed kernels, what boots next, and whether one is on trial. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orkbench_tui.errors import OrkError
from orkbench_tui.ops.disk import Disk, Kind
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.kernel import state
from orkbench_tui.ops.kernel.configuration import parse_configuration
from orkbench_tui.ops.kernel.facts import KernelFacts, following_boot, kernel_facts
from orkbench_tui.ops.kernel.features import Found, features_of
from orkbench_tui.ops.kernel.layout import kernels_of
from orkbench_tui.ops.kernel.next_boot import NextBoot
from orkbench_tui.ops.kernel.variant import contradictions, kernel_variant
from orkbench_tui.ops.telemetry.wording import byte_size

__all__ = ["Installed", "KernelStatus", "kernel_status", "status_document", "status_lines"]

_IMAGE_BYTES = 64 << 20
_TEXT_BYTES = 1 << 20
_DPKG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Installed:
    release: str
    roles: tuple[str, ...]
    features: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """``driver_kind`` is built-in, module, DKMS module or none."""

    facts: KernelFacts
    driver_kind: str
    next: NextBoot
    installed: tuple[Installed, ...]
    trial: Mapping[str, str] | None
    warnings: tuple[str, ...]


def kernel_status(board: GuardedBoard) -> KernelStatus:
    """Raises RefusedError where the board's disk cannot be reached."""
    facts = kernel_facts(board)
    disk = facts.disk
    following = following_boot(board)
    previous, stock = _state(disk, state.PREVIOUS), _state(disk, state.STOCK)
    trial, good = _state(disk, state.TRIAL), _state(disk, state.GOOD)
    named = (
        ("running", {"release": facts.running}),
        ("next", {"release": following.release}),
        ("on trial", trial),
        ("good", good),
        ("previous", previous),
        ("stock", stock),
    )
    installed = tuple(
        Installed(
            release,
            tuple(role for role, values in named if values and values.get("release") == release),
            _features(disk, release),
        )
        for release in kernels_of(disk)
    )
    names = (
        line
        for kernel in installed
        if (variant := kernel_variant(kernel.release)) is not None
        for line in contradictions(variant, kernel.features)
    )
    warnings = (*_warnings(disk, facts, trial), *names)
    return KernelStatus(facts, _driver_kind(board, facts), following, installed, trial, warnings)


def _state(disk: Disk, path: str) -> Mapping[str, str] | None:
    try:
        return state.read(disk, path)
    except OrkError as error:
        return {"release": "", "fault": error.line()}


def _features(disk: Disk, release: str) -> tuple[Found, ...]:
    try:
        image = disk.read(f"/boot/vmlinuz-{release}", _IMAGE_BYTES)
    except OSError:
        image = b""
    return features_of(image, _config(disk, release), _manifest(disk, release))


def _config(disk: Disk, release: str) -> dict[str, str]:
    path = f"/boot/config-{release}"
    if disk.kind(path) is not Kind.FILE:
        return {}
    return parse_configuration(disk.read(path, _TEXT_BYTES).decode("utf-8", "replace"))


def _manifest(disk: Disk, release: str) -> dict[str, Any] | None:
    path = f"{state.MANIFESTS}/{release}.json"
    if disk.kind(path) is not Kind.FILE:
        return None
    try:
        found = json.loads(disk.read(path, _TEXT_BYTES))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _driver_kind(board: GuardedBoard, facts: KernelFacts) -> str:
    modules = board.text("/proc/modules") or ""
    loaded = next((line for line in modules.splitlines() if line.startswith("rknpu ")), "")
    if loaded:
        return "DKMS module" if "(OE)" in loaded or "(O)" in loaded else "module"
    return "built-in" if facts.driver else "none"


def _warnings(disk: Disk, facts: KernelFacts, trial: Mapping[str, str] | None) -> tuple[str, ...]:
    found = []
    if trial is not None:
        found.append(
            f"{trial.get('release') or 'a kernel'} is on trial: `ork kernel mark-good` keeps it, "
            "`ork kernel rollback` ends it"
        )
    if _state(disk, state.PREVIOUS) is not None and not _held(disk):
        found.append(
            "no kernel package is held: an upgrade would switch the links; "
            "`apt-mark hold linux-image-vendor-rk35xx linux-dtb-vendor-rk35xx` keeps them"
        )
    if facts.layout.refusal:
        found.append(f"kernels cannot be installed here: {facts.layout.refusal}")
    return tuple(found)


def _held(disk: Disk) -> bool:
    """Whether a kernel image package is on hold, from the package database."""
    if disk.kind("/var/lib/dpkg/status") is not Kind.FILE:
        return False
    text = disk.read("/var/lib/dpkg/status", _DPKG_BYTES).decode("utf-8", "replace")
    return any(
        block.startswith("Package: linux-image-") and "\nStatus: hold " in block
        for block in text.split("\n\n")
    )


def status_lines(status: KernelStatus) -> list[str]:
    facts = status.facts
    lines = [
        f"running     {facts.running or 'unknown'}",
        f"driver      {facts.driver or 'none'} ({status.driver_kind})",
        f"boots by    {facts.layout.title}; /boot is {facts.layout.file_system.type}, "
        f"{byte_size(facts.layout.file_system.free_bytes)} free",
        f"next boot   {status.next.release or 'unknown'}",
    ]
    lines += [f"            fault: {fault}" for fault in status.next.faults]
    for kernel in status.installed:
        roles = f"  ({', '.join(kernel.roles)})" if kernel.roles else ""
        lines.append(f"installed   {kernel.release}{roles}")
        known = [found for found in kernel.features if found.present is not None]
        has = ", ".join(found.feature.name for found in known if found.present) or "nothing that can be told"
        unknown = ", ".join(found.feature.name for found in kernel.features if found.present is None)
        lines.append(f"            has {has}" + (f"; unknown: {unknown}" if unknown else ""))
    return lines + [f"note: {text}" for text in status.warnings]


def status_document(status: KernelStatus) -> dict[str, Any]:
    facts = status.facts
    return {
        "running": facts.running or None,
        "build": facts.build or None,
        "driver": facts.driver or None,
        "driver_kind": status.driver_kind,
        "layout": {
            "method": facts.layout.method.value,
            "title": facts.layout.title,
            "refusal": facts.layout.refusal or None,
            "file_system": facts.layout.file_system.type,
            "free_bytes": facts.layout.file_system.free_bytes,
        },
        "next": {"release": status.next.release or None, "faults": list(status.next.faults)},
        "installed": [
            {
                "release": kernel.release,
                "roles": list(kernel.roles),
                "features": {
                    found.feature.name: {"present": found.present, "evidence": found.evidence}
                    for found in kernel.features
                },
            }
            for kernel in status.installed
        ],
        "trial": dict(status.trial) if status.trial is not None else None,
    }
