"""Mutated ioctl sequences and register programs against the board in this process.

A case may end in any errno. What must hold: the simulator answers within a bound, a client in another IOMMU
domain keeps its bytes, the CPU sides of cacheable buffers are written by nobody, no byte beside a buffer changes,
no core stops over a defect of its own, and the board works afterwards.

Mutations are guided: words that made the chip say something it had not said before become a start of their own.
"""

from __future__ import annotations

import errno
import faulthandler
import random
import re
import struct
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.regcmd.registers import by_address
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim import programs
from tests.sim.board_client import Client, matmul
from tests.sim.robustness import starts
from tests.sim.robustness.guarded_memory import GuardedMemory, guarded

CASE_LIMIT_S = 30.0
"""Far beyond what a case takes: reaching it is a hang."""

_KNOWN_ERRNOS = {
    errno.EINVAL, errno.ENOMEM, errno.ETIMEDOUT, errno.ENODEV, errno.ENOTTY, errno.EBADF, errno.EACCES,
    errno.EFAULT, errno.EPERM,
}  # fmt: skip
_REQUESTS = (
    uapi.RKNPU_ACTION, uapi.RKNPU_SUBMIT, uapi.RKNPU_MEM_CREATE, uapi.RKNPU_MEM_MAP, uapi.RKNPU_MEM_DESTROY,
    uapi.RKNPU_MEM_SYNC, uapi.DRM_IOCTL_GEM_CLOSE, uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE,
)  # fmt: skip
_EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 255, 4095, 4096, 0x403, 0x40B, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000,
          0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)  # fmt: skip
_DEFECT = "defect of the simulator"
_KEPT_STARTS = 64
"""Mutated programs kept as starts, of one buffer layout."""


@dataclass
class Outcome:
    cases: int = 0
    restarts: int = 0
    longest_s: float = 0.0
    endings: Counter[str] = field(default_factory=Counter)
    verdicts: set[str] = field(default_factory=set)
    """What the chip said about programs, numbers left out."""

    def __str__(self) -> str:
        ends = ", ".join(f"{name} {count}" for name, count in self.endings.most_common())
        return (
            f"fuzz: {self.cases} cases, longest {self.longest_s:.2f} s, {self.restarts} restarts, "
            f"{len(self.verdicts)} verdicts; {ends}"
        )


