"""The board's kernel log as ``/dev/kmsg`` records, in a ring like the kernel's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from orkbench_tui.sim.clock import BoardClock

__all__ = ["ERR", "INFO", "NPU", "WARN", "BootLine", "KernelLog", "escaped", "record"]

ERR, WARN, INFO = 3, 4, 6

NPU = "fdab0000.npu"
"""``device`` of messages that dev_* functions print for the NPU."""

RING_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class BootLine:
    """A line of the boot log: level, microseconds since boot, platform device or "", message."""

    level: int
    time_us: int
    device: str
    message: str


def escaped(message: str) -> str:
    """The kernel's escapes: control bytes, backslash and bytes above 0x7e become ``\\xNN``."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in message.encode()
    )


def record(level: int, sequence: int, time_us: int, message: str, device: str = "") -> bytes:
    """One /dev/kmsg record; messages about a device carry its dictionary lines."""
    text = f"{level},{sequence},{time_us},-;{escaped(message)}\n"
    if device:
        text += f" SUBSYSTEM=platform\n DEVICE=+platform:{device}\n"
    return text.encode()


class KernelLog:
    """Appending is thread-safe; the oldest records fall out when the ring is full."""

    def __init__(
        self,
        clock: BoardClock,
        boot: Iterable[BootLine] = (),
        npu: str = NPU,
        iommu: str = "fdab9000.iommu",
    ) -> None:
        self._clock = clock
        self._npu = npu
        self._iommu = iommu
        self._lock = threading.Lock()
        self._records: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._next = 0
        for line in boot:
            self._append(line.level, line.time_us, line.message, line.device)

    def _append(self, level: int, time_us: int, message: str, device: str) -> None:
        data = record(level, self._next, time_us, message, device)
        self._records.append((self._next, data))
        self._next += 1
        self._bytes += len(data)
        while self._bytes > RING_BYTES:
            self._bytes -= len(self._records.popleft()[1])

    def driver(self, level: int, message: str) -> None:
        """A pr_* line of the rknpu driver: prefix ``RKNPU: ``."""
        self._say(level, f"RKNPU: {message}", "")

    def device(self, level: int, message: str) -> None:
        """A dev_* line of the rknpu driver: prefix ``RKNPU fdab0000.npu: RKNPU: `` (with this chip's node)."""
        self._say(level, f"RKNPU {self._npu}: RKNPU: {message}", self._npu)

    def iommu(self, level: int, message: str) -> None:
        self._say(level, f"rk_iommu {self._iommu}: {message}", self._iommu)

    def kernel(self, level: int, message: str) -> None:
        """A line of another part of the kernel."""
        self._say(level, message, "")

    def trace(self, lines: Iterable[str]) -> None:
        """A WARN block: its lines without prefix, at warning level."""
        for line in lines:
            self._say(WARN, line, "")

    def again(self, line: BootLine) -> None:
        """A line of the boot, now."""
        self._say(line.level, line.message, line.device)

    def chip(self, message: str) -> None:
        """What the simulated chip objects to. No board prints these lines."""
        self._say(ERR, f"simulated NPU: {message}", "")

    def _say(self, level: int, message: str, device: str) -> None:
        with self._lock:
            self._append(level, self._clock.now_ns() // 1000, message, device)

    def after(self, sequence: int) -> list[bytes]:
        with self._lock:
            return [data for number, data in self._records if number > sequence]
