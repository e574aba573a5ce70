"""Register programs for the tests, built from the published register lists with plain numbers.

On purpose this shares nothing with the driver's builder: a mistake in one shows against the other.
"""

from __future__ import annotations

import numpy as np

CNA, CORE, DPU, PC, VERSION, ENABLE = 0x0201, 0x0801, 0x1001, 0x0101, 0x0041, 0x0081

# The registers of a matmul in the order RKNN writes them (108 words), and in mtx512's (the last 104 but one form).
_HEAD = [0x1040, 0x1104, 0x1100, 0x100C, 0x4004, 0x100C]
_REST = [
    0x1010, 0x1014, 0x1020, 0x1024, 0x1028, 0x102C, 0x1030, 0x1034, 0x1038, 0x1040, 0x1044, 0x104C, 0x1050, 0x1054,
    0x1058, 0x105C, 0x1060, 0x1064, 0x1068, 0x1070, 0x1074, 0x1078, 0x107C, 0x1080, 0x1084, 0x1088, 0x1100, 0x1104,
    0x1110, *range(0x1140, 0x1180, 4), 0x1180, 0x1184, 0x3010, 0x3014, 0x3018, 0x301C, 0x3030, 0x400C, 0x4010, 0x4014,
    0x4020, 0x4024, 0x4030, 0x4034, 0x4038, 0x403C, 0x4040, 0x4044, 0x4048, 0x404C, 0x4050, 0x4054, 0x4058, 0x405C,
    0x4060, 0x4064, 0x4068, 0x406C, 0x4070, 0x4074, 0x4078, 0x407C, 0x4080, 0x4084, 0x4088, *range(0x4090, 0x40B0, 4),
    0x40C0, 0x40C4, *range(0x4100, 0x4130, 4),
]  # fmt: skip
RKNN_ORDER = [*_HEAD, *_REST]
MTX_ORDER = [0x4004, 0x100C, *_REST]

_CONSTANT = {
    0x4004: 0xE, 0x1014: 9, 0x104C: 0xB, 0x1050: 0x10000, 0x1054: 0x10000, 0x1058: 0x10000, 0x105C: 0x10000,
    0x1078: 0xF000F, 0x400C: 0x1E4, 0x4040: 0x53, 0x4060: 0x53, 0x4070: 0x383, 0x4078: 1,
}  # fmt: skip

# output bytes -> (0x4010, 0x4050 with OD_BYPASS clear)
_OUTPUT = {4: (0x80000000, 0x7FC), 2: (0x20000000, 0x36C), 1: (0, 0x124)}


def _target(address: int) -> int:
    return {1: CNA, 3: CORE, 4: DPU, 5: 0x2001}[address >> 12]


def word(target: int, value: int, address: int) -> int:
    return target << 48 | (value & 0xFFFFFFFF) << 16 | address


def body(registers: dict[int, int], order: list[int] = RKNN_ORDER) -> list[int]:
    return [word(_target(address), registers.get(address, 0), address) for address in order]


