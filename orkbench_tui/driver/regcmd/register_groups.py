"""What a stream's programs leave in the registers: two groups per block, taken in turn.

With ping-pong on, each launch of a block moves its pointer to the other group, so a register that a
program does not write holds what the program before the previous one put there. The vendor's short
"delta" programs rest on that; to read one, the programs before it are replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orkbench_tui.driver.regcmd.disassemble import Program
from orkbench_tui.driver.regcmd.instruction import blocks_of_enable
from orkbench_tui.driver.regcmd.registers import REGISTERS

__all__ = ["LaunchState", "LutWrites", "infer_enable", "replay"]

_POINTER = REGISTERS["cna_s_pointer"].fields
_PING_PONG = (
    _POINTER["pointer_pp_en"].mask | _POINTER["executer_pp_en"].mask | _POINTER["pointer_pp_mode"].mask
)
# The kernel sets these two at every commit; the others' pointers are written by the programs.
_SET_BY_KERNEL = ("CNA", "CORE")
_BLOCK_BIT = {"CNA": 0x1, "CORE": 0x4, "DPU": 0x8, "DPU_RDMA": 0x10, "PPU": 0x20, "PPU_RDMA": 0x40}
_LUT_ADDRESS, _LUT_DATA = (
    REGISTERS["dpu_lut_access_cfg"].fields,
    REGISTERS["dpu_lut_access_data"].fields["entry"],
)


@dataclass(frozen=True, slots=True)
class LutWrites:
    """Table entries a program stores: how many, and their first and last value, signed 16 bit."""

    table: str
    start: int
    entries: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LaunchState:
    """The registers a program launches with.

    ``values`` holds what it wrote or inherited, by name; a name absent was never written in this
    stream. ``own`` are the names it wrote itself. ``enable`` is inferred from the blocks it writes
    when the program has no enable word.
    """

    program: Program
    enable: int
    enable_inferred: bool
    values: Mapping[str, int]
    own: frozenset[str]
    lut: tuple[LutWrites, ...]

    @property
    def inherited(self) -> frozenset[str]:
        return frozenset(self.values) - self.own

    def get(self, name: str) -> int:
        """The register's 32-bit value; 0, its reset value, when never written."""
        return self.values.get(name, 0)

    def field(self, name: str, field: str) -> int:
        return REGISTERS[name].fields[field].get(self.get(name))

    def signed(self, name: str) -> int:
        """The whole register as a signed 32-bit number."""
        value = self.get(name)
        return value - (1 << 32) if value >> 31 else value


class _Block:
    def __init__(self, control: int) -> None:
        self.groups: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.control = control
        self.pointer = 0

    def write(self, name: str, value: int) -> None:
        if name.endswith("s_pointer"):
            self.control = value
            if _POINTER["pointer_pp_clear"].get(value):
                self.pointer = 0
            elif not _POINTER["pointer_pp_en"].get(value):
                self.pointer = _POINTER["pointer"].get(value)
        self.groups[self.pointer][name] = value

    def launched(self) -> None:
        if _POINTER["pointer_pp_en"].get(self.control):
            self.pointer ^= 1


def infer_enable(names: Iterable[str]) -> int:
    """The mask that starts the blocks these registers belong to; 0 when none is written.

    The pointer registers do not count: a convolution writes the RDMA's without starting it.
    """
    blocks = {REGISTERS[name].block.name for name in names if not name.endswith("s_pointer")}
    if "CNA" in blocks:
        blocks |= {"CORE", "DPU"}
    return sum(bit for name, bit in _BLOCK_BIT.items() if name in blocks)


def _lut_writes(writes: Iterable[tuple[str, int]]) -> tuple[LutWrites, ...]:
    runs: list[tuple[str, int, list[int]]] = []
    for name, value in writes:
        if name == "dpu_lut_access_cfg" and _LUT_ADDRESS["write"].get(value):
            table = "lo" if _LUT_ADDRESS["table"].get(value) else "le"
            runs.append((table, _LUT_ADDRESS["address"].get(value), []))
        elif name == "dpu_lut_access_data" and runs:
            runs[-1][2].append(_LUT_DATA.signed(value))
    return tuple(LutWrites(table, start, tuple(entries)) for table, start, entries in runs if entries)


def replay(programs: Iterable[Program]) -> list[LaunchState]:
    """The launch state of each program when they run in order on a core that was just reset."""
    blocks = {name: _Block(_PING_PONG if name in _SET_BY_KERNEL else 0) for name in _BLOCK_BIT}
    states = []
    for program in programs:
        writes = list(program.writes())
        for name, value in writes:
            blocks[REGISTERS[name].block.name].write(name, value)
        own = frozenset(name for name, _ in writes)
        enable = infer_enable(own) if program.enable is None else program.enable
        values: dict[str, int] = {}
        for name in blocks_of_enable(enable):
            values.update(blocks[name].groups[blocks[name].pointer])
        states.append(
            LaunchState(
                program, enable, program.enable is None, values, own & values.keys(), _lut_writes(writes)
            )
        )
        for name in blocks_of_enable(enable):
            blocks[name].launched()
    return states
