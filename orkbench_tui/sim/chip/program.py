"""Register programs: fetching them, and taking their words apart.

A program is a body of register writes and a four-word trailer: where the next program is and how
long, a version word, and the enable word that launches the blocks. The controller fetches
``2 * (amount + 1)`` words from the current address, every time it reaches the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from orkbench_tui.driver.regcmd.registers import (
    BLOCK_OF_PAGE,
    ENABLE_REGISTER,
    NEXT_ADDRESS_REGISTER,
    NEXT_AMOUNT_REGISTER,
    REGISTERS,
    Block,
    Enable,
)
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.conv_operation import ConvOperation
from orkbench_tui.sim.chip.faults import ProgramError
from orkbench_tui.sim.chip.lut import LutMemory
from orkbench_tui.sim.chip.register_file import GROUPED_BLOCKS, RegisterFile
from orkbench_tui.sim.chip.sdp_operation import SdpOperation

__all__ = ["Program", "fetch", "parse"]

_BASE = REGISTERS["pc_base_address"].fields["address"]
_AMOUNT = REGISTERS["pc_register_amounts"].fields["amount"]
_GROUPED = {int(block): block for block in GROUPED_BLOCKS}
_KNOWN_BITS = {register.address: (register.name, register.known_mask) for register in REGISTERS.values()}
_S_POINTER_OFFSET, _PAGE_MASK = 0x004, 0xFFF
_S_POINTER_BITS = REGISTERS["cna_s_pointer"].known_mask
_LUT_ACCESS = REGISTERS["dpu_lut_access_cfg"].address
_LUT_DATA = REGISTERS["dpu_lut_access_data"].address
_SIGN_EXTENSION = 0xFFFF


@dataclass(eq=False, slots=True)
class Program:
    """A parsed program. ``steps`` are, in order, a block's pointer value or a batch of its writes.

    ``settled`` holds the addresses whose value at launch is this program's own, whatever ran before.
    ``operation`` caches what was decoded from those alone. ``table_writes`` go to the core's table RAM,
    in order.
    """

    enable: int
    next_address: int
    next_amount: int
    steps: list[tuple[Block, int | dict[int, int]]]
    settled: frozenset[int]
    table_writes: tuple[tuple[int, int], ...] = ()
    operation: ConvOperation | SdpOperation | None = field(default=None)

    def apply(self, registers: RegisterFile, lut: LutMemory) -> None:
        """Carry out all writes.

        Raises:
            ProgramError: a table entry beyond the last.
        """
        lut.write_all(self.table_writes)
        for block, step in self.steps:
            if isinstance(step, int):
                registers.set_pointer(block, step)
            else:
                registers.update(block, step)


def fetch(space: AddressSpace, address: int, amount: int, scale: int = RK3588.amount_scale) -> Program:
    """The program at ``address``, read now: ``scale`` words for each unit of ``amount`` and one more.

    Raises:
        DmaFault: a word is outside the mapped buffers.
        ProgramError: see ``parse``; or a start that is not 16-byte aligned.
    """
    if address % RK3588.atom_bytes:
        raise ProgramError(
            "alignment", f"program starts at {address:#x}, not a multiple of {RK3588.atom_bytes}"
        )
    size = 8 * scale * (amount + 1)
    return parse(space.read(address, size, "register program").tobytes())


@lru_cache(maxsize=8192)
def parse(data: bytes) -> Program:
    """Take words apart up to the enable word. Depends on nothing but the words.

    Raises:
        ProgramError: a word, register or bit nobody has documented, a register of another block, or
            no enable word.
    """
    steps: list[tuple[Block, int | dict[int, int]]] = []
    settled: set[int] = set()
    table_writes: list[tuple[int, int]] = []
    next_address = next_amount = 0
    words = np.frombuffer(data, "<u8").tolist()
    for index, word in enumerate(words):
        target, value, register = word >> 48, word >> 16 & 0xFFFF_FFFF, word & 0xFFFF
        block = _GROUPED.get(target)
        if block is Block.DPU and register in (_LUT_ACCESS, _LUT_DATA):
            table_writes.append((register, _table_value(register, value)))
        elif block is not None:
            _write(steps, settled, block, register, value)
        elif target == Block.ENABLE and register == ENABLE_REGISTER:
            if value not in set(Enable):
                raise ProgramError("enable", f"word {index} enables blocks {value:#x}, a mask nobody uses")
            return Program(value, next_address, next_amount, steps, frozenset(settled), tuple(table_writes))
        elif target == Block.PC and register == NEXT_ADDRESS_REGISTER:
            next_address = value & _BASE.mask
        elif target == Block.PC and register == NEXT_AMOUNT_REGISTER and not value & ~_AMOUNT.mask:
            next_amount = value
        elif target not in (Block.NOP, Block.VERSION) or register or value:
            raise ProgramError("word", f"word {index} is {word:#018x}, which no block takes")
    raise ProgramError("enable", f"no enable word in {len(words)} words")


def _table_value(register: int, value: int) -> int:
    """A write to the table port; an entry may carry its sign into the upper half."""
    if register == _LUT_DATA and value >> 16 == _SIGN_EXTENSION and value >> 15 & 1:
        return value & 0xFFFF
    name, known = _KNOWN_BITS[register]
    if value & ~known:
        raise ProgramError("field", f"{name} ({register:#06x}) has unknown bits {value & ~known:#x} set")
    return value


def _write(
    steps: list[tuple[Block, int | dict[int, int]]], settled: set[int], block: Block, address: int, value: int
) -> None:
    if BLOCK_OF_PAGE.get(address >> 12) is not block:
        raise ProgramError("target", f"register {address:#06x} does not belong to block {block.name}")
    name, known = _KNOWN_BITS.get(
        address, ("", _S_POINTER_BITS if address & _PAGE_MASK == _S_POINTER_OFFSET else 0)
    )
    if not known:
        raise ProgramError("register", f"no register is known at {address:#06x}")
    if value & ~known:
        raise ProgramError("field", f"{name} ({address:#06x}) has unknown bits {value & ~known:#x} set")
    if address & _PAGE_MASK == _S_POINTER_OFFSET:
        steps.append((block, value))
        # The pointer may have moved: earlier writes may be in the group that is not launched.
        settled.difference_update({a for a in settled if a >> 12 == address >> 12})
        return
    if steps and steps[-1][0] is block and isinstance(steps[-1][1], dict):
        steps[-1][1][address] = value
    else:
        steps.append((block, {address: value}))
    settled.add(address)
