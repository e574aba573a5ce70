"""What writes to the board's nodes do: governors, page cache, interrupt affinity, the driver's debugfs.

A node that was never written leaves the bytes of the others as they are.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable

from orkbench_tui.sim.board_files.irq_affinity import IrqAffinity
from orkbench_tui.sim.kernel.binding import bind, unbind
from orkbench_tui.sim.kernel.kernel_log import INFO
from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["WrittenNodes"]

_RKNPU = "/sys/kernel/debug/rknpu"
_DRIVER = "/sys/bus/platform/drivers/RKNPU"
_DROP_CACHES = "/proc/sys/vm/drop_caches"
_DEVFREQ = re.compile(r"(?P<folder>.+/devfreq/[^/]+)/(?P<node>governor|userspace/set_freq)")
_CPUFREQ = re.compile(r"(?P<folder>.+/cpufreq/policy\d+)/scaling_governor")
_IDLE_STATE = re.compile(r".+/cpuidle/state\d+/disable")
_CPU_SPEED = re.compile(r"(?P<folder>.+/cpufreq/policy\d+)/(?:scaling|cpuinfo)_cur_freq")
_KEPT_CACHE_KB = 96_000
"""What stays in the page cache when it is dropped: mapped and dirty pages."""
_KEPT_SLAB_KB = 22_000
_SHORT, _LONG = 8, 16


class WrittenNodes:
    """``files`` are the tree's fixed files, changed in place. Not thread-safe beyond single values."""

    def __init__(self, kernel: RknpuKernel, files: dict[str, bytes]) -> None:
        self._kernel = kernel
        self._files = files
        self._found = {path: data for path, data in files.items() if path.endswith("/cur_freq")}
        lines = kernel.profile.npu_interrupts
        self._irq = IrqAffinity(
            files, kernel.interrupt_counts, [line.number for line in lines], kernel.profile.cores
        )
        self._dropped = 0
        self._synced = False
        self._driver: dict[str, Callable[[bytes], None]] = {
            f"{_RKNPU}/power": self._power,
            f"{_RKNPU}/reset": self._reset,
            f"{_RKNPU}/delayms": self._delay,
            _DROP_CACHES: self._drop_caches,
        }
        if kernel.profile.driver is not None:
            self._driver[f"{_DRIVER}/unbind"] = lambda data: unbind(
                kernel, data.decode("ascii", "replace").strip()
            )
            self._driver[f"{_DRIVER}/bind"] = lambda data: bind(
                kernel, data.decode("ascii", "replace").strip()
            )

    def write(self, path: str, data: bytes) -> bool:
        """Whether the node takes writes at all. Raises OSError with what it answers to a wrong value."""
        if action := self._driver.get(path):
            action(data)
        elif (found := _DEVFREQ.fullmatch(path)) and path in self._files:
            (self._devfreq_governor if found["node"] == "governor" else self._devfreq_pin)(
                found["folder"], data
            )
        elif (found := _CPUFREQ.fullmatch(path)) and path in self._files:
            word = self._choice(data, self._files[f"{found['folder']}/scaling_available_governors"])
            self._files[path] = f"{word}\n".encode()
        elif _IDLE_STATE.fullmatch(path) and path in self._files:
            self._files[path] = f"{self._choice(data, b'0 1')}\n".encode()
        else:
            return self._irq.write(path, data)
        return True

    def sync(self) -> None:
        self._synced = True

    def adjusted(self, path: str, data: bytes) -> bytes:
        """A computed node's bytes after what has been written elsewhere."""
        if path == "/proc/meminfo" and (self._dropped or self._synced):
            return self._memory(data)
        if path == "/proc/interrupts":
            return self._irq.placed(data)
        if found := _CPU_SPEED.fullmatch(path):
            return self._cpu_speed(found["folder"], data)
        return data

    # -- clocks -----------------------------------------------------------------------------------

    @staticmethod
    def _choice(data: bytes, allowed: bytes) -> str:
        word = data.decode("ascii", "replace").strip()
        if word not in allowed.decode().split():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return word

    def _devfreq_governor(self, folder: str, data: bytes) -> None:
        word = self._choice(data, self._files[f"{folder}/available_governors"])
        self._files[f"{folder}/governor"] = f"{word}\n".encode()
        pin = f"{folder}/userspace/set_freq"
        if word != "userspace":
            self._files.pop(pin, None)
            ends = {"performance": "max_freq", "powersave": "min_freq"}
            end = ends.get(word)
            self._run_at(folder, self._files[f"{folder}/{end}"] if end else self._found[f"{folder}/cur_freq"])
        else:
            self._files.setdefault(pin, b"undefined\n")

    def _devfreq_pin(self, folder: str, data: bytes) -> None:
        word = self._choice(data, self._files[f"{folder}/available_frequencies"])
        self._files[f"{folder}/userspace/set_freq"] = f"{word}\n".encode()
        self._run_at(folder, f"{word}\n".encode())

    def _run_at(self, folder: str, hz: bytes) -> None:
        self._files[f"{folder}/cur_freq"] = self._files[f"{folder}/target_freq"] = hz
        percent = self._files[f"{folder}/load"].split(b"@")[0]
        self._files[f"{folder}/load"] = percent + b"@" + hz.strip() + b"Hz\n"

    def _cpu_speed(self, folder: str, data: bytes) -> bytes:
        governor = self._files[f"{folder}/scaling_governor"].strip()
        ends = {b"performance": "scaling_max_freq", b"powersave": "scaling_min_freq"}
        return self._files[f"{folder}/{ends[governor]}"] if governor in ends else data

    # -- memory -----------------------------------------------------------------------------------

    def _drop_caches(self, data: bytes) -> None:
        word = self._choice(data, b"1 2 3 4")
        self._files[_DROP_CACHES] = f"{word}\n".encode()
        self._dropped |= int(word) & 3

    def _memory(self, data: bytes) -> bytes:
        rows = {name: int(rest.split()[0]) for name, rest in _rows(data)}
        freed = 0
        if self._dropped & 1:
            freed += max(0, rows["Cached"] - _KEPT_CACHE_KB)
            rows["Inactive"] = max(0, rows["Inactive"] - freed)
            rows["Cached"] = min(rows["Cached"], _KEPT_CACHE_KB)
        if self._dropped & 2:
            slab = max(0, rows["KReclaimable"] - _KEPT_SLAB_KB)
            rows["KReclaimable"] -= slab
            rows["Slab"] -= slab
            freed += slab
        rows["MemFree"] += freed
        rows["MemAvailable"] = min(rows["MemTotal"], rows["MemAvailable"] + freed // 10)
        if self._synced:
            rows["Dirty"] = 0
        return "".join(f"{name + ':':<15} {value:8} kB\n" for name, value in rows.items()).encode()

    # -- the driver's debugfs ---------------------------------------------------------------------

    @staticmethod
    def _parsed(data: bytes, limit: int) -> str:
        """The driver overwrites the last byte before it compares, so a value must end with a newline."""
        if not 0 < len(data) <= limit:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return data[:-1].decode("ascii", "replace")

    def _power(self, data: bytes) -> None:
        word = self._parsed(data, _SHORT)
        if word not in ("on", "off"):
            self._kernel.log.driver(INFO, "rknpu power node params is invalid!")
            return
        self._kernel.power_held = word == "on"
        self._kernel.log.driver(INFO, f"rknpu power is {word}!")

    def _reset(self, data: bytes) -> None:
        word = self._parsed(data, _SHORT)
        if word == "1":
            if self._kernel.powered:
                self._kernel.scheduler.soft_reset()
        elif word in ("on", "off"):
            self._kernel.scheduler.reset.bypassed = word == "off"
            self._files[f"{_RKNPU}/reset"] = f"{word}\n".encode()

    def _delay(self, data: bytes) -> None:
        word = self._parsed(data, _LONG)
        if not (word.isascii() and word.isdigit()):
            self._kernel.log.driver(INFO, f"failed to parse power put delay string: {word}")
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        self._kernel.power_off_delay_ns = int(word) * 1_000_000
        self._files[f"{_RKNPU}/delayms"] = f"{int(word)}\n".encode()
        self._kernel.log.driver(INFO, f"set rknpu power put delay time {int(word)}ms")


def _rows(data: bytes) -> list[tuple[str, str]]:
    lines = data.decode().splitlines()
    return [(name, rest) for name, _, rest in (line.partition(":") for line in lines)]
