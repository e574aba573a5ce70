"""What the weight banks of a core still hold when a program asks to compute with kept weights.

The banks are filled as a ring: weights beyond their capacity overwrite the first ones, so a program that
keeps more than fits computes with the later weights in place of the earlier, and nobody is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes, Segment
from orkbench_tui.sim.chip.conv_operation import ConvOperation
from orkbench_tui.sim.chip.faults import ProgramError

__all__ = ["KeptWeights", "ring_contents"]

_BANKS_IOVA = 1 << 40
"""Beyond every address a device can have: where the contents of the banks are shown to the executors."""


def ring_contents(stream: Bytes, capacity: int) -> Bytes:
    """What is read at each place of a stream of weights that went through a ring of ``capacity`` bytes."""
    size = len(stream)
    if size <= capacity:
        return stream
    at = np.arange(size)
    return np.asarray(stream[at + (size - 1 - at) // capacity * capacity])


@dataclass(slots=True)
class KeptWeights:
    """The last convolution of a run that loaded weights; nothing is known across runs."""

    loader: ConvOperation | None = None

    def bring(self, operation: ConvOperation, space: AddressSpace) -> tuple[ConvOperation, AddressSpace]:
        """The operation and the memory it sees: its own weights, or those the banks hold.

        Raises:
            ProgramError: nothing was loaded in this run, or for another shape.
            DmaFault: the loaded weights are no longer mapped.
        """
        if not operation.reuses_weights:
            self.loader = operation
            return operation, space
        loader = self.loader
        if loader is None:
            raise ProgramError("weight reuse", "no program before it in this run loaded weights")
        for what, kept, asked in (
            ("K", loader.channels, operation.channels),
            ("N", loader.kernels, operation.kernels),
            ("input type", loader.precision, operation.precision),
            ("weight banks", loader.weight_banks, operation.weight_banks),
        ):
            if kept != asked:
                raise ProgramError("weight reuse", f"{what} is {asked}, the kept weights have {kept}")
        capacity = loader.weight_banks * RK3588.cbuf_bank_bytes
        if loader.weight_bytes <= capacity:
            return replace(operation, weights=loader.weights), space
        contents = ring_contents(space.read(loader.weights, loader.weight_bytes, "weights"), capacity)
        return replace(operation, weights=_BANKS_IOVA), space.with_segment(Segment(_BANKS_IOVA, contents))
