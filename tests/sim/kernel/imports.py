"""Raw imports for the tests: dma-heap, PRIME, and matmuls whose weights lie in imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim import programs
from tests.sim.board_client import Client, Memory


def errno_of(call: Callable[[], object]) -> int | None:
    """The errno a call fails with; None when it works."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


@dataclass
class Import:
    handle: int
    obj_addr: int
    iova: int
    domain: int
    source: Any

    @property
    def view(self) -> np.ndarray:
        return np.frombuffer(self.source.mapping, np.uint8)

    def put(self, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.view[: len(raw)] = raw
        self.source.sync(uapi.DmaBufSyncFlag.END | uapi.DmaBufSyncFlag.WRITE)


def import_into(client: Client, board: InProcessBoard, size: int, domain: int = 0, asked: int = 0) -> Import:
    """One import, mapped in ``domain``; ``asked`` is what MEM_CREATE is told about the domain."""
    source = board.heap().allocate(size)
    client.action(uapi.ActionCode.SET_IOMMU_DOMAIN_ID, domain)
    handle = client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=source.fd)).handle
    made = client.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(handle=handle, iommu_domain_id=asked))
    return Import(handle, made.obj_addr, made.dma_addr, made.iommu_domain_id, source)


def destroy(client: Client, imported: Import) -> None:
    client.call(uapi.RKNPU_MEM_DESTROY, uapi.MemDestroy(handle=imported.handle, obj_addr=imported.obj_addr))


@dataclass
class Chain:
    """Matmuls of one activation with each of several weights, as one chain of programs."""

    client: Client
    tasks: Memory
    outputs: list[Memory]
    expected: list[np.ndarray]
    domain: int

    def run(self) -> None:
        self.client.submit(self.tasks, len(self.outputs), domain=self.domain)

    def results(self) -> list[np.ndarray]:
        shape = self.expected[0].shape
        count = int(np.prod(shape))
        return [self.client.take(memory)[:count].reshape(shape) for memory in self.outputs]


def chain(client: Client, weights: list[tuple[int, np.ndarray]], domain: int = 0) -> Chain:
    """``weights`` are (IOVA, rows [n, k]) already written as tiles; everything else is native in ``domain``."""
    k = weights[0][1].shape[1]
    a = np.random.default_rng(7).integers(-128, 128, (4, k), dtype=np.int8)
    memory_a = client.allocate(a.size, domain=domain)
    client.put(memory_a, a)
    outputs = [client.allocate(16 * len(b), domain=domain) for _, b in weights]
    bodies = [
        programs.body(
            programs.registers(geometry="rows", m=4, k=k, n=len(b), a=memory_a.iova, b=iova, c=memory.iova)
        )
        for (iova, b), memory in zip(weights, outputs, strict=True)
    ]
    allocate = client.allocate
    client.allocate = lambda size, flags=0x403: allocate(size, flags, domain)  # type: ignore[method-assign]
    try:
        _, tasks = client.write_programs(bodies)
    finally:
        client.allocate = allocate  # type: ignore[method-assign]
    return Chain(client, tasks, outputs, [programs.exact(a, b) for _, b in weights], domain)
