"""CPU time and memory of the programs connected to the board.

They run on the host, but on a board they would run on the big cores. So the processor time each of
them uses (host utime + stime) is placed on cpu4 to cpu7 of the simulated board, filling one core
before the next; what exceeds four full cores is left out.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from orkbench_tui.sim.board_files.rock_5b import BIG_CORES

__all__ = ["BigCoreTime", "ClientProcesses"]

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
MIN_INTERVAL_NS = 50_000_000


def cpu_ns(pid: int) -> int:
    """User and system time of a host process; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return (int(fields[11]) + int(fields[12])) * _NS_PER_TICK


def private_bytes(pid: int) -> int:
    """Resident memory of a host process without shared memory (NPU buffers are counted elsewhere)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssFile:")))


class ClientProcesses:
    """Which host processes are connected, and how much processor time they have used since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def attach(self, pid: int) -> None:
        with self._lock:
            self._connections[pid] = self._connections.get(pid, 0) + 1
            self._seen.setdefault(pid, cpu_ns(pid))

    def detach(self, pid: int) -> None:
        with self._lock:
            self._connections[pid] -= 1
            if self._connections[pid] <= 0:
                del self._connections[pid]

    @property
    def pids(self) -> list[int]:
        with self._lock:
            return sorted(self._connections)

    def take_ns(self) -> int:
        """Processor time used since the last call, of all clients."""
        with self._lock:
            total = 0
            for pid in list(self._seen):
                now = cpu_ns(pid)
                total += max(0, now - self._seen[pid])
                self._seen[pid] = now
                if pid not in self._connections:
                    del self._seen[pid]
            return total

    def memory(self) -> int:
        return sum(private_bytes(pid) for pid in self.pids)


class BigCoreTime:
    """Busy nanoseconds of each big core since boot, and how busy it was in the last interval."""

    def __init__(self, clients: ClientProcesses, now_ns: int, cores: tuple[int, ...] = BIG_CORES) -> None:
        self._cores = cores
        self._clients = clients
        self._lock = threading.Lock()
        self._at = now_ns
        self._pending = 0
        self.busy_ns = dict.fromkeys(cores, 0)
        self.share = dict.fromkeys(cores, 0.0)

    def advance(self, now_ns: int) -> None:
        with self._lock:
            elapsed = now_ns - self._at
            if elapsed < MIN_INTERVAL_NS:
                return
            self._at = now_ns
            left = self._clients.take_ns()
            for core in self._cores:
                part = min(left, elapsed)
                self.busy_ns[core] += part
                self.share[core] = part / elapsed
                left -= part
