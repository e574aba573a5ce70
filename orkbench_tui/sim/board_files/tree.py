"""The board's files, answered from the simulated kernel: implements ``ops.files.BoardFiles``."""

from __future__ import annotations

import errno
import math
import os
import posixpath
import signal
import uuid
from collections.abc import Callable
from functools import partial

from orkbench_tui.ops.files import Access, Reading
from orkbench_tui.sim.board_files import proc_files
from orkbench_tui.sim.board_files.client_time import BigCoreTime, ClientProcesses
from orkbench_tui.sim.board_files.common_nodes import common_nodes
from orkbench_tui.sim.board_files.holders import holder_files
from orkbench_tui.sim.board_files.thermal import NpuTemperature
from orkbench_tui.sim.board_files.written import WrittenNodes
from orkbench_tui.sim.boot.disk import BootDisk, on_disk
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.faults.foreign import FOREIGN_LOAD, PROGRAMS
from orkbench_tui.sim.faults.overlay import HOT_HZ, Overlay, overlay_of
from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["BoardTree"]

Records = list[bytes]

_MAX_LINKS = 40
_DEBUGFS = "/sys/kernel/debug"


class BoardTree:
    """Reads by absolute path. Thread-safe."""

    label = "sim"

    def __init__(
        self,
        kernel: RknpuKernel,
        clients: ClientProcesses,
        disk: BootDisk | None = None,
        release: str = "",
    ) -> None:
        self._kernel = kernel
        self._clients = clients
        self._profile = profile = kernel.profile
        self._disk = disk
        self._links = {path: to for path, to in profile.links.items() if disk is None or not on_disk(path)}
        self._overlay: tuple[dict[str, str], Overlay] = ({}, Overlay())
        self._big_cores = BigCoreTime(clients, kernel.clock.now_ns(), profile.busy_cores)
        self._npu_temperature = NpuTemperature(kernel.clock.now_ns())
        self._boot_id = str(uuid.uuid4())
        self._dynamic: dict[str, Callable[[], bytes]] = {
            "/proc/stat": self._stat,
            "/proc/meminfo": self._meminfo,
            "/proc/interrupts": self._interrupt_table,
            "/proc/uptime": self._uptime,
            "/proc/loadavg": self._loadavg,
            "/proc/sys/kernel/random/boot_id": lambda: f"{self._boot_id}\n".encode(),
            "/dev/kmsg": lambda: b"",
            f"{_DEBUGFS}/pm_genpd/pm_genpd_summary": self._power_domains,
        }
        if profile.driver is not None:
            self._dynamic |= self._driver_nodes()
        self._files = common_nodes(profile) | {
            path: data for path, data in profile.files.items() if disk is None or not on_disk(path)
        }
        if release:
            self._files |= _named_anew(self._files, profile.release, release)
        if kernel.variant.sram and profile.sram_files:
            self._dynamic[f"{_DEBUGFS}/rknpu/mm"] = self._mm
            self._files |= profile.sram_files
        for policy, (cores, low, high) in profile.clusters.items():
            folder = f"/sys/devices/system/cpu/cpufreq/policy{policy}"
            for name in ("scaling_cur_freq", "cpuinfo_cur_freq"):
                self._dynamic[f"{folder}/{name}"] = self._frequency(cores, low, high)
        for number, (kind, idle) in enumerate(profile.thermal_zones):
            path = f"/sys/devices/virtual/thermal/thermal_zone{number}/temp"
            self._dynamic[path] = self._temperature(kind, idle)
        self._written = WrittenNodes(kernel, self._files)
        self._folders = self._all_folders()

    def _all_folders(self) -> dict[str, set[str]]:
        return _folders([*self._files, *self._links, *self._dynamic])

    # -- the protocol -----------------------------------------------------------------------------

    def read(self, path: str) -> Reading:
        faulty, real = self._faults(), self._resolve(path)
        if faulty.hides(real):
            return Reading(path, Access.ABSENT, errno_name="ENOENT")
        if faulty.denies(real):
            return Reading(path, Access.DENIED, errno_name="EACCES")
        if real in faulty.files:
            return Reading(path, Access.PRESENT, faulty.files[real])
        if self._disk is not None and on_disk(path):
            return self._disk.read(path)
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
        faulty, real = self._faults(), self._resolve(path)
        if faulty.hides(real) or faulty.denies(real):
            return []
        names = self._folders.get(real, set()) | faulty.names(real)
        if self._disk is not None:
            names = names | set(self._disk.list(path))
        if real == "/proc" or real.startswith("/proc/"):
            names = names | _folders([*self._holders()]).get(real, set())
        return sorted(name for name in names if not faulty.hides(posixpath.join(real, name)))

    def readlink(self, path: str) -> str | None:
        if self._disk is not None and on_disk(path) and path not in self._faults().files:
            return self._disk.readlink(path)
        parent, name = posixpath.split(posixpath.normpath(path))
        real = posixpath.join(self._resolve(parent), name)
        if self._faults().hides(real):
            return None
        if real.startswith("/proc/") and "/fd/" in real and real in (holders := self._holders()):
            return holders[real].decode()
        return self._faults().links.get(real) or self._links.get(real)

    def kernel_log(self, after_sequence: int = -1) -> Records:
        if self._faults().denies("/dev/kmsg"):
            return []
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
        self._written_now(real, data)

    def _written_now(self, real: str, data: bytes) -> None:
        """What follows from a write beyond the node itself."""
        folder = self._profile.devfreq
        if real == f"{folder}/governor":
            self._kernel.end_faults(Event.GOVERNOR)
        if real.startswith(f"{folder}/"):
            # On boards whose devfreq table and clock disagree, an untouched clock keeps its own value.
            hz = int(self._files[f"{folder}/cur_freq"])
            self._kernel.set_clock(self._profile.npu_hz if hz == self._profile.devfreq_hz else hz)
        if real == "/proc/sys/vm/drop_caches" and data.strip() in (b"1", b"3"):
            self._kernel.end_faults(Event.DROP_CACHES)

    def terminate(self, pid: int) -> None:
        """``ops.files.BoardWriter``: SIGTERM. A program's own work on the NPU ends with it.

        Raises:
            OSError: ESRCH for a process that is neither a client nor one of a fault.
        """
        for program in PROGRAMS:
            if program.pid == pid and program.fault in self._kernel.faults:
                if program.takes_signals:
                    self._kernel.end_fault(program.fault)
                return
        with self._kernel.condition:
            holds = any(file.pid == pid for file in self._kernel.files)
        if not holds:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        os.kill(pid, signal.SIGTERM)

    def sync(self) -> None:
        self._written.sync()

    def close(self) -> None:
        return None

    def _holders(self) -> dict[str, bytes]:
        return holder_files(self._kernel)

    def _faults(self) -> Overlay:
        """What the faults that are set change now."""
        active = self._kernel.faults.all()
        gone = self._profile.driver is not None and not self._kernel.bound
        state = active | ({"": "unbound"} if gone else {})
        known, overlay = self._overlay
        if state != known:
            overlay = overlay_of(self._profile, active, bound=not gone)
            self._overlay = (state, overlay)
        return overlay

    def _resolve(self, path: str) -> str:
        """The path with links followed, component by component."""
        real, rest, budget = "/", [part for part in path.split("/") if part], _MAX_LINKS
        while rest:
            part = rest.pop(0)
            if part == ".":
                continue
            real = posixpath.normpath(posixpath.join(real, part))
            target = self._links.get(real)
            if target is None or real in self._faults().files:
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

    def _driver_nodes(self) -> dict[str, Callable[[], bytes]]:
        """What the driver shows: debugfs, its module's version, its devfreq and power state."""
        kernel, profile = self._kernel, self._profile
        nodes: dict[str, Callable[[], bytes]] = {
            f"{_DEBUGFS}/rknpu/load": self._load,
            f"{_DEBUGFS}/rknpu/power": lambda: b"on\n" if kernel.powered else b"off\n",
            f"{_DEBUGFS}/rknpu/freq": lambda: f"{kernel.clock_hz}\n".encode(),
            f"{_DEBUGFS}/rknpu/volt": lambda: f"{profile.microvolts}\n".encode(),
            f"{_DEBUGFS}/rknpu/version": lambda: f"RKNPU driver: v{kernel.driver.name}\n".encode(),
            "/sys/module/rknpu/version": lambda: f"{kernel.driver.name}\n".encode(),
            f"/sys/devices/platform/{profile.npu}/power/runtime_status": lambda: (
                b"active\n" if kernel.powered else b"suspended\n"
            ),
        }
        if profile.proc_load:
            nodes["/proc/rknpu/load"] = self._load
        if kernel.variant.patch_job_hw_time:
            nodes[f"{_DEBUGFS}/rknpu/hw_time"] = self._hw_time
            if profile.proc_load:
                nodes["/proc/rknpu/hw_time"] = self._hw_time
        for name in ("cur_freq", "target_freq", "max_freq", "governor"):
            nodes[f"{profile.devfreq}/{name}"] = partial(self._devfreq, name)
        return nodes

    def _devfreq(self, name: str) -> bytes:
        """A devfreq node: what the board has it at, unless a fault holds the clock elsewhere."""
        faults, plain = self._kernel.faults, self._files[f"{self._profile.devfreq}/{name}"]
        parked = faults.value("parked-governor")
        if name == "governor":
            return b"userspace\n" if parked else plain
        hz = int(parked) * 1_000_000 if parked and name != "max_freq" else int(plain)
        return f"{min(hz, HOT_HZ) if 'hot' in faults else hz}\n".encode()

    def _interrupts(self) -> dict[int, int]:
        """Counts by interrupt number."""
        numbers = [line.number for line in self._profile.npu_interrupts]
        return dict(zip(numbers, self._kernel.interrupt_counts(), strict=True))

    def _interrupt_table(self) -> bytes:
        now, counts = self._now(), self._interrupts()
        npu = [(line, counts[line.number]) for line in self._profile.npu_interrupts]
        return proc_files.interrupts(now, npu, self._profile.cores, self._profile.gpu_interrupt)

    def _npu_load(self) -> tuple[int, ...]:
        with self._kernel.condition:
            now = self._kernel.clock.now_ns()
            clamped = self._kernel.driver.clamps_load
            percents = tuple(
                core.load.percent(now) if clamped else core.load.percent_as_before_0_9_7(now)
                for core in self._kernel.scheduler.cores
            )
        if self._kernel.foreign.running:
            return tuple(max(percent, FOREIGN_LOAD) for percent in percents)
        return percents

    def _mm(self) -> bytes:
        with self._kernel.condition:
            return self._kernel.memory.sram.mm()

    def _hw_time(self) -> bytes:
        with self._kernel.condition:
            lines = [
                f"core{core.index}: jobs {core.jobs_done} hw_ns {core.hw_ns}\n"
                for core in self._kernel.scheduler.cores
            ]
        return "".join(lines).encode()

    def _load(self) -> bytes:
        percents = self._npu_load()
        if len(percents) == 1:
            return f"NPU load: {percents[0]:2}%\n".encode()
        cores = "".join(f" Core{core}: {percent:2}%," for core, percent in enumerate(percents))
        return f"NPU load: {cores}\n".encode()

    def _stat(self) -> bytes:
        now = self._now()
        runnable = sum(share > 0.5 for share in self._big_cores.share.values())
        boot = self._kernel.clock.boot_wall_s
        return proc_files.stat(
            now,
            self._big_cores.busy_ns,
            self._interrupts(),
            boot,
            runnable,
            self._profile.cores,
            blocked=int("process-stuck-D" in self._kernel.faults),
        )

    def _meminfo(self) -> bytes:
        profile = self._profile
        held, clients = self._kernel.memory.held, self._clients.memory()
        return proc_files.meminfo(profile.memory_kb, profile.cma_kb, held, clients)

    def _uptime(self) -> bytes:
        now = self._now()
        idle = self._profile.cores * now * 0.985 - sum(self._big_cores.busy_ns.values())
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
        return (head + "".join(f"{name:<32}{state}\n" for name in self._profile.power_domains)).encode()

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


def _named_anew(files: dict[str, bytes], delivered: str, release: str) -> dict[str, bytes]:
    """The files that name the running kernel, with the release that came up."""
    named = ("/proc/version", "/proc/sys/kernel/osrelease")
    return {
        path: files[path].replace(delivered.encode(), release.encode()) for path in named if path in files
    }
