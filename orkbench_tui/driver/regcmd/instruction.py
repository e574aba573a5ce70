"""One word by name: block, register, fields, and what its numbers stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.driver.regcmd.registers import REGISTERS, Block, Precision, by_address
from orkbench_tui.driver.regcmd.words import decode

__all__ = ["BLOCK_BITS", "BLOCK_NAMES", "PORTS", "Instruction", "blocks_of_enable", "instruction_of"]

PORTS = frozenset({"dpu_lut_access_cfg", "dpu_lut_access_data"})
"""Registers that are ports: every write counts, not only the last."""

BLOCK_NAMES = {int(block): block.name for block in Block}
BLOCK_BITS = {0: "CNA", 2: "CORE", 3: "DPU", 4: "DPU_RDMA", 5: "PPU", 6: "PPU_RDMA"}
_SIGNED_FIELDS = frozenset({("cna_dma_con2", "surf_stride")})
_SIGNED_WORDS = frozenset(
    {"dpu_bs_alu_cfg", "dpu_bn_alu_cfg", "dpu_ew_cvt_offset", "dpu_out_cvt_offset"}
    | {f"dpu_lut_{table}_{end}" for table in ("le", "lo") for end in ("start", "end")}
)
_NO_FIELDS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One word by name. ``register`` is None where no register is known; ``fields`` of a signed field
    are signed."""

    index: int
    word: int
    block: str
    register: str | None
    address: int
    value: int
    fields: Mapping[str, int]
    note: str


def blocks_of_enable(mask: int) -> tuple[str, ...]:
    """Names of the blocks an enable mask starts; bits nobody has named are left out."""
    return tuple(name for bit, name in BLOCK_BITS.items() if mask >> bit & 1)


def instruction_of(index: int, word: int) -> Instruction:
    """Word ``index`` of a stream by name; any 64 bits are accepted."""
    block, address, value = decode(word)
    name = BLOCK_NAMES.get(block, f"{block:#06x}")
    if block == Block.ENABLE:
        return Instruction(
            index,
            word,
            name,
            None,
            address,
            value,
            _NO_FIELDS,
            "starts " + ", ".join(blocks_of_enable(value)),
        )
    if block == Block.VERSION:
        return Instruction(index, word, name, None, address, value, _NO_FIELDS, "version word")
    if word == 0:
        return Instruction(index, word, name, None, 0, 0, _NO_FIELDS, "no operation")
    register = by_address(address)
    if register is None or register.block != block:
        return Instruction(index, word, name, None, address, value, _NO_FIELDS, "unknown register")
    fields = {
        field: spec.signed(value) if (register.name, field) in _SIGNED_FIELDS else spec.get(value)
        for field, spec in register.fields.items()
    }
    return Instruction(
        index, word, name, register.name, address, value, fields, _note(register.name, value, fields)
    )


def _note(register: str, value: int, fields: Mapping[str, int]) -> str:
    notes = [
        f"{field.removesuffix('_precision')} {Precision(code).name.lower()}"
        for field, code in fields.items()
        if field in ("in_precision", "proc_precision", "out_precision")
    ]
    if register in _SIGNED_WORDS and value >> 31:
        notes.append(f"= {value - (1 << 32)}")
    unknown = value & ~REGISTERS[register].known_mask
    if unknown:
        notes.append(f"undocumented bits {unknown:#x}")
    return ", ".join(notes)
