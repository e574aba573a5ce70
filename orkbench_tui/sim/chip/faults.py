"""Why a core does not finish a run.

None of these is an exception a client sees: the kernel turns them into a job that never completes,
as the hardware would, and names the reason in its log.
"""

from __future__ import annotations

__all__ = ["ChipFault", "DmaFault", "NeverCompletes", "ProgramError", "UnsupportedOperation"]


class ChipFault(Exception):
    """A run stopped; ``str()`` is one line for the kernel log."""


class DmaFault(ChipFault):
    """An access outside the buffers mapped in the job's IOMMU domain."""

    def __init__(self, iova: int, *, write: bool, what: str) -> None:
        self.iova = iova
        self.write = write
        super().__init__(
            f"{what}: {'write' if write else 'read'} at {iova:#x} is outside every mapped buffer"
        )


class ProgramError(ChipFault):
    """The program breaks a rule of the hardware, which would silently compute something else.

    ``rule`` names the rule (docs/fidelity.md lists them); ``detail`` holds the numbers.
    """

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        super().__init__(f"[{rule}] {detail}")


class UnsupportedOperation(ChipFault):
    """A legal program for an operation that this simulator recognises and cannot execute."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"[not simulated] {operation}")


class NeverCompletes(ChipFault):
    """A program the hardware starts and does not finish; ``rule`` names what it waits for."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        super().__init__(f"[{rule}] {detail}; the job never completes")
