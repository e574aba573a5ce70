"""A small client of the rknpu ABI for the tests: raw ioctls, nothing of the driver."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from orkbench_tui.driver import uapi
from tests.sim import programs

DATA, TASKS, UNCACHED = 0x403, 0x40B, 0x401


@dataclass
class Memory:
    handle: int
    obj_addr: int
    iova: int
    size: int
    view: np.ndarray


class Client:
    """Wraps any ``Device``."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.allocated: list[Memory] = []

    def call(self, request: int, structure: ctypes.Structure) -> Any:
        argument = bytearray(structure)
        self.device.ioctl(request, argument)
        return type(structure).from_buffer_copy(argument)

    def allocate(self, size: int, flags: int = DATA, domain: int = 0) -> Memory:
        made = self.call(
            uapi.RKNPU_MEM_CREATE, uapi.MemCreate(flags=flags, size=size, iommu_domain_id=domain)
        )
        offset = self.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=made.handle)).offset
        view = np.frombuffer(self.device.mmap(offset, made.size), np.uint8)
        memory = Memory(made.handle, made.obj_addr, made.dma_addr, made.size, view)
        self.allocated.append(memory)
        if flags & uapi.MemFlag.CACHEABLE:
            # A fresh buffer's lines would cover the first result of a cold core.
            self.sync(memory, 3)
        return memory

    def free(self, memory: Memory) -> None:
        self.call(uapi.RKNPU_MEM_DESTROY, uapi.MemDestroy(handle=memory.handle, obj_addr=memory.obj_addr))
        self.allocated.remove(memory)

    def sync(self, memory: Memory, direction: int, offset: int = 0, size: int = 0) -> None:
        self.call(
            uapi.RKNPU_MEM_SYNC,
            uapi.MemSync(
                flags=direction, obj_addr=memory.obj_addr, offset=offset, size=size or memory.size - offset
            ),
        )

    def put(self, memory: Memory, data: np.ndarray, offset: int = 0, sync: bool = True) -> None:
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        memory.view[offset : offset + len(raw)] = raw
        if sync:
            self.sync(memory, 1)

    def take(self, memory: Memory, kind: Any = np.int32, sync: bool = True) -> np.ndarray:
        if sync:
            self.sync(memory, 2)
        return memory.view.view(kind)

    def action(self, code: int, value: int = 0) -> int:
        return self.call(uapi.RKNPU_ACTION, uapi.Action(flags=code, value=value)).value

    def write_programs(
        self, bodies: list[list[int]], enable: int = 0xD, last: tuple[int, int] = (0, 0)
    ) -> tuple[Memory, Memory]:
        """Chain the bodies in one buffer; returns (register commands, task array), synced."""
        sizes = [-(-(len(body) + 4) // 2) * 16 for body in bodies]
        commands = self.allocate(sum(sizes))
        tasks = self.allocate(40 * len(bodies), TASKS)
        at = 0
        for index, body in enumerate(bodies):
            padded = body + [0] * (len(body) % 2)
            following, words = last
            if index + 1 < len(bodies):
                following, words = commands.iova + at + sizes[index], len(bodies[index + 1])
            data = np.array([*padded, *programs.trailer(following, words, enable)], np.uint64)
            self.put(commands, data, at, sync=False)
            task = uapi.Task(
                enable_mask=enable,
                int_mask=0x300,
                int_clear=0x1FFFF,
                regcfg_amount=len(padded),
                regcmd_addr=commands.iova + at,
            )
            self.put(tasks, np.frombuffer(bytes(task), np.uint8), 40 * index, sync=False)
            at += sizes[index]
        self.sync(commands, 1)
        return commands, tasks

    def set_task(self, tasks: Memory, index: int, **fields: int) -> None:
        task = uapi.Task.from_buffer(tasks.view.data, 40 * index)
        for name, value in fields.items():
            setattr(task, name, value)

    def submit(
        self,
        tasks: Memory,
        number: int,
        *,
        core_mask: int = 1,
        flags: int = 5,
        timeout: int = 6000,
        domain: int = 0,
        slots: dict[int, tuple[int, int]] | None = None,
    ) -> uapi.Submit:
        request = uapi.Submit(
            flags=flags, timeout=timeout, task_number=number, task_obj_addr=tasks.obj_addr, core_mask=core_mask,
            fence_fd=-1, iommu_domain_id=domain,
        )  # fmt: skip
        for slot, (start, count) in (slots or dict.fromkeys((0, 1, 2), (0, number))).items():
            request.subcore_task[slot] = uapi.SubcoreTask(task_start=start, task_number=count)
        return self.call(uapi.RKNPU_SUBMIT, request)


@dataclass
class Matmul:
    """Operands of one row-major int8 matmul on a client, ready to submit."""

    client: Client
    a: np.ndarray
    b: np.ndarray
    memory_a: Memory
    memory_b: Memory
    memory_c: Memory
    commands: Memory
    tasks: Memory

    @property
    def expected(self) -> np.ndarray:
        return programs.exact(self.a, self.b)

    def result(self, sync: bool = True) -> np.ndarray:
        m, n = len(self.a), len(self.b)
        return self.client.take(self.memory_c, sync=sync)[: m * n].reshape(m, n)


def matmul(client: Client, m: int, k: int, n: int, seed: int = 0, copies: int = 1) -> Matmul:
    """Random operands and ``copies`` times the same program, written and synced."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-128, 128, (m, k), dtype=np.int8)
    b = rng.integers(-128, 128, (n, k), dtype=np.int8)
    memory_a, memory_b, memory_c = (
        client.allocate(a.size),
        client.allocate(b.size),
        client.allocate(4 * m * n),
    )
    client.put(memory_a, a)
    client.put(memory_b, programs.weight_tiles(b))
    regs = programs.registers(
        geometry="rows", m=m, k=k, n=n, a=memory_a.iova, b=memory_b.iova, c=memory_c.iova
    )
    commands, tasks = client.write_programs([programs.body(regs)] * copies)
    return Matmul(client, a, b, memory_a, memory_b, memory_c, commands, tasks)
