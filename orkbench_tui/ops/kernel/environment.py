"""armbianEnv.txt and its relatives: what the boot script reads before it starts the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.ops.disk import Disk, Kind
from orkbench_tui.ops.kernel.layout import Layout, Method

__all__ = ["Environment", "overlay_faults", "read_environment"]

FILES = {
    Method.ARMBIAN: "/boot/armbianEnv.txt",
    Method.DIETPI: "/boot/dietpiEnv.txt",
    Method.ORANGEPI: "/boot/orangepiEnv.txt",
}
_MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Environment:
    """``fault`` is why the boot loader may read something else than stands there, "" when it does not."""

    path: str
    values: dict[str, str]
    fault: str

    @property
    def tree_file(self) -> str:
        """The device tree's path below the dtb folder; "" where the boot loader's own name counts."""
        return self.values.get("fdtfile", "")


def read_environment(disk: Disk, layout: Layout) -> Environment | None:
    """None for a layout without one."""
    path = FILES.get(layout.method)
    if path is None or disk.kind(path) is None:
        return None
    data = disk.read(path, _MAX_BYTES)
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, equals, value = line.strip().partition("=")
        if equals:
            values[key] = value
    fault = ""
    if b"\r" in data:
        fault = f"{path} has CRLF line ends, which the boot loader takes into the values"
    elif data and not data.endswith(b"\n"):
        fault = f"{path} has no line end at its end, which loses its last line"
    return Environment(path, values, fault)


def overlay_faults(disk: Disk, environment: Environment, overlays: frozenset[str]) -> list[str]:
    """Overlays that are asked for and not there; ``overlays`` are file names of the new device-tree folder.

    The boot loader drops all of them when one fails.
    """
    prefix = environment.values.get("overlay_prefix", "")
    missing = [
        f"{name} is not among the overlays of the new device trees"
        for name in environment.values.get("overlays", "").split()
        if not {f"{prefix}-{name}.dtbo", f"{name}.dtbo"} & overlays
    ]
    folders = ("/boot/overlay-user",)
    missing += [
        f"/boot/overlay-user/{name}.dtbo is not there"
        for name in environment.values.get("user_overlays", "").split()
        if all(disk.kind(f"{folder}/{name}.dtbo") is not Kind.FILE for folder in folders)
    ]
    return missing
