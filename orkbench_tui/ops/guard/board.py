"""The board as guarded operations see it: files to read, effects to have, and the readings they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.ops.disk import Disk
from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.guard.effects import Effects
from orkbench_tui.ops.kernel_log.classify import Classified, classify_all
from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.board_paths import BoardPaths, find_paths
from orkbench_tui.ops.telemetry.holders import Holder, find_holders
from orkbench_tui.ops.telemetry.npu_load import parse_npu_load

__all__ = ["ADDRESSES", "IMPORTED", "OTHER_DOMAIN", "REHEARSAL", "Answer", "GuardedBoard", "is_fault"]

REHEARSAL = "-ork-rehearsal"
"""In the release of a kernel without code, made to rehearse an installation."""

LOAD = ("/sys/kernel/debug/rknpu/load", "/proc/rknpu/load")


IMPORTED, ADDRESSES, OTHER_DOMAIN = "an imported weight", "64 MiB in one piece", "a weight in domain 1"
"""Answers that tell of memory and domains, not of the cores: a reset changes nothing about them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A small matmul with a known result, computed in a process of its own: on a core, or in another way.

    ``fault`` is "" when every element was right; ``resets`` are the soft resets the driver asked for itself.
    """

    what: str
    fault: str
    resets: int = 0


@dataclass(frozen=True, slots=True)
class GuardedBoard:
    """``state`` is the folder of the journals, ``lock`` the file that keeps two operations apart.

    ``canary`` runs the known matmul on each core, from an import and in another domain; ``timeout_ms`` is the time-out of submitted jobs; ``tell`` shows
    a passing line of progress, "" removes it. ``disk`` is what the board boots from, None where it cannot be reached.
    ``unstartable`` is in the release of kernels it can never start, "" where it starts any.
    """

    files: BoardFiles
    effects: Effects
    state: Path
    lock: Path
    canary: Callable[[], tuple[Answer, ...]]
    timeout_ms: int
    tell: Callable[[str], None] = lambda text: None
    disk: Disk | None = None
    unstartable: str = REHEARSAL

    @property
    def source(self) -> str:
        return self.files.label

    def text(self, path: str) -> str | None:
        """A file without its line end; None when it cannot be read."""
        reading = self.files.read(path)
        return reading.text().strip("\0\n") if reading.ok else None

    @property
    def host(self) -> str:
        return self.text("/proc/sys/kernel/hostname") or "unknown"

    @property
    def boot_id(self) -> str:
        return self.text("/proc/sys/kernel/random/boot_id") or "unknown"

    def paths(self) -> BoardPaths:
        return find_paths(self.files)

    def holders(self) -> tuple[Holder, ...]:
        return find_holders(self.files, self.paths().nodes)

    def loads(self) -> tuple[int, ...] | None:
        """Percent per core; None where the load cannot be read."""
        for path in LOAD:
            reading = self.files.read(path)
            if reading.ok:
                parsed = parse_npu_load(reading.text())
                return tuple(core.raw_pct for core in parsed) if parsed else None
        return None

    def log_readable(self) -> bool:
        return self.files.read("/dev/kmsg").ok

    def log_end(self) -> int:
        """Sequence number of the newest kernel-log record; -1 for an empty log."""
        numbers = [record.sequence for record in parse_kmsg(self.files.kernel_log())]
        return max((number for number in numbers if number is not None), default=-1)

    def log_after(self, sequence: int) -> list[Classified]:
        records = parse_kmsg(self.files.kernel_log(sequence))
        return classify_all([record for record in records if (record.sequence or 0) > sequence])


def is_fault(item: Classified) -> bool:
    """A line that says the NPU failed, not one that says what was done to it."""
    return item.rule is not None and item.severity >= Severity.ERROR and item.rule.id.startswith("npu.")
