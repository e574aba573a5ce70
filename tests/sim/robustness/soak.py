"""Four clients at once over the socket: exact results, no deadlock, memory flat."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.client import SimDevice
from tests.sim.board_client import Client, matmul

CLIENTS = 4
GRACE_S = 60.0


@dataclass(frozen=True)
class Soaked:
    """``early_kb`` and ``late_kb`` are the board's anonymous memory at half time and at the end."""

    seconds: float
    jobs: int
    wrong: int
    npu_bytes: int
    early_kb: int
    late_kb: int

    def __str__(self) -> str:
        return (
            f"soak: {CLIENTS} clients, {self.seconds:.0f} s, {self.jobs} jobs, {self.wrong} wrong, "
            f"{self.npu_bytes} bytes left, board memory {self.early_kb} kB then {self.late_kb} kB (host)"
        )


def _client(path: str, seed: int, ends: float, answers: multiprocessing.SimpleQueue) -> None:
    source, done, wrong = random.Random(seed), 0, 0
    device = SimDevice(path)
    while time.time() < ends:
        client = Client(device)
        m, k, n = source.randint(1, 64), 32 * source.randint(1, 16), 32 * source.randint(1, 8)
        work = matmul(client, m, k, n, seed=source.randrange(1 << 30))
        for _ in range(source.randint(1, 5)):
            client.submit(work.tasks, 1, core_mask=source.choice((0, 1, 2, 4)), timeout=60_000)
            done += 1
        wrong += not np.array_equal(work.result(), work.expected)
        for memory in list(client.allocated):
            client.free(memory)
        if source.random() < 0.05:
            device.close()
            device = SimDevice(path)
    device.close()
    answers.put((done, wrong))


def _anonymous_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def run(seconds: float, seed: int) -> Soaked:
    """Uses the simulated board of this user's runtime folder, and starts it when none runs.

    Raises:
        TimeoutError: a client did not come back.
    """
    status = lifecycle.start()
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    ends = time.time() + seconds
    clients = [
        context.Process(target=_client, args=(str(status.socket_path), seed + at, ends, answers))
        for at in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    time.sleep(seconds / 2)
    early = _anonymous_kb(status.pid)
    for client in clients:
        client.join(seconds + GRACE_S)
        if client.is_alive():
            for stuck in clients:
                stuck.kill()
            raise TimeoutError("a client hangs")
    found = [answers.get() for client in clients if client.exitcode == 0]
    time.sleep(0.2)
    after = lifecycle.status()
    assert after is not None, "the board is gone"
    assert len(found) == CLIENTS, "a client died"
    jobs, wrong = sum(done for done, _ in found), sum(bad for _, bad in found)
    return Soaked(seconds, jobs, wrong, after.npu_bytes, early, _anonymous_kb(status.pid))
