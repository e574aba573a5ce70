"""Register-program words and how programs link into a run.

A word is 64 bits: target block in 63:48, value in 47:16, register offset in 15:0. A program is a
body of register writes and a four-word trailer: the next program's address and fetch amount (zeros
in the last program of a run), a version word, and the enable word that starts the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from orkbench_tui.driver.regcmd.registers import (
    ENABLE_REGISTER,
    NEXT_ADDRESS_REGISTER,
    NEXT_AMOUNT_REGISTER,
    REGISTERS,
    Block,
)

__all__ = [
    "TRAILER_WORDS",
    "amount",
    "decode",
    "encode",
    "encode_all",
    "link",
    "padded_body_words",
    "trailer",
]

TRAILER_WORDS = 4


def encode(block: int, register: int, value: int) -> int:
    """One word. ``value`` is taken as 32 bits, two's complement.

    Raises:
        ValueError: ``value`` does not fit 32 bits.
    """
    if not -(1 << 31) <= value < 1 << 32:
        raise ValueError(f"register {register:#06x}: {value:#x} does not fit 32 bits")
    return block << 48 | (value & 0xFFFF_FFFF) << 16 | register


def decode(word: int) -> tuple[int, int, int]:
    """``(block, register, value)`` of a word."""
    return word >> 48, word & 0xFFFF, (word >> 16) & 0xFFFF_FFFF


def encode_all(writes: Iterable[tuple[str, int]]) -> np.ndarray:
    """A program body from ``(register name, value)`` pairs, in order; uint64 [n]."""
    words = []
    for name, value in writes:
        register = REGISTERS[name]
        words.append(encode(register.block, register.address, value))
    return np.array(words, dtype=np.uint64)


def padded_body_words(body_words: int) -> int:
    """Body length after the NOP that keeps the trailer on a 16-byte boundary."""
    return body_words + body_words % 2


def amount(body_words: int) -> int:
    """Fetch amount for a program of ``body_words`` words: 16-byte units, trailer included, minus one."""
    return (body_words + TRAILER_WORDS + 1) // 2 - 1


def trailer(enable: int, next_address: int = 0, next_body_words: int = 0) -> list[int]:
    """The four words that end a program; address 0 ends the run."""
    if next_address % 16:
        raise ValueError(f"next program at {next_address:#x} is not on a 16-byte boundary")
    if next_address:
        first = encode(Block.PC, NEXT_ADDRESS_REGISTER, next_address)
        second = encode(Block.PC, NEXT_AMOUNT_REGISTER, amount(next_body_words))
    else:
        first = 0
        second = encode(Block.PC, NEXT_AMOUNT_REGISTER, 0)
    return [first, second, encode(Block.VERSION, 0, 0), encode(Block.ENABLE, ENABLE_REGISTER, enable)]


def link(bodies: Sequence[np.ndarray], enables: Sequence[int], addresses: Sequence[int]) -> list[np.ndarray]:
    """Complete programs: each body with the trailer that leads to the next one.

    Args:
        bodies: uint64 [n_i], even lengths.
        enables: enable mask of each program.
        addresses: IOVA of each program, 16-byte aligned.
    """
    programs = []
    for index, body in enumerate(bodies):
        if len(body) % 2:
            raise ValueError(f"program {index} has an odd body of {len(body)} words; pad it with a NOP")
        if index + 1 < len(bodies):
            tail = trailer(enables[index], addresses[index + 1], len(bodies[index + 1]))
        else:
            tail = trailer(enables[index])
        programs.append(np.concatenate([body, np.array(tail, dtype=np.uint64)]))
    return programs
