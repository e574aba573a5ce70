"""/proc/irq of the NPU's interrupts: which CPU takes them, from the write on."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence

__all__ = ["IrqAffinity"]

_PATH = re.compile(r"/proc/irq/(?P<number>\d+)/smp_affinity_list")
_ROW = re.compile(rb" *(?P<number>\d+):(?: +\d+)+(?P<rest> +GICv3.*)", re.DOTALL)


def _cpus(text: str) -> list[int]:
    cpus: set[int] = set()
    for word in text.strip().split(","):
        first, dash, last = word.partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)):
            raise ValueError(word)
        cpus.update(range(int(first), int(last or first) + 1))
    return sorted(cpus)


class IrqAffinity:
    """As on the board, an interrupt goes to the first CPU of its list; counts stay where they were taken."""

    def __init__(
        self,
        files: dict[str, bytes],
        totals: Callable[[], Sequence[int]],
        numbers: Sequence[int],
        cores: int,
    ) -> None:
        """``totals`` gives the counts of the interrupts of these numbers; ``cores`` is how many CPUs there are."""
        self._cores = cores
        self._files = files
        self._totals = totals
        self._cpu = dict.fromkeys(numbers, 0)
        self._taken = {number: [0] * cores for number in self._cpu}
        self._last = dict.fromkeys(self._cpu, 0)
        for number in self._cpu:
            files[f"/proc/irq/{number}/smp_affinity_list"] = f"0-{cores - 1}\n".encode()
            files[f"/proc/irq/{number}/effective_affinity_list"] = b"0\n"

    def write(self, path: str, data: bytes) -> bool:
        found = _PATH.fullmatch(path)
        if found is None or path not in self._files:
            return False
        number = int(found["number"])
        try:
            cpus = _cpus(data.decode("ascii", "replace"))
        except ValueError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None
        if not cpus or cpus[0] >= self._cores:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._count()
        self._cpu[number] = cpus[0]
        self._files[path] = data.strip() + b"\n"
        self._files[f"/proc/irq/{number}/effective_affinity_list"] = f"{cpus[0]}\n".encode()
        return True

    def placed(self, data: bytes) -> bytes:
        """/proc/interrupts with every new count on the CPU that now takes it."""
        self._count()
        return b"".join(self._row(line) for line in data.splitlines(keepends=True))

    def _count(self) -> None:
        for number, total in zip(self._cpu, self._totals(), strict=True):
            self._taken[number][self._cpu[number]] += max(0, total - self._last[number])
            self._last[number] = total

    def _row(self, line: bytes) -> bytes:
        found = _ROW.fullmatch(line)
        number = int(found["number"]) if found else -1
        if found is None or number not in self._cpu:
            return line
        counts = "".join(f" {count:10}" for count in self._taken[number])
        return f"{number:3}:{counts}".encode() + found["rest"]
