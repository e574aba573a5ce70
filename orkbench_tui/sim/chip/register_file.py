"""Register state of one core: two persistent groups per block, and which one a program lands in.

With ping-pong on (S_POINTER pointer_pp_en), each launch of a block moves its pointer to the other
group, so a register that a program leaves out holds what the program *before the previous one* put
there. Values survive programs and submits; only a reset clears them.
"""

from __future__ import annotations

from orkbench_tui.driver.regcmd.registers import BLOCK_OF_PAGE, REGISTERS, Block, Enable, by_address
from orkbench_tui.sim.chip.faults import ProgramError

__all__ = ["GROUPED_BLOCKS", "RegisterFile", "blocks_of_enable"]

GROUPED_BLOCKS = (Block.CNA, Block.CORE, Block.DPU, Block.DPU_RDMA, Block.PPU, Block.PPU_RDMA)

_S_POINTER_OFFSET = 0x004
_S_POINTER = REGISTERS["cna_s_pointer"].fields
_ENABLE_BITS = {0: Block.CNA, 2: Block.CORE, 3: Block.DPU, 4: Block.DPU_RDMA, 5: Block.PPU, 6: Block.PPU_RDMA}
KNOWN_ENABLES = frozenset(int(enable) for enable in Enable)


def blocks_of_enable(mask: int) -> tuple[Block, ...]:
    return tuple(block for bit, block in _ENABLE_BITS.items() if mask >> bit & 1)


class RegisterFile:
    """Zero after reset. ``strict`` refuses registers and bits nobody has documented."""

    def __init__(self, strict: bool = True) -> None:
        self._strict = strict
        self._groups: dict[Block, tuple[dict[int, int], dict[int, int]]] = {
            b: ({}, {}) for b in GROUPED_BLOCKS
        }
        self._control: dict[Block, int] = dict.fromkeys(GROUPED_BLOCKS, 0)
        self._pointer: dict[Block, int] = dict.fromkeys(GROUPED_BLOCKS, 0)

    def write(self, block: Block, address: int, value: int) -> None:
        """One register write of a program.

        Raises:
            ProgramError: wrong block for the address, unknown register, or unknown bits (strict).
        """
        if BLOCK_OF_PAGE.get(address >> 12) is not block:
            raise ProgramError("target", f"register {address:#06x} does not belong to block {block.name}")
        if address & 0xFFF == _S_POINTER_OFFSET:
            self._set_pointer(block, value)
            return
        register = by_address(address)
        if self._strict:
            if register is None:
                raise ProgramError("register", f"no register is known at {address:#06x}")
            unknown = value & ~register.known_mask
            if unknown:
                raise ProgramError(
                    "field", f"{register.name} ({address:#06x}) has unknown bits {unknown:#x} set"
                )
        self._groups[block][self._pointer[block]][address] = value

    def _set_pointer(self, block: Block, value: int) -> None:
        known = REGISTERS["cna_s_pointer"].known_mask
        if self._strict and value & ~known:
            raise ProgramError("field", f"S_POINTER of {block.name} has unknown bits {value & ~known:#x} set")
        self._control[block] = value
        if _S_POINTER["pointer_pp_clear"].get(value):
            self._pointer[block] = 0
        elif not _S_POINTER["pointer_pp_en"].get(value):
            self._pointer[block] = _S_POINTER["pointer"].get(value)

    def get(self, name: str) -> int:
        """A register's value in the group its block's next launch uses."""
        register = REGISTERS[name]
        block = register.block
        return self._groups[block][self._pointer[block]].get(register.address, 0)

    def field(self, name: str, field: str) -> int:
        return REGISTERS[name].fields[field].get(self.get(name))

    def group_of(self, block: Block) -> int:
        return self._pointer[block]

    def launched(self, mask: int) -> None:
        """The blocks in an enable mask have started: their next program goes to the other group."""
        for block in blocks_of_enable(mask):
            if _S_POINTER["pointer_pp_en"].get(self._control[block]):
                self._pointer[block] ^= 1
