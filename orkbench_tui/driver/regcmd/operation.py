"""What the programs of a stream amount to.

``read_operations`` replays the register writes of a taken-apart stream and says of each program which
operation its registers describe and what is wrong with it. It knows programs from any source: what
counts is the registers' values, not the order or the number of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from orkbench_tui.driver.regcmd.disassemble import Listing
from orkbench_tui.driver.regcmd.operation_matmul import read_convolution, stage_names
from orkbench_tui.driver.regcmd.operation_record import Banks, Conversion, Layout, Operation, Problem
from orkbench_tui.driver.regcmd.operation_rules import problems_of
from orkbench_tui.driver.regcmd.operation_sdp import read_element_wise, read_pooling
from orkbench_tui.driver.regcmd.register_groups import LaunchState, replay
from orkbench_tui.driver.regcmd.registers import INT_DPU, INT_PPU
from orkbench_tui.driver.regcmd.words import amount

__all__ = ["Banks", "Conversion", "Layout", "Operation", "Problem", "read_operations"]

# Enable bits that decide the kind, first match: the kind, its reader, the interrupts it completes with.
_KINDS: tuple[tuple[int, str, Callable[[LaunchState], Operation], int], ...] = (
    (0x01, "convolution", read_convolution, INT_DPU),
    (0x18, "element-wise", read_element_wise, INT_DPU),
    (0x60, "pooling", read_pooling, INT_PPU),
)


def read_operations(listing: Listing) -> list[Operation]:
    """One operation per program, in order; short programs inherit from those before them."""
    operations: list[Operation] = []
    loader: Operation | None = None
    for state in replay(listing.programs):
        before = operations[-1] if operations else None
        operation = _read(state, before)
        if banks := operation.banks:
            operation = replace(operation, problems=(*operation.problems, *_kept_problems(operation, loader)))
            loader = loader if banks.weight_reuse else operation
        operations.append(operation)
    return operations


def _kept_problems(operation: Operation, loader: Operation | None) -> Iterator[Problem]:
    """Of a program that computes with the weights the last loading one of the stream left."""
    if operation.banks is None or not operation.banks.weight_reuse:
        return
    if loader is None or loader.banks is None:
        yield Problem("caution", "weight reuse", "no program before it in this stream loads weights")
        return
    for what, kept, asked in (
        ("K", loader.k, operation.k),
        ("N", loader.n, operation.n),
        ("weight banks", loader.banks.weight, operation.banks.weight),
    ):
        if kept != asked:
            yield Problem("error", "weight reuse", f"{what} is {asked}, the kept weights have {kept}")


def _read(state: LaunchState, before: Operation | None) -> Operation:
    for bits, kind, reader, int_mask in _KINDS:
        if state.enable & bits:
            operation = replace(_placed(reader(state), state), int_mask=int_mask)
            problems = (*problems_of(kind, state, operation), *_stream_problems(state, operation, before))
            return replace(operation, problems=problems)
    why = f"enable mask {state.enable:#x} starts no known kind of operation"
    return replace(_placed(Operation("unknown"), state), problems=(Problem("error", "enable", why),))


def _placed(operation: Operation, state: LaunchState) -> Operation:
    """``operation`` with what the stream says about its program."""
    return replace(
        operation,
        enable=state.enable,
        enable_inferred=state.enable_inferred,
        regcfg_amount=state.program.body_words,
        chained_to=state.program.next_address or None,
        inherited_registers=len(state.inherited),
    )


def _stream_problems(state: LaunchState, operation: Operation, before: Operation | None) -> Iterator[Problem]:
    if state.enable_inferred:
        yield Problem("error", "trailer", "no enable word; the operation is read from the blocks it writes")
    elif operation.regcfg_amount and amount(operation.regcfg_amount) > 0xFFFF:
        yield Problem(
            "error", "amount", f"a body of {operation.regcfg_amount} words is more than one fetch takes"
        )
    after_matmul = before is not None and before.chained_to is not None and before.op.startswith("matmul")
    if after_matmul and operation.op.startswith(("sdp", "lut")):
        active = [stage.upper() for stage in ("bs", "bn") if stage_names(state, stage)]
        if active:
            text = f"{' and '.join(active)} active in a program chained behind a matmul: seen to stall"
            yield Problem("caution", "chain", text)
