"""The simulated board's own cost: an ioctl over the socket, and int8 multiplication on the simulated chip."""

from __future__ import annotations

import statistics
import time

from orkbench_tui.driver import uapi
from orkbench_tui.driver.npu import Npu
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.client import SimDevice
from orkbench_tui.sim.inprocess import InProcessBoard

CALLS = 20_000
M, K, N = 512, 2048, 2048
ROUNDS = 7


def ioctl_us() -> list[float]:
    """Times of GET_DRV_VERSION over the socket, microseconds."""
    ran = lifecycle.status() is not None
    device = SimDevice(lifecycle.start().socket_path)
    times = []
    for _ in range(CALLS):
        argument = bytearray(uapi.Action(flags=uapi.ActionCode.GET_DRV_VERSION))
        began = time.perf_counter_ns()
        device.ioctl(uapi.RKNPU_ACTION, argument)
        times.append((time.perf_counter_ns() - began) / 1000)
    device.close()
    if not ran:
        lifecycle.stop()
    return times


def matmul_gops() -> float:
    """The best of some rounds, giga-operations (2 M K N) a second: submit to completion, through the driver."""
    import numpy as np

    source = np.random.default_rng(0)
    board = InProcessBoard()
    best = float("inf")
    with Npu(board.device()) as npu:
        tiles = source.integers(-127, 128, K * N, dtype=np.int8)
        a = source.integers(-127, 128, (M, K), dtype=np.int8)
        weight = npu.load_int8("bench", tiles, K, N)
        work = npu.matmul_int8([weight], M)
        work.a[:] = a
        for _ in range(ROUNDS):
            began = time.perf_counter()
            work.run()
            best = min(best, time.perf_counter() - began)
    board.close()
    return 2 * M * K * N / best / 1e9


def run() -> None:
    times = sorted(ioctl_us())
    print(
        f"sim: ioctl over the socket, {CALLS} calls: median {statistics.median(times):.1f} us, "
        f"99th percentile {times[len(times) * 99 // 100]:.1f} us (host)"
    )
    print(f"sim: int8 {M}x{K}x{N} on the simulated chip: {matmul_gops():.0f} GOP/s, copies included (host)")
