"""The board's files, answered from the simulated kernel: implements ``ops.files.BoardFiles``."""

from __future__ import annotations

import errno
import math
import os
import posixpath
import uuid
from collections.abc import Callable

from orkbench_tui.ops.files import Access, Reading
from orkbench_tui.sim.board_files import proc_files, rock_5b
from orkbench_tui.sim.board_files.client_time import BigCoreTime, ClientProcesses
from orkbench_tui.sim.board_files.holders import holder_files
from orkbench_tui.sim.board_files.thermal import NpuTemperature
from orkbench_tui.sim.board_files.written import WrittenNodes
from orkbench_tui.sim.kernel.actions import NPU_HZ, NPU_MICROVOLTS
from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["BoardTree"]

Records = list[bytes]

_MAX_LINKS = 40
_DEBUGFS = "/sys/kernel/debug"
_NPU_POWER = f"{rock_5b.NPU_DEVICE}/power"


class BoardTree:
    """Reads by absolute path. Thread-safe."""

    label = "sim"

    def __init__(self, kernel: RknpuKernel, clients: ClientProcesses) -> None:
        self._kernel = kernel
        self._clients = clients
        self._big_cores = BigCoreTime(clients, kernel.clock.now_ns())
        self._npu_temperature = NpuTemperature(kernel.clock.now_ns())
        self._boot_id = str(uuid.uuid4())
        self._dynamic: dict[str, Callable[[], bytes]] = {
            "/proc/stat": self._stat,
            "/proc/meminfo": self._meminfo,
            "/proc/interrupts": lambda: proc_files.interrupts(self._now(), self._interrupts()),
            "/proc/uptime": self._uptime,
            "/proc/loadavg": self._loadavg,
            "/proc/sys/kernel/random/boot_id": lambda: f"{self._boot_id}\n".encode(),
            "/dev/kmsg": lambda: b"",
            f"{_DEBUGFS}/rknpu/load": self._load,
            f"{_DEBUGFS}/rknpu/power": lambda: b"on\n" if kernel.powered else b"off\n",
            f"{_DEBUGFS}/rknpu/freq": lambda: f"{NPU_HZ}\n".encode(),
            f"{_DEBUGFS}/rknpu/volt": lambda: f"{NPU_MICROVOLTS}\n".encode(),
            f"{_DEBUGFS}/pm_genpd/pm_genpd_summary": self._power_domains,
            f"{_NPU_POWER}/runtime_status": lambda: b"active\n" if kernel.powered else b"suspended\n",
        }
        self._files = dict(rock_5b.FILES)
        if kernel.variant.sram:
            self._dynamic[f"{_DEBUGFS}/rknpu/mm"] = self._mm
            self._files |= rock_5b.SRAM_FILES
        for policy, (cores, low, high) in rock_5b.CLUSTERS.items():
            folder = f"/sys/devices/system/cpu/cpufreq/policy{policy}"
            for name in ("scaling_cur_freq", "cpuinfo_cur_freq"):
                self._dynamic[f"{folder}/{name}"] = self._frequency(cores, low, high)
        for number, (kind, idle) in enumerate(rock_5b.THERMAL_ZONES):
            path = f"/sys/devices/virtual/thermal/thermal_zone{number}/temp"
            self._dynamic[path] = self._temperature(kind, idle)
        self._written = WrittenNodes(kernel, self._files)
        self._folders = self._all_folders()

    def _all_folders(self) -> dict[str, set[str]]:
        return _folders([*self._files, *rock_5b.LINKS, *self._dynamic])

    # -- the protocol -----------------------------------------------------------------------------

    def read(self, path: str) -> Reading:
        real = self._resolve(path)
        if real in self._dynamic:
            return Reading(path, Access.PRESENT, self._written.adjusted(real, self._dynamic[real]()))
        if real in self._files:
            return Reading(path, Access.PRESENT, self._files[real])
        if real in (holders := self._holders()):
            return Reading(path, Access.PRESENT, holders[real])
        if real in self._folders:
            return Reading(path, Access.FAILED, errno_name="EISDIR")
        return Reading(path, Access.ABSENT, errno_name="ENOENT")

    def read_many(self, paths: list[str]) -> list[Reading]:
        return [self.read(path) for path in paths]

    def list(self, path: str) -> list[str]:
        real = self._resolve(path)
        names = self._folders.get(real, set())
        if real == "/proc" or real.startswith("/proc/"):
            names = names | _folders([*self._holders()]).get(real, set())
        return sorted(names)

    def readlink(self, path: str) -> str | None:
        parent, name = posixpath.split(posixpath.normpath(path))
        real = posixpath.join(self._resolve(parent), name)
        if real.startswith("/proc/") and "/fd/" in real and real in (holders := self._holders()):
            return holders[real].decode()
        return rock_5b.LINKS.get(real)

    def kernel_log(self, after_sequence: int = -1) -> Records:
        return self._kernel.log.after(after_sequence)

    def write(self, path: str, data: bytes) -> None:
        """``ops.files.BoardWriter``, as root on the board.

        Raises:
            OSError: ENOENT, EISDIR, EACCES for a node that takes nothing, else what the node answers.
        """
        real = self._resolve(path)
        code = errno.EACCES if real in self._files or real in self._dynamic else errno.ENOENT
        if self._folders.get(real):
            code = errno.EISDIR
        if not self._written.write(real, data):
            raise OSError(code, os.strerror(code), path)
        self._folders = self._all_folders()

    def sync(self) -> None:
        self._written.sync()

    def close(self) -> None:
        return None

    def _holders(self) -> dict[str, bytes]:
        return holder_files(self._kernel)

    @staticmethod
    def _resolve(path: str) -> str:
        """The path with links followed, component by component."""
        real, rest, budget = "/", [part for part in path.split("/") if part], _MAX_LINKS
        while rest:
            part = rest.pop(0)
            if part == ".":
                continue
            real = posixpath.normpath(posixpath.join(real, part))
            target = rock_5b.LINKS.get(real)
            if target is None:
                continue
            budget -= 1
            if budget < 0:
                return ""
            base = "/" if target.startswith("/") else posixpath.dirname(real)
            rest = [
                piece for piece in posixpath.normpath(posixpath.join(base, target)).split("/") if piece
            ] + rest
            real = "/"
        return real

    # -- nodes ------------------------------------------------------------------------------------

    def _now(self) -> int:
        now = self._kernel.clock.now_ns()
        self._big_cores.advance(now)
        return now

    def _interrupts(self) -> tuple[int, ...]:
        return tuple(core.interrupts for core in self._kernel.scheduler.cores)

    def _npu_load(self) -> tuple[int, ...]:
        with self._kernel.condition:
            now = self._kernel.clock.now_ns()
            return tuple(core.load.percent(now) for core in self._kernel.scheduler.cores)

    def _mm(self) -> bytes:
        with self._kernel.condition:
            return self._kernel.memory.sram.mm()

    def _load(self) -> bytes:
        cores = "".join(f" Core{core}: {percent:2}%," for core, percent in enumerate(self._npu_load()))
        return f"NPU load: {cores}\n".encode()

    def _stat(self) -> bytes:
        now = self._now()
        runnable = sum(share > 0.5 for share in self._big_cores.share.values())
        boot = self._kernel.clock.boot_wall_s
        return proc_files.stat(now, self._big_cores.busy_ns, self._interrupts(), boot, runnable)

    def _meminfo(self) -> bytes:
        return proc_files.meminfo(self._kernel.memory.held, self._clients.memory())

    def _uptime(self) -> bytes:
        now = self._now()
        idle = proc_files.CORES * now * 0.985 - sum(self._big_cores.busy_ns.values())
        return f"{now / 1e9:.2f} {idle / 1e9:.2f}\n".encode()

    def _loadavg(self) -> bytes:
        self._now()
        busy = sum(self._big_cores.share.values())
        running = 1 + sum(share > 0.5 for share in self._big_cores.share.values())
        return f"{busy + 0.05:.2f} {busy / 2 + 0.04:.2f} {busy / 4 + 0.03:.2f} {running}/231 1841\n".encode()

    def _power_domains(self) -> bytes:
        state = "on" if self._kernel.powered else "off-0"
        head = (
            "domain                          status          children                           performance\n"
            "    /device                                             runtime status\n" + "-" * 94 + "\n"
        )
        return (head + "".join(f"{name:<32}{state}\n" for name in ("npu", "nputop", "npu1", "npu2"))).encode()

    def _frequency(self, cores: tuple[int, ...], low: int, high: int) -> Callable[[], bytes]:
        """An ondemand governor reduced to two speeds: full when a core of the cluster is half busy."""

        def node() -> bytes:
            self._now()
            busy = max(self._big_cores.share.get(core, 0.0) for core in cores)
            return f"{high if busy >= 0.5 else low}\n".encode()

        return node

    def _temperature(self, kind: str, idle: int) -> Callable[[], bytes]:
        def node() -> bytes:
            if kind != "npu-thermal":
                return f"{idle}\n".encode()
            load = sum(self._npu_load()) / len(self._kernel.scheduler.cores) / 100
            rise = self._npu_temperature.rise(self._kernel.clock.now_ns(), load)
            return f"{idle + math.floor(rise / 923) * 923}\n".encode()

        return node


def _folders(paths: list[str]) -> dict[str, set[str]]:
    folders: dict[str, set[str]] = {"/": set()}
    for path in paths:
        while path != "/":
            parent, name = posixpath.split(path)
            folders.setdefault(parent, set()).add(name)
            path = parent
    return folders
