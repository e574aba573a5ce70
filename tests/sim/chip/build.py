"""Programs of every precision, element-wise programs and table loads, from the published register values.

Plain numbers, as in ``tests.sim.programs``: nothing here comes from the driver or from the chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orkbench_tui.sim.chip.address_space import AddressSpace, Segment
from orkbench_tui.sim.chip.core import Core, Run
from tests.sim import programs

A, B, C, OPERAND, CODE = 0xFFF00000, 0xF0000000, 0xE0000000, 0xD0000000, 0xFFE00000
BLOCK = 0xC0000000

RDMA_ORDER = [
    0x5004, 0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5028, 0x502C, 0x5034, 0x5038, 0x5040, 0x5044, 0x5048,
    0x504C, 0x5064, 0x5068, 0x506C,
]  # fmt: skip
_DPU_ORDER = [address for address in programs.RKNN_ORDER if address >= 0x400C]
SDP_ORDER = [0x4004, 0x5004, *_DPU_ORDER, *RDMA_ORDER[1:]]
assert len(SDP_ORDER) == 69


@dataclass(frozen=True)
class Precision:
    """One row of the published table of matmul precisions."""

    pc: int
    bits: int
    group: int
    granule: int
    out_bytes: int
    core: int
    formats: int
    ow: int
    scale: int = 1

    @property
    def per_atom(self) -> int:
        return 128 // self.bits

    @property
    def units(self) -> int:
        return self.group * self.out_bytes // 16


PRECISIONS = {
    "int8->int32": Precision(0, 8, 32, 32, 4, 0x001, 0x80000000, 0x7FC),
    "int8->fp32": Precision(0, 8, 32, 32, 4, 0x001, 0xA0000000, 0x7FC),
    "int8->int16": Precision(0, 8, 32, 32, 2, 0x001, 0x20000000, 0x36C),
    "int8->fp16": Precision(0, 8, 32, 32, 2, 0x001, 0x40000000, 0x36C),
    "int8->int8": Precision(0, 8, 32, 32, 1, 0x001, 0x00000000, 0x124),
    "fp16->fp32": Precision(2, 16, 16, 32, 4, 0x201, 0xA8000002, 0x36C),
    "fp16->fp16": Precision(2, 16, 16, 32, 2, 0x201, 0x48000002, 0x124, 0x10001),
    "bf16->fp32": Precision(3, 16, 16, 32, 4, 0x301, 0xAC000003, 0x36C),
    "bf16->bf16": Precision(3, 16, 16, 32, 2, 0x301, 0x6C000003, 0x124, 0x10001),
    "tf32->fp32": Precision(7, 32, 16, 16, 4, 0x701, 0xB4000005, 0x36C),
    "int16->int32": Precision(1, 16, 16, 32, 4, 0x101, 0x84000001, 0x36C),
    "int4->int16": Precision(6, 4, 64, 32, 2, 0x601, 0x38000006, 0x7FE),
}


def matmul(p: Precision, geometry: str, m: int, k: int, n: int) -> dict[int, int]:
    """Registers of a whole matmul in ``rows``, ``cube``, ``fold`` or ``panel8``."""
    row = k * p.bits // 8
    banks = max(1, -(-m * row // 32768))
    entries = -(-row // 64)
    regs = dict(programs._CONSTANT)
    regs |= {
        0x102C: m, 0x1024: (k - 1) << 16 | k, 0x1030: row * n, 0x1034: row, 0x1038: 0x01010000 | n,
        0x1040: (12 - banks) << 4 | banks, 0x1088: k, 0x1110: B, 0x3010: p.core, 0x3018: n - 1, 0x4010: p.formats,
        0x403C: (n - 1) << 16 | n - 1, 0x4050: p.ow, 0x4058: n - 1, 0x4084: p.scale, 0x1070: A, 0x4020: C,
    }  # fmt: skip
    low = p.pc * 0x90
    cube_out = {0x4024: 16 * m, 0x40C0: 16 * p.units * m}
    if geometry == "rows":
        atoms = n * p.out_bytes // 16 - 1
        regs |= {
            0x100C: 0x20000000 | low, 0x1010: 16 * (m + 1), 0x1020: 1 << 16 | m, 0x1028: 1, 0x1044: entries,
            0x107C: row // 16, 0x1080: 0, 0x1084: 1 << 16 | m, 0x3014: (m - 1) << 16, 0x4024: 0x10, 0x4034: m - 1,
            0x4038: atoms << 16 | atoms, 0x405C: (m - 1) << 16, 0x40C0: 16 * p.units,
        }  # fmt: skip
    elif geometry == "cube":
        regs |= cube_out | {
            0x100C: low, 0x1010: 16 * (m + 1), 0x1020: 1 << 16 | m, 0x1028: 1, 0x1044: entries, 0x107C: 4,
            0x1080: programs._surface(m), 0x1084: 1 << 16 | m, 0x3014: (m - 1) << 16, 0x4034: m - 1,
            0x405C: (m - 1) << 16,
        }  # fmt: skip
    elif geometry == "fold":
        regs |= cube_out | {
            0x100C: low, 0x1010: 0x20, 0x1020: m << 16 | 1, 0x1028: m, 0x1044: m * entries, 0x107C: 4 * m,
            0x1080: -3 * m & 0xFFFFFFF, 0x1084: m << 16 | 1, 0x3014: m - 1, 0x4030: m - 1, 0x405C: m - 1,
        }  # fmt: skip
    else:
        lines = m // 8
        regs |= cube_out | {
            0x100C: 0x20000000 | low, 0x1010: 16 * min(lines + 1, 64), 0x1020: 8 << 16 | lines, 0x1028: 8,
            0x1044: 8 * (k // 128) + {0: 0, 32: 2, 64: 4, 96: 8}[k % 128], 0x107C: k // 4, 0x1080: 0,
            0x1084: 8 << 16 | lines, 0x3014: (lines - 1) << 16 | 7, 0x4030: m - 1, 0x405C: m - 1,
        }  # fmt: skip
    return regs


def int4_batch(k: int, groups: int) -> dict[int, int]:
    """The batch form of int4: only every fourth line starts where the host placed a row."""
    lines = 4 * groups
    regs = matmul(PRECISIONS["int4->int16"], "rows", lines, k, 64)
    return regs | {
        0x100C: 0x360, 0x107C: k // 16, 0x1080: 0xFFFFFFD, 0x4024: 0x10, 0x405C: 0, 0x40C0: 0x80, 0x1040: 0xB1,
        0x1044: -(-k // 128), 0x4038: 0,
    }  # fmt: skip


def sdp(
    m: int, n: int, *, formats: int, rdma: int, erdma: int = 1, src: int = A, dst: int = C, ew: int = OPERAND
) -> dict[int, int]:
    """A stand-alone element-wise program on an M x N cube, all stages bypassed."""
    return {
        0x4004: 0xE, 0x5004: 0xE, 0x400C: 0x1E5, 0x4010: formats, 0x4020: dst, 0x4024: 16 * m, 0x4030: m - 1,
        0x403C: (n - 1) << 16 | n - 1, 0x4040: 0x53, 0x4050: 2, 0x4058: n - 1, 0x405C: m - 1, 0x4060: 0x53,
        0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x40C0: 16 * m, 0x500C: m - 1, 0x5014: n - 1, 0x5018: src,
        0x5034: erdma, 0x5038: ew if erdma != 1 else 0, 0x5040: 16 * m if erdma != 1 else 0, 0x5044: rdma,
        0x5068: 0x01010101,
    }  # fmt: skip


PER_CHANNEL = {
    0x4040: 0x20140, 0x4048: 0x0E01, 0x4010: 0xE0, 0x4050: 0x125, 0x501C: 0x0E, 0x5020: BLOCK, 0x5044: 0x7810,
}  # fmt: skip
"""Bias and multiplier of each channel from a parameter block, shift 14."""

TABLE = {0x4108: 0x68, 0x410C: 0x50500, 0x4110: 0xFFFFC000, 0x411C: 0x4000}
"""Table settings of the vendor: steps of 32 over -16384 to 16384."""


def beside(m: int, n: int, word: int, base: int, odd: int, stride: int, notch: int) -> dict[int, int]:
    """Changes for an fp16 operand beside a convolution, from two engines in turn."""
    return {
        0x4070: word, 0x4078: 1, 0x5034: 0x40000008, 0x5044: 0x17D40, 0x500C: 0, 0x5010: m - 1,
        0x5014: n - 1, 0x5018: base, 0x5038: odd, 0x5040: stride,
        0x504C: notch, 0x506C: notch,
    }  # fmt: skip


def table_words(le: np.ndarray, lo: np.ndarray) -> list[int]:
    """The writes that load both tables, 1028 words."""
    words = []
    for select, entries in ((0x20000, le), (0x30000, lo)):
        assert len(entries) == 513
        words.append(programs.word(programs.DPU, select, 0x4100))
        words += [programs.word(programs.DPU, int(entry) & 0xFFFF, 0x4104) for entry in entries]
    return words


def table_load(le: np.ndarray, lo: np.ndarray) -> list[int]:
    """A complete table-load program: the writes, and a one-atom copy that makes it a task."""
    copy = sdp(1, 16, formats=0, rdma=0x7801, src=CODE, dst=BLOCK)
    body = [*programs.body(copy, SDP_ORDER), *table_words(le, lo)]
    return [*body, *([0] * (len(body) % 2)), *programs.trailer(enable=0x18)]


def program(registers: dict[int, int], enable: int = 0xD) -> list[int]:
    """Words of a whole program."""
    order = SDP_ORDER if enable == 0x18 else programs.RKNN_ORDER
    if enable == 0x1D:
        order = [*order, *RDMA_ORDER]
    body = programs.body(registers, order)
    return [*body, *([0] * (len(body) % 2)), *programs.trailer(enable=enable)]


class Machine:
    """One core and its memory, without a kernel."""

    def __init__(self) -> None:
        self.core = Core(0)
        self.memory: dict[int, np.ndarray] = {}

    def put(self, iova: int, data: np.ndarray) -> np.ndarray:
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8).copy()
        self.memory[iova] = raw
        return raw

    @property
    def space(self) -> AddressSpace:
        space = AddressSpace()
        for iova, data in self.memory.items():
            space = space.with_segment(Segment(iova, data))
        return space

    def run(self, *programs_: list[int]) -> Run:
        """Programs as one run, linked one to the next."""
        words: list[int] = []
        for index, one in enumerate(programs_):
            words += one
            if index + 1 < len(programs_):
                following = programs_[index + 1]
                enable = one[-1] >> 16 & 0xFFFF
                words[-4:] = programs.trailer(CODE + 8 * len(words), len(following) - 4, enable)
        self.put(CODE, np.array(words, np.uint64))
        return self.core.run(self.space, CODE, -(-len(programs_[0]) // 2) - 1, len(programs_))

    def output(self, size: int, fill: int = 0x5A) -> np.ndarray:
        return self.put(C, np.full(size, fill, np.uint8))


def cube(matrix: np.ndarray, per_atom: int) -> np.ndarray:
    """[M][N] as [N/per_atom][M][per_atom]."""
    m, n = matrix.shape
    return np.ascontiguousarray(matrix.reshape(m, n // per_atom, per_atom).transpose(1, 0, 2))


def from_cube(flat: np.ndarray, m: int, n: int) -> np.ndarray:
    """[N/c][M][c] results, c values per 16 bytes, as [M][N]."""
    per_atom = 16 // flat.itemsize
    return flat[: m * n].reshape(n // per_atom, m, per_atom).transpose(1, 0, 2).reshape(m, n)


def nibbles(codes: np.ndarray) -> np.ndarray:
    """int4 codes as bytes, the even index in the low half."""
    flat = codes.reshape(-1).astype(np.int64) & 0xF
    return (flat[0::2] | flat[1::2] << 4).astype(np.uint8)


def tiles(b: np.ndarray, p: Precision) -> np.ndarray:
    """[N][K] as [N/KG][K/KC][KG][KC], by the published index formula."""
    n_all, k_all = b.shape
    n, k = np.mgrid[:n_all, :k_all]
    index = (n // p.group) * p.group * k_all + (k // p.granule) * p.group * p.granule
    index += (n % p.group) * p.granule + k % p.granule
    flat = np.empty(b.size, b.dtype)
    flat[index] = b
    return flat
