"""What is written beside the kernels about them: key=value lines, so that a shell script can read them too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.ops.disk import Disk

__all__ = [
    "GOOD",
    "MANIFESTS",
    "OWN",
    "PREVIOUS",
    "ROLLBACK",
    "STOCK",
    "TRIAL",
    "TRIAL_SCRIPT",
    "parse",
    "read",
    "text",
]

OWN = "/boot/npu-workbench"
PREVIOUS, STOCK = f"{OWN}/prev.state", f"{OWN}/stock.state"
TRIAL, GOOD = f"{OWN}/trial.state", f"{OWN}/good.state"
MANIFESTS = f"{OWN}/manifests"
ROLLBACK, TRIAL_SCRIPT = f"{OWN}/rollback.sh", f"{OWN}/trial.sh"

VERSION = 1
_MAX_BYTES = 64 << 10
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")


def text(values: Mapping[str, str]) -> str:
    """The lines of a state file. Raises ValueError for a value with a line end."""
    lines = [f"version={VERSION}"]
    for key, value in values.items():
        if _KEY.fullmatch(key) is None or "\n" in value or "\0" in value:
            raise ValueError(f"{key}={value!r}")
        lines.append(f"{key}={value}")
    return "\n".join(lines) + "\n"


def parse(content: str, path: str) -> dict[str, str]:
    """Raises InvalidFileError when damaged, RefusedError when of a newer version."""
    values: dict[str, str] = {}
    for line in content.splitlines():
        key, equals, value = line.partition("=")
        if not equals or _KEY.fullmatch(key) is None:
            raise InvalidFileError(path, why=f"the line {line[:60]!r} is no key=value")
        values[key] = value
    version = values.pop("version", "")
    if not version.isdigit():
        raise InvalidFileError(path, why="it does not say its version")
    if int(version) > VERSION:
        raise RefusedError(
            f"{path} is of version {version}",
            why=f"this program knows up to {VERSION}",
            do="use the newer ork that wrote it; nothing was changed",
        )
    return values


def read(disk: Disk, path: str) -> dict[str, str] | None:
    """The values; None where there is no such file. Raises as ``parse``."""
    if disk.kind(path) is None:
        return None
    return parse(disk.read(path, _MAX_BYTES).decode("utf-8", "replace"), path)
