"""On-chip SRAM: whether this kernel gives it to the NPU, how much is free, who keeps some. Read-only."""

from __future__ import annotations

import re
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.telemetry.sram_map import SramMap, parse_mm

__all__ = ["SramReport", "sram_document", "sram_lines", "sram_report"]

_MM = ("/sys/kernel/debug/rknpu/mm", "/proc/rknpu/mm")
_OPTION = re.compile(
    r"^(?:CONFIG_ROCKCHIP_RKNPU_SRAM=(?P<value>\w)|# CONFIG_ROCKCHIP_RKNPU_SRAM is not set)$", re.M
)


@dataclass(frozen=True, slots=True)
class SramReport:
    """None where the board does not say. ``asked``/``granted``: a test buffer, None when none was tried."""

    built_in: bool | None
    owned: bool
    map: SramMap | None
    map_readable: bool
    total_bytes: int | None
    free_bytes: int | None
    asked_bytes: int | None
    granted_bytes: int | None
    holders: int

    @property
    def leaked(self) -> bool | None:
        """Bytes in use while no program holds the NPU; None where use is unknown."""
        used = self.map.used_bytes if self.map else None
        if used is None and self.total_bytes is not None and self.free_bytes is not None:
            used = self.total_bytes - self.free_bytes
        return None if used is None else used > 0 and self.holders == 0

    @property
    def verdict(self) -> str:
        if not self.total_bytes:
            return "the NPU has no SRAM on this kernel; that takes a rebuilt kernel and device tree, and gains little"
        if self.leaked:
            return "SRAM is in use with no program on the NPU: it was leaked, a reboot gives it back"
        if self.granted_bytes == 0:
            return "SRAM is there, but none was granted: buffers go to DRAM"
        return "SRAM is there and is granted"


def _built_in(board: GuardedBoard) -> bool | None:
    reading = board.files.read("/proc/config.gz")
    if not reading.ok:
        return None
    try:
        config = zlib.decompressobj(wbits=31).decompress(reading.data, 8 << 20).decode("utf-8", "replace")
    except zlib.error:
        return None
    found = _OPTION.search(config)
    return found is not None and found["value"] == "y"


def sram_report(
    board: GuardedBoard, *, total: int | None, free: int | None, grant: tuple[int, int] | None
) -> SramReport:
    """``total`` and ``free`` as the driver's actions answer, ``grant`` of a test buffer."""
    tree = "/proc/device-tree"
    nodes = [name for name in board.files.list(tree) if name.startswith("npu@")]
    mm = next((reading for path in _MM if (reading := board.files.read(path)).ok), None)
    return SramReport(
        built_in=_built_in(board),
        owned=any("rockchip,sram" in board.files.list(f"{tree}/{name}") for name in nodes),
        map=parse_mm(mm.text()) if mm else None,
        map_readable=mm is not None,
        total_bytes=total,
        free_bytes=free,
        asked_bytes=grant[0] if grant else None,
        granted_bytes=grant[1] if grant else None,
        holders=len(board.holders()),
    )


def _known(value: object) -> str:
    return "unknown" if value is None else "yes" if value is True else "no" if value is False else str(value)


def sram_lines(report: SramReport) -> list[str]:
    lines = [
        f"kernel option CONFIG_ROCKCHIP_RKNPU_SRAM: {_known(report.built_in)}",
        f"device tree gives SRAM to the NPU: {_known(report.owned)}",
        f"driver says: {_known(report.total_bytes)} bytes, {_known(report.free_bytes)} free",
    ]
    if report.map:
        sums = "the map adds up" if report.map.consistent else "the map does not add up to its sums"
        lines.append(
            f"map: {report.map.used_bytes} of {report.map.total_bytes} bytes used, "
            f"longest free run {report.map.longest_free_bytes}; {sums}"
        )
    else:
        lines.append("map: " + ("empty" if report.map_readable else "not there, or debugfs needs root"))
    if report.asked_bytes is not None:
        lines.append(
            f"test buffer of register programs: {report.granted_bytes} of {report.asked_bytes} bytes in SRAM"
        )
    return [*lines, report.verdict]


def sram_document(report: SramReport) -> dict[str, Any]:
    return {**asdict(report), "leaked": report.leaked, "verdict": report.verdict}
