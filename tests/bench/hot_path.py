"""What the host spends on one run of a compiled program, the device's time excluded.

The device is a stub in this process: memory is real, a sync does nothing, a submit writes the word the
poller waits for and returns. So every figure holds all of our own work (checks, copying A, patterns,
entering the mode, both calls, polling, copying C, counting) and none of: kernel time of the calls,
time on the NPU, interrupts. With a descriptor the calls are made by native code, here through a call
back into Python, which costs more than a system call; without one they are made by Python.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.precompiled import PrecompiledProgram
from orkbench_tui.sim.inprocess import InProcessBoard, InProcessDevice

K = N = 2048
RUNS, WARM = 4000, 200


class InstantDevice:
    """Memory of the simulated board; jobs that are over when they are submitted, with a wrong result."""

    name = "a stub that completes at once"

    def __init__(self, device: InProcessDevice, *, descriptor: bool) -> None:
        self._device = device
        self._fd = 0 if descriptor else None
        self._last_flags = 0
        self.bell = np.zeros(1, np.int32)
        self.calls = 0

    def fileno(self) -> int | None:
        return self._fd

    def ioctl(self, request: int, argument: bytearray) -> int:
        self.calls += 1
        if request == uapi.RKNPU_SUBMIT:
            self.bell[0] = 1
            return 0
        if request == uapi.RKNPU_MEM_SYNC:
            return 0
        if request == uapi.RKNPU_MEM_CREATE:
            self._last_flags = uapi.MemCreate.from_buffer_copy(argument).flags
        return self._device.ioctl(request, argument)

    def native_call(self, fd: int, request: int, argument: object) -> int:
        """The same as the stand-in for ioctl in native code."""
        self.calls += 1
        if request == uapi.RKNPU_SUBMIT:
            self.bell[0] = 1
        return 0

    def mmap(self, offset: int, length: int) -> object:
        mapping = self._device.mmap(offset, length)
        if not self._last_flags & uapi.MemFlag.CACHEABLE:
            self.bell = np.frombuffer(mapping, np.int32)[-1:]
        return mapping

    def close(self) -> None:
        self.bell = np.zeros(1, np.int32)
        self._device.close()


def measured(call: Callable[[], None], runs: int = RUNS) -> tuple[float, float]:
    """(median, 99th percentile) in microseconds."""
    for _ in range(min(WARM, runs)):
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    times.sort()
    return statistics.median(times) / 1e3, times[len(times) * 99 // 100] / 1e3


def _line(name: str, figures: tuple[float, float]) -> float:
    print(f"  {name:<58} {figures[0]:8.1f} us median {figures[1]:8.1f} us p99", flush=True)
    return figures[0]


def run() -> None:
    """Print the host cost per run of each way to do the same matmul."""
    random = np.random.default_rng(0)
    matrix = random.integers(-128, 128, (N, K), dtype=np.int8)
    a = random.integers(-128, 128, (1, K), dtype=np.int8)
    board = InProcessBoard()
    print(f"hot_path: int8 1x{K} by {K}x{N}, host cost per run, device time excluded (host)")
    compiled: dict[bool, float] = {}
    uncompiled = 0.0
    for descriptor in (True, False):
        device = InstantDevice(board.device(), descriptor=descriptor)
        with Npu(device) as npu:
            weight = npu.load(INT8, "w", matrix)
            if descriptor:

                def once(npu: Npu = npu, weight: object = weight) -> None:
                    matmul = npu.matmul([weight], 1)
                    matmul.a[:] = a
                    matmul.run_on(0)
                    matmul.close()

                uncompiled = _line(
                    "uncompiled: programs built, run on one core, released", measured(once, 400)
                )
                kept = npu.matmul([weight], 1)
                kept.a[:] = a
                _line("built once, blocking run on one core", measured(lambda kept=kept: kept.run_on(0)))
            call = device.native_call if descriptor else None
            program = PrecompiledProgram(npu.context, [weight], a, call=call)
            way = "one native call" if descriptor else "calls made by Python"
            compiled[descriptor] = _line(f"compiled, {way}", measured(program.run))
    board.close()
    print(
        f"hot_path: compiled {compiled[True]:.1f} us (with descriptor), {compiled[False]:.1f} us (without), "
        f"uncompiled {uncompiled:.1f} us; target below 10 us (host)"
    )
