"""Register state of one core: two persistent groups per block, and which one a program lands in.

With ping-pong on (S_POINTER pointer_pp_en), each launch of a block moves its pointer to the other
group, so a register that a program leaves out holds what the program *before the previous one* put
there. Values survive programs and submits; only a reset clears them.
"""

from __future__ import annotations

from collections.abc import Mapping

from orkbench_tui.driver.regcmd.registers import REGISTERS, Block

__all__ = ["GROUPED_BLOCKS", "RegisterFile", "blocks_of_enable"]

GROUPED_BLOCKS = (Block.CNA, Block.CORE, Block.DPU, Block.DPU_RDMA, Block.PPU, Block.PPU_RDMA)

_S_POINTER = REGISTERS["cna_s_pointer"].fields
_ENABLE_BITS = {0: Block.CNA, 2: Block.CORE, 3: Block.DPU, 4: Block.DPU_RDMA, 5: Block.PPU, 6: Block.PPU_RDMA}


def blocks_of_enable(mask: int) -> tuple[Block, ...]:
    return tuple(block for bit, block in _ENABLE_BITS.items() if mask >> bit & 1)


class RegisterFile:
    """Zero after reset. Takes any register; ``program.parse`` decides what is a legal write."""

    def __init__(self) -> None:
        self._groups: dict[Block, tuple[dict[int, int], dict[int, int]]] = {
            b: ({}, {}) for b in GROUPED_BLOCKS
        }
        self._control: dict[Block, int] = dict.fromkeys(GROUPED_BLOCKS, 0)
        self._pointer: dict[Block, int] = dict.fromkeys(GROUPED_BLOCKS, 0)
        self.read: set[int] = set()
        """Addresses read since the caller last cleared it."""

    def update(self, block: Block, values: Mapping[int, int]) -> None:
        """Writes to one block's current group, keyed by address."""
        self._groups[block][self._pointer[block]].update(values)

    def set_pointer(self, block: Block, value: int) -> None:
        """A write to the block's S_POINTER."""
        self._control[block] = value
        if _S_POINTER["pointer_pp_clear"].get(value):
            self._pointer[block] = 0
        elif not _S_POINTER["pointer_pp_en"].get(value):
            self._pointer[block] = _S_POINTER["pointer"].get(value)

    def get(self, name: str) -> int:
        """A register's value in the group its block's next launch uses."""
        register = REGISTERS[name]
        block = register.block
        self.read.add(register.address)
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
