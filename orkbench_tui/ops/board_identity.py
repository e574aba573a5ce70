"""What board this is: model, chip, kernel, NPU driver. Pure readings, no guesses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orkbench_tui.ops.files import MAX_LINE, BoardFiles
from orkbench_tui.plain_text import one_line

__all__ = [
    "IDENTITY_PATHS",
    "BoardIdentity",
    "parse_driver_version",
    "parse_soc",
    "parse_strings",
    "read_identity",
]

IDENTITY_PATHS = (
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/hostname",
    "/sys/module/rknpu/version",
    "/sys/kernel/debug/rknpu/version",
    "/proc/rknpu/version",
    "/proc/sys/kernel/random/boot_id",
)

_VERSION = re.compile(r"v?([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class BoardIdentity:
    """Empty text where the board does not say."""

    model: str = ""
    soc: str = ""
    kernel: str = ""
    hostname: str = ""
    driver: str = ""
    driver_version: str = ""
    boot_id: str = ""

    @property
    def has_npu_driver(self) -> bool:
        return bool(self.driver)


def parse_strings(data: bytes) -> tuple[str, ...]:
    """A device-tree property of NUL-separated strings."""
    return tuple(part.decode("utf-8", "replace") for part in data.rstrip(b"\0\n").split(b"\0") if part)


def parse_soc(compatible: bytes) -> str:
    """``rk3588`` from the last compatible entry that begins with ``rockchip,rk``; "" when there is none."""
    found = [name for name in parse_strings(compatible) if name.startswith(("rockchip,rk", "rockchip,rv"))]
    return found[-1].removeprefix("rockchip,").split("-")[0] if found else ""


def parse_driver_version(text: str) -> str:
    """``0.9.8`` from the module's version file or from debugfs' ``RKNPU driver: v0.9.8``."""
    found = _VERSION.search(text)
    return found[1] if found else ""


def read_identity(files: BoardFiles) -> BoardIdentity:
    """Read once; only a reboot or another board changes the answer."""
    model, compatible, release, hostname, *versions, boot = files.read_many(list(IDENTITY_PATHS))
    version = next((v for r in versions if r.ok and (v := parse_driver_version(r.text()))), "")
    driver = "rknpu" if version else ""
    if not driver and any(name.endswith(".npu") for name in files.list("/sys/bus/platform/drivers/rocket")):
        driver = "rocket"
    return BoardIdentity(
        model=one_line((parse_strings(model.data) or ("",))[0], MAX_LINE),
        soc=one_line(parse_soc(compatible.data), MAX_LINE),
        kernel=release.line(),
        hostname=hostname.line(),
        driver=driver,
        driver_version=version,
        boot_id=boot.line(),
    )
