"""Where time went, from what other tools print: shares of operations, and the frames a debugger caught.

A board without ``perf`` is still sampled by a debugger that stops the program now and then; thirty stacks tell
loading from computing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.plain_text import one_line

__all__ = ["OpShare", "StackProfile", "op_shares", "stack_profile"]

_OP = re.compile(r"^\s*([A-Za-z_][\w.+-]*)\s*[:=]?\s+(\d+(?:\.\d+)?)\s*(ms|us|s)\b", re.M)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_TOTALS = ("total", "sum", "all")

_FRAME = re.compile(r"^#(\d+)\s+(?:0x[0-9a-f]+ in )?([\w:~.<>$@]+)", re.M)
_WAITS = ("ioctl", "syscall", "poll", "futex", "nanosleep", "pthread_cond", "__libc", "clone", "start_thread")

_CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "load",
        ("load", "untile", "inflate", "import", "mmap", "pread", "read_weights", "pack", "memcpy", "fault"),
    ),
    ("wait", _WAITS),
    (
        "compute",
        ("run", "matmul", "mul_mat", "quant", "gemm", "softmax", "attention", "norm", "forward", "decode"),
    ),
)
"""First match wins, from the innermost frame out."""


@dataclass(frozen=True, slots=True)
class OpShare:
    """``ms`` in all and percent of the sum of all operations."""

    name: str
    ms: float
    percent: float


@dataclass(frozen=True, slots=True)
class StackProfile:
    """``frames`` are the innermost named frame of each sample with how often it was seen, most first.

    ``classes`` counts samples by what they were doing: load, compute, wait or unknown.
    """

    samples: int
    frames: tuple[tuple[str, int], ...]
    classes: dict[str, int]

    @property
    def dominant(self) -> str:
        """What more than half of the samples did; "" where nothing did."""
        name, count = max(self.classes.items(), key=lambda item: item[1])
        return name if 2 * count > self.samples else ""


def op_shares(text: str) -> tuple[OpShare, ...]:
    """Operations of a profile (``NAME 12.3 ms``), longest first; several lines of one name are added up.

    Raises:
        InvalidFileError: no operation with a time.
    """
    times: Counter[str] = Counter()
    for name, value, unit in _OP.findall(text):
        if name.lower() not in _TOTALS:
            times[name] += float(value) * _MS[unit]  # type: ignore[assignment]
    total = sum(times.values())
    if not total:
        raise InvalidFileError("no operation with a time", why="expected lines such as: MUL_MAT 12.3 ms")
    return tuple(OpShare(name, ms, 100 * ms / total) for name, ms in times.most_common())


def stack_profile(text: str) -> StackProfile:
    """What a debugger's stacks show; each begins with its frame 0.

    Raises:
        InvalidFileError: no stack.
    """
    stacks: list[list[str]] = []
    for number, name in _FRAME.findall(text):
        if number == "0":
            stacks.append([])
        if stacks:
            stacks[-1].append(one_line(name, 80))
    if not stacks:
        raise InvalidFileError("no stack", why="expected frames such as: #0  0x0000ffff in name (…)")
    classes = Counter(_class_of(stack) for stack in stacks)
    frames = Counter(_own_frame(stack) for stack in stacks)
    return StackProfile(len(stacks), tuple(frames.most_common()), dict(classes))


def _own_frame(stack: list[str]) -> str:
    """The innermost frame that is no call into the system."""
    return next((name for name in stack if not any(wait in name for wait in _WAITS)), stack[0])


def _class_of(stack: list[str]) -> str:
    for frame in stack:
        for name, words in _CLASSES:
            if name != "wait" and any(word in frame.lower() for word in words):
                return name
    return "wait" if any(word in stack[0] for word in _WAITS) else "unknown"