class Fuzzer:
    def __init__(self, seed: int, memory: GuardedMemory) -> None:
        self.source = random.Random(seed)
        self.memory = memory
        self.board = InProcessBoard()
        self.outcome = Outcome()
        self._said: list[str] = []
        self._settle()

    def _settle(self) -> None:
        """A bystander in domain 1 with known bytes, and a client to mistreat."""
        self.board.kernel.log.chip = self._said.append  # type: ignore[method-assign]
        self.bystander = Client(self.board.device())
        self.guarded = self.bystander.allocate(1 << 16, domain=1)
        self.guarded.view[:] = 0xA5
        self.bystander.sync(self.guarded, 1)
        self.guarded.view[:] = 0x5A
        self._fresh()

    def _fresh(self) -> None:
        self._spent = False
        self.client = Client(self.board.device())
        self.start = starts.make(self.client, self.source)
        self.pool = [self.start.words]
        self.commands, self.tasks = self.client.write_programs([self.start.words[:-4]], self.start.enable)

    def case(self) -> None:
        began = time.monotonic()
        self.outcome.cases += 1
        programs_turn = self.source.random() < 0.7
        try:
            (self._program if programs_turn else self._calls)()
            self.outcome.endings["ok"] += 1
        except OSError as error:
            # What keeps programs from running at all is left behind: a stuck job, a freed task array.
            self._spent |= error.errno == errno.EINVAL and programs_turn
            assert error.errno in _KNOWN_ERRNOS, f"errno {error.errno} of case {self.outcome.cases}"
            self.outcome.endings[errno.errorcode[error.errno]] += 1
        took = time.monotonic() - began
        for said in self._said:
            assert _DEFECT not in said, f"case {self.outcome.cases}: {said}"
        self._said.clear()
        self.outcome.longest_s = max(self.outcome.longest_s, took)
        self._check()

    def _check(self) -> None:
        if self.board.kernel.wedged or self._spent or self.outcome.cases % 500 == 0:
            self._restart()
            return
        assert self.guarded.view[0] == 0x5A, "a buffer's CPU side was written"
        gem = self.board.kernel.memory.find(self.guarded.obj_addr)
        assert gem.device[0] == gem.device[-1] == 0xA5, "a buffer of another domain was written"
        if self.outcome.cases % 20 == 0:
            self.memory.check()
            assert (self.guarded.view == 0x5A).all()
            assert (gem.device == 0xA5).all(), "a buffer of another domain was written"
            self.client.device.close()
            try:
                self._fresh()
            except OSError:
                # A stuck job nobody waits for keeps its domain, as on a board.
                self._restart()

    def _restart(self) -> None:
        self.outcome.restarts += 1
        self.memory.check()
        self.board.machine.restart(Event.POWER_CYCLE)
        self.memory.forget()
        self._settle()

    # -- programs ---------------------------------------------------------------------------------

    def _program(self) -> None:
        source = self.source
        words = list(source.choice(self.pool))
        for _ in range(source.choice((0, 1, 1, 1, 2, 4, 16))):
            words = self._mutated(words)
        self.client.put(self.commands, starts.raw(words, self.commands.size // 8))
        self.client.set_task(
            self.tasks,
            0,
            regcfg_amount=self._rarely(self.start.amount, source.randint(0, 70_000)),
            int_mask=self._rarely(self.start.int_mask, source.getrandbits(18)),
            regcmd_addr=self.commands.iova + self._rarely(0, source.choice((8, 16, 4096))),
        )
        before = [buffer.view.copy() for buffer in self.start.buffers]
        self._said.clear()
        try:
            self.client.submit(
                self.tasks,
                self._rarely(1, 3),
                core_mask=self._rarely(source.choice((1, 2, 4)), source.choice((0, 3, 7))),
                timeout=50,
            )
        finally:
            for was, buffer in zip(before, self.start.buffers, strict=True):
                assert np.array_equal(was, buffer.view), "the CPU's side of an operand was written"
            self._learn(words)

    def _learn(self, words: list[int]) -> None:
        """Keep words that made the chip say something new."""
        said = {self.start.name + re.sub(r"0x[0-9a-f]+|[0-9]+", "#", one) for one in self._said}
        if said <= self.outcome.verdicts:
            return
        self.outcome.verdicts |= said
        if len(self.pool) < _KEPT_STARTS:
            self.pool.append(words[: self.commands.size // 8])

    def _rarely(self, usual: int, odd: int) -> int:
        return odd if self.source.random() < 0.05 else usual

    def _mutated(self, words: list[int]) -> list[int]:
        source, at = self.source, self.source.randrange(len(words))
        kind = source.choice((0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7))
        if kind == 0:
            words[at] ^= 1 << source.randrange(16, 48)
        elif kind == 1:
            words[at] = words[at] & ~(0xFFFF_FFFF << 16) | source.choice(_EDGES) % (1 << 32) << 16
        elif kind == 2:
            del words[at]
        elif kind == 3:
            words.insert(at, source.choice(words))
        elif kind == 4:
            words[at] = source.getrandbits(64)
        elif kind == 5:
            link = self.commands.iova + 16 * source.randrange(64)
            words.insert(at, programs.word(programs.PC, link, 0x10))
            words.insert(at, programs.word(programs.PC, source.randrange(128), 0x14))
        elif kind == 7:
            words[at] ^= _known_bit(source, words[at]) << 16
        else:
            other = source.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        return words or [0]

    # -- calls ------------------------------------------------------------------------------------

    def _calls(self) -> None:
        failure: OSError | None = None
        for _ in range(self.source.choice((1, 2, 4, 8))):
            try:
                self._call()
            except OSError as error:
                failure = error
                if error.errno not in _KNOWN_ERRNOS:
                    break
        if failure is not None:
            raise failure

    def _number(self) -> int:
        source = self.source
        known = [
            value for one in self.client.allocated for value in (one.handle, one.obj_addr, one.iova, one.size)
        ]
        return source.choice((source.choice(_EDGES), source.choice(known or [1]), source.getrandbits(64)))

    def _call(self) -> None:
        source = self.source
        if source.random() < 0.1:
            self.client.device.mmap(self._number() & 0x7FFF_FFFF_F000, source.choice((1, 4096, 1 << 20)))
            return
        request = source.choice(_REQUESTS)
        if source.random() < 0.05:
            request = source.getrandbits(32)
        argument = bytearray(request >> 16 & 0x3FFF)
        for at in range(0, len(argument) - 3, 4):
            struct.pack_into("<I", argument, at, self._number() & 0xFFFF_FFFF)
        for at in range(0, len(argument) - 7, 8):
            if source.random() < 0.3:
                struct.pack_into("<Q", argument, at, self._number() & 0xFFFF_FFFF_FFFF_FFFF)
        self._tame(request, argument)
        if source.random() < 0.1:
            del argument[source.randrange(len(argument) + 1) :]
        self.client.device.ioctl(request, argument)

    def _tame(self, request: int, argument: bytearray) -> None:
        """Keep sizes and time-outs to what a host has; make half of the submits plausible."""
        source = self.source
        if request == uapi.RKNPU_MEM_CREATE:
            struct.pack_into("<Q", argument, 8, source.choice((0, 1, 4096, 65536, 1 << 20, 1 << 63)))
        if request == uapi.RKNPU_SUBMIT:
            struct.pack_into("<I", argument, 4, source.choice((0, 1, 50)))
            if source.random() < 0.5:
                struct.pack_into("<I", argument, 0, source.choice((1, 3, 5, 7)))
                struct.pack_into("<Q", argument, 24, self.tasks.obj_addr)
                struct.pack_into("<I", argument, 32, source.choice((0, 0, 1, 2)))
                struct.pack_into("<I", argument, 56, self._rarely(1, source.randrange(9)))


def _known_bit(source: random.Random, word: int) -> int:
    """One of the bits that are documented for the register a word names; 0 for a word that names none."""
    register = by_address(word & 0xFFFF)
    bits = [1 << bit for bit in range(32) if register is not None and register.known_mask >> bit & 1]
    return source.choice(bits) if bits else 0


def run(cases: int, seed: int, report: bool = False) -> Outcome:
    """Raises AssertionError with the case's number; a hang ends the process with every thread's stack."""
    with guarded() as memory:
        return _run(Fuzzer(seed, memory), cases, report)


def _run(fuzzer: Fuzzer, cases: int, report: bool) -> Outcome:
    try:
        for _ in range(cases):
            faulthandler.dump_traceback_later(CASE_LIMIT_S, exit=True)
            fuzzer.case()
            if report and fuzzer.outcome.cases % 5000 == 0:
                print(fuzzer.outcome, flush=True)
        faulthandler.cancel_dump_traceback_later()
        fuzzer.memory.check()
        fuzzer.board.machine.restart(Event.POWER_CYCLE)
        work = matmul(Client(fuzzer.board.device()), 4, 32, 32)
        work.client.submit(work.tasks, 1)
        assert np.array_equal(work.result(), work.expected), "the board does not work any more"
    finally:
        faulthandler.cancel_dump_traceback_later()
        fuzzer.board.close()
    return fuzzer.outcome