def trailer(following: int = 0, words: int = 0, enable: int = 0xD) -> list[int]:
    """The four last words; ``words`` is the body length of the program that follows."""
    head = [0, word(PC, 0, 0x14)]
    if following:
        head = [word(PC, following, 0x10), word(PC, (words + 4 + 1) // 2 - 1, 0x14)]
    return [*head, word(VERSION, 0, 0), word(ENABLE, enable, 8)]


def registers(
    *,
    geometry: str,
    m: int,
    k: int,
    n: int,
    a: int,
    b: int,
    c: int,
    out: int = 4,
    rows_of_cube: int = 0,
    first_row: int = 0,
    stride: int = 0,
    a_pitch: int = 0,
    conversion: tuple[int, int, int] = (1, 0, 0),
    convert_type: int = 0,
) -> dict[int, int]:
    """An int8 matmul. ``out`` is bytes per result; ``conversion`` is (scale, shift, offset)."""
    units, per_atom = 32 * out // 16, 16 // out
    banks = max(1, -(-m * k // 32768))
    formats, size_e = _OUTPUT[out]
    scale, shift, offset = conversion
    regs = dict(_CONSTANT)
    regs |= {
        0x102C: m, 0x1024: (k - 1) << 16 | k, 0x1030: k * n, 0x1034: k, 0x1038: 0x01010000 | n,
        0x1040: (12 - banks) << 4 | banks, 0x1088: k, 0x1110: b, 0x3010: 1, 0x3018: n - 1, 0x4010: formats,
        0x403C: (n - 1) << 16 | n - 1, 0x4050: size_e, 0x4058: n - 1, 0x4084: scale, 0x4080: offset & 0xFFFFFFFF,
        0x4088: convert_type << 31 | shift,
    }  # fmt: skip
    if geometry == "cube":
        regs |= {
            0x100C: 0, 0x1010: ((m + 1) & 0x3FF) << 4, 0x1020: 1 << 16 | m, 0x1028: 1, 0x1044: -(-k // 64), 0x1070: a,
            0x107C: 4, 0x1080: _surface(m), 0x1084: 1 << 16 | m, 0x3014: (m - 1) << 16, 0x4020: c, 0x4024: 16 * m,
            0x4034: m - 1, 0x405C: (m - 1) << 16, 0x40C0: 16 * units * m,
        }  # fmt: skip
    elif geometry == "rows":
        pitch = (stride or n) // per_atom
        regs |= {
            0x100C: 0x20000000, 0x1010: 16 * (m + 1) & 0x3FF0, 0x1020: 1 << 16 | m, 0x1028: 1, 0x1044: -(-k // 64),
            0x1070: a, 0x107C: (a_pitch or k) // 16, 0x1080: 0, 0x1084: 1 << 16 | m, 0x3014: (m - 1) << 16,
            0x4020: c, 0x4024: 0x10, 0x4034: m - 1, 0x4038: (pitch - 1) << 16 | (n // per_atom - 1),
            0x403C: ((stride or n) - 1) << 16 | n - 1, 0x405C: (m - 1) << 16, 0x40C0: 16 * units,
        }  # fmt: skip
    else:
        total = rows_of_cube or m
        whole = total == m
        regs |= {
            0x100C: 0 if whole else 0x20000000, 0x1010: 0x20, 0x1020: m << 16 | 1, 0x1028: m, 0x1044: m * -(-k // 64),
            0x1070: a + 16 * first_row, 0x107C: 4 * m if whole else total,
            0x1080: (-3 * m if whole else total - m) & 0xFFFFFFF, 0x1084: m << 16 | 1, 0x3014: m - 1,
            0x4020: c + 16 * first_row, 0x4024: 16 * total, 0x4030: m - 1, 0x405C: m - 1, 0x40C0: 16 * units * total,
        }  # fmt: skip
    return regs


def _surface(m: int) -> int:
    """The cube program's surface stride, with the correction it makes for M = 1."""
    stride = 4 * (m // 4 - 1)
    return (stride + (stride < 0)) & 0xFFFFFFF


def weight_tiles(b: np.ndarray) -> np.ndarray:
    """int8 [N][K] as the tiles the chip reads."""
    n, k = b.shape
    return np.ascontiguousarray(b.reshape(n // 32, 32, k // 32, 32).transpose(0, 2, 1, 3)).reshape(-1)


def feature_cube(a: np.ndarray) -> np.ndarray:
    """int8 [M][K] as [K/16][M][16]."""
    m, k = a.shape
    return np.ascontiguousarray(a.reshape(m, k // 16, 16).transpose(1, 0, 2)).reshape(-1)


def from_cube(flat: np.ndarray, m: int, n: int) -> np.ndarray:
    """[N/c][M][c] results, c values per 16 bytes, as [M][N]."""
    per_atom = 16 // flat.itemsize
    return flat[: m * n].reshape(n // per_atom, m, per_atom).transpose(1, 0, 2).reshape(m, n)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int64)
