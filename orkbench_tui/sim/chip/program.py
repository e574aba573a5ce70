"""Fetching register programs and taking their words apart.

A program is a body of register writes and a four-word trailer: where the next program is and how
long, a version word, and the enable word that launches the blocks. The controller fetches
``2 * (amount + 1)`` words from the current address.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver.regcmd.registers import (
    ENABLE_REGISTER,
    NEXT_ADDRESS_REGISTER,
    NEXT_AMOUNT_REGISTER,
    REGISTERS,
    Block,
)
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.faults import ProgramError
from orkbench_tui.sim.chip.register_file import GROUPED_BLOCKS, KNOWN_ENABLES, RegisterFile

__all__ = ["Link", "load_program"]

_BASE = REGISTERS["pc_base_address"].fields
_AMOUNT = REGISTERS["pc_register_amounts"].fields["amount"]


@dataclass(frozen=True, slots=True)
class Link:
    """What a program leaves in the controller: what it launches and what comes next."""

    enable: int
    next_address: int
    next_amount: int


def load_program(space: AddressSpace, registers: RegisterFile, address: int, amount: int) -> Link:
    """Fetch one program and apply its words.

    Raises:
        DmaFault: a word is outside the mapped buffers.
        ProgramError: misaligned start, unknown word, register or field, or no enable word.
    """
    if address % RK3588.atom_bytes:
        raise ProgramError(
            "alignment", f"program starts at {address:#x}, not a multiple of {RK3588.atom_bytes}"
        )
    count = RK3588.amount_scale * (amount + 1)
    words = np.frombuffer(space.read(address, 8 * count, "register program").tobytes(), "<u8").tolist()
    next_address = next_amount = 0
    for index, word in enumerate(words):
        target, value, register = word >> 48, word >> 16 & 0xFFFF_FFFF, word & 0xFFFF
        if target == Block.ENABLE:
            if register != ENABLE_REGISTER:
                raise ProgramError("word", f"word {index} enables through register {register:#06x}")
            if value not in KNOWN_ENABLES:
                raise ProgramError("enable", f"word {index} enables blocks {value:#x}, a mask nobody uses")
            return Link(value, next_address, next_amount)
        if target in GROUPED_BLOCKS:
            registers.write(Block(target), register, value)
        elif target == Block.PC and register == NEXT_ADDRESS_REGISTER:
            next_address = value & _BASE["address"].mask
        elif target == Block.PC and register == NEXT_AMOUNT_REGISTER:
            if value & ~_AMOUNT.mask:
                raise ProgramError("field", f"word {index} sets an amount of {value:#x}")
            next_amount = value
        elif target not in (Block.NOP, Block.VERSION) or register or value:
            raise ProgramError("word", f"word {index} is {word:#018x}, which no block takes")
    raise ProgramError("enable", f"no enable word in the {count} words at {address:#x}")
