"""Correct programs that mutations start from: every precision, geometry and kind the chip executes."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tests.sim.board_client import Client, Memory
from tests.sim.chip import build
from tests.sim.chip.build import PRECISIONS

CONV, CONV_RDMA, SDP = 0xD, 0x1D, 0x18
_BUFFER_BYTES = 16 << 10

_MATMULS = [
    (name, geometry, m, k, n)
    for name in PRECISIONS
    for geometry, m, k, n in (
        ("rows", 4, 32, 64), ("rows", 1, 128, 64), ("cube", 8, 64, 64), ("fold", 8, 64, 64),
    )
]  # fmt: skip
_OTHERS: dict[str, tuple[dict[int, int], int]] = {
    "int8 per channel": (build.matmul(PRECISIONS["int8->int8"], "rows", 8, 64, 32) | build.PER_CHANNEL, CONV_RDMA),
    "fp16 beside": (
        build.matmul(PRECISIONS["fp16->fp16"], "rows", 12, 32, 16)
        | build.beside(12, 16, 0x108202C0, build.OPERAND, build.OPERAND + 192, 192, 192),
        CONV_RDMA,
    ),
    "int4 batch": (build.int4_batch(64, 2), CONV),
    "int16 table": (
        build.sdp(8, 8, formats=0x24000001, rdma=0xF821)
        | build.TABLE
        | {0x4070: 0x302, 0x4060: 0x42, 0x4068: 0x10000},
        SDP,
    ),
    "fp16 add": (
        build.sdp(8, 16, formats=0x48000002, rdma=0x17849, erdma=0x40000008)
        | {0x4070: 0x108202C0, 0x4084: 0x10001},
        SDP,
    ),
    "int32 add": (
        build.sdp(8, 8, formats=0x90000004, rdma=0x27881, erdma=0x4000000C) | {0x4070: 0x10C203C0},
        SDP,
    ),
    "int8 copy": (build.sdp(16, 16, formats=0, rdma=0x7801), SDP),
}  # fmt: skip
COUNT = len(_MATMULS) + len(_OTHERS)


@dataclass(frozen=True)
class Start:
    """A program in a client's buffers. ``words`` are body and trailer, ``amount`` the words of the body."""

    name: str
    words: list[int]
    enable: int
    buffers: tuple[Memory, ...]

    @property
    def int_mask(self) -> int:
        return 0x300

    @property
    def amount(self) -> int:
        return len(self.words) - 4


def make(client: Client, source: random.Random) -> Start:
    """One of the programs, with its buffers allocated and filled."""
    which = source.randrange(COUNT)
    if which < len(_MATMULS):
        name, geometry, m, k, n = _MATMULS[which]
        registers, enable = build.matmul(PRECISIONS[name], geometry, m, k, n), CONV
        name = f"{name} {geometry}"
    else:
        name = list(_OTHERS)[which - len(_MATMULS)]
        registers, enable = _OTHERS[name]
    bases = (build.A, build.B, build.C, build.OPERAND, build.BLOCK)
    buffers = tuple(client.allocate(_BUFFER_BYTES) for _ in bases)
    for base, buffer in zip(bases, buffers, strict=True):
        buffer.view[:] = 0x11
        if base == build.BLOCK:
            buffer.view.reshape(-1, 32)[:, 16:24] = 0  # no weight zero points
        client.sync(buffer, 1)
    moved = {address: _moved(value, bases, buffers) for address, value in registers.items()}
    return Start(name, build.program(moved, enable), enable, buffers)


def _moved(value: int, bases: tuple[int, ...], buffers: tuple[Memory, ...]) -> int:
    for base, buffer in zip(bases, buffers, strict=True):
        if base <= value < base + _BUFFER_BYTES and value % 16 == 0 and value - base < 4096:
            return buffer.iova + value - base
    return value


def raw(words: list[int], room: int) -> np.ndarray:
    """As many words as fit, as the buffer holds them."""
    return np.array([word & 0xFFFF_FFFF_FFFF_FFFF for word in words[:room]], np.uint64)
