"""One NPU core: runs a chain of register programs and reports what its interrupt register would say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver.regcmd.registers import (
    INT_DMA_READ_ERROR,
    INT_DMA_WRITE_ERROR,
    REGISTERS,
    Block,
    Enable,
)
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim import timing
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import gather_atoms, scatter_atoms
from orkbench_tui.sim.chip.conv_addresses import check_access, output_atoms
from orkbench_tui.sim.chip.conv_execute import execute_convolution
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.conv_operation import ConvOperation, decode_convolution
from orkbench_tui.sim.chip.conv_rules import check_convolution
from orkbench_tui.sim.chip.faults import ChipFault, DmaFault, NeverCompletes, UnsupportedOperation
from orkbench_tui.sim.chip.first_output import CoveredResults
from orkbench_tui.sim.chip.kept_weights import KeptWeights
from orkbench_tui.sim.chip.lut import LutMemory
from orkbench_tui.sim.chip.mode_residue import ModeResidue, run_kind
from orkbench_tui.sim.chip.pooling import described_pooling
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.program import Program, fetch
from orkbench_tui.sim.chip.register_file import RegisterFile
from orkbench_tui.sim.chip.sdp_execute import execute_sdp
from orkbench_tui.sim.chip.sdp_operation import SdpOperation, decode_sdp
from orkbench_tui.sim.chip.sdp_rules import check_sdp

__all__ = ["Core", "Run"]

Executor = Callable[[ConvOperation, AddressSpace], None]
"""Runs int8 convolutions that are ``native``; everything else has one executor."""

_POINTER_AT_COMMIT = 0xE
_CORE_FIELD = REGISTERS["cna_s_pointer"].fields["core"]

_GARBAGE = np.uint8(0x2A)
"""Flips bits of every byte a spoiled core writes: no result stays right, none is the pattern a poller waits on."""

_UNITS = {Block.CNA: 0b1111, Block.CORE: 0b11 << 6, Block.DPU: 0b11 << 8, Block.PPU: 0b11 << 10}
_SEQUENCER = 0b11 << 4
_EVEN = 0x555


@dataclass(frozen=True, slots=True)
class Run:
    """How a committed chain ended.

    ``raw_status`` is the unmasked interrupt register; ``fault`` is why the core stopped before the
    end, ``forward_link`` that the last counted program pointed on to another one.
    """

    programs: int
    raw_status: int
    predicted_ns: int
    fault: ChipFault | None = None
    at_program: int = 0
    forward_link: bool = False


class Core:
    """Registers, function table, warmth and what a precision left persist between runs; a reset is a
    new ``Core``.
    """

    def __init__(
        self, index: int, execute: Executor = execute_native, amount_scale: int = RK3588.amount_scale
    ) -> None:
        self.index = index
        self.registers = RegisterFile()
        self.lut = LutMemory()
        self._kept = KeptWeights()
        self.residue = ModeResidue()
        self.cold = True
        self._covered = CoveredResults()
        self._execute = execute
        self._amount_scale = amount_scale

    def run(self, space: AddressSpace, address: int, amount: int, count: int) -> Run:
        """Execute up to ``count`` linked programs, in order; programs are fetched when reached."""
        pointer = _POINTER_AT_COMMIT | _CORE_FIELD.put(self.index)
        for block in (Block.CNA, Block.CORE):
            self.registers.set_pointer(block, pointer)
        self._kept = KeptWeights()
        try:
            return self._run(space, address, amount, count)
        finally:
            self._covered.write_back()

    def _run(self, space: AddressSpace, address: int, amount: int, count: int) -> Run:
        cold = self.cold
        raw, total, convolved = 0, 0, False
        for done in range(count):
            try:
                program = fetch(space, address, amount, self._amount_scale)
                program.apply(self.registers, self.lut)
                operation = self._decode(program)
                _check_order(operation, convolved)
                raw |= self._finished_units(program.enable)
                self.registers.launched(program.enable)
                self._perform(operation, space, cold=cold, linked=count > 1)
            except ChipFault as fault:
                if isinstance(fault, DmaFault):
                    raw |= INT_DMA_WRITE_ERROR if fault.write else INT_DMA_READ_ERROR
                return Run(done, raw, total, fault, address)
            convolved |= isinstance(operation, ConvOperation)
            total += _predicted_ns(operation)
            if program.next_amount == 0:
                return Run(done + 1, raw, total)
            if done + 1 == count:
                return Run(count, raw, total, None, address, forward_link=program.next_address > address)
            address, amount = program.next_address, program.next_amount
        return Run(0, raw, total)

    def _decode(self, program: Program) -> ConvOperation | SdpOperation:
        """The operation now in the registers; a program that sets all it needs is decoded once."""
        if program.operation is not None:
            return program.operation
        self.registers.read.clear()
        operation: ConvOperation | SdpOperation
        if program.enable == Enable.PPU:
            raise UnsupportedOperation(described_pooling(self.registers))
        if program.enable == Enable.SDP:
            check_sdp(self.registers)
            operation = decode_sdp(self.registers)
        else:
            read_engines = program.enable == Enable.MATMUL_RDMA
            check_convolution(self.registers, read_engines=read_engines)
            operation = decode_convolution(self.registers, read_engines=read_engines)
        if self.registers.read <= program.settled:
            program.operation = operation
        return operation

    def _perform(
        self, operation: ConvOperation | SdpOperation, space: AddressSpace, *, cold: bool, linked: bool
    ) -> None:
        if isinstance(operation, SdpOperation):
            execute_sdp(operation, space, self.lut)
            return
        operation, space = self._kept.bring(operation, space)
        if cold:
            check_access(operation, space)
            self._covered.keep(operation.output, operation.result, space)
        self._convolve(operation, space)
        self.cold = False
        if self.residue.run(run_kind(operation.precision, linked=linked)):
            atoms = output_atoms(operation)
            scatter_atoms(space, atoms, gather_atoms(space, atoms) ^ _GARBAGE)

    def _convolve(self, operation: ConvOperation, space: AddressSpace) -> None:
        if operation.native:
            self._execute(operation, space)
        else:
            execute_convolution(operation, space, self.lut)

    def _finished_units(self, enable: int) -> int:
        """Interrupt bits of the launched units: the even bit of a pair is group 0, the odd one group 1."""
        bits = 0
        for block, mask in _UNITS.items():
            if enable & {Block.CNA: 1, Block.CORE: 4, Block.DPU: 8, Block.PPU: 32}[block]:
                pair = mask | (_SEQUENCER if block is Block.CNA else 0)
                bits |= pair & (_EVEN << self.registers.group_of(block))
        return bits


def _check_order(operation: ConvOperation | SdpOperation, convolved: bool) -> None:
    """Behind a matmul of the same run, an element-wise program that uses BS or BN stalls."""
    stages = operation.dpu.bs is not None or operation.dpu.bn is not None
    if convolved and stages and isinstance(operation, SdpOperation):
        raise NeverCompletes(
            "chain", "an element-wise program with BS or BN active follows a matmul in its run"
        )


def _predicted_ns(operation: ConvOperation | SdpOperation) -> int:
    if isinstance(operation, SdpOperation):
        return timing.element_wise_ns(operation.traffic_bytes)
    group_bytes = operation.kernel_group * operation.row_bytes
    return timing.program_ns(
        operation.macs,
        operation.fetched_weight_bytes,
        ELEMENTS[operation.precision].bits,
        operation.features.pixels * operation.kernels * operation.output_bytes,
        buffered=operation.weight_banks * RK3588.cbuf_bank_bytes >= 2 * group_bytes,
    )
