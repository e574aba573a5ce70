"""A failed job as a driver developer reads it: each program's operation, and where its addresses lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orkbench_tui.driver.regcmd.disassemble import disassemble
from orkbench_tui.driver.regcmd.operation import read_operations
from orkbench_tui.driver.regcmd.operation_record import Operation

__all__ = ["AddressUse", "ProgramReading", "read_job_programs"]


@dataclass(frozen=True, slots=True)
class AddressUse:
    """One operand: ``role`` a, w, b or c; ``buffer`` is the handle it lies in, None where it lies in none."""

    role: str
    address: int
    buffer: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ProgramReading:
    """A descriptor's program. ``operation`` is None where its words were not kept or are no program.

    ``differs`` says what the descriptor has otherwise than its program needs.
    """

    index: int
    operation: Operation | None
    addresses: tuple[AddressUse, ...]
    differs: tuple[str, ...]


def read_job_programs(job: dict[str, Any], data: dict[str, Any], limit: int) -> list[ProgramReading]:
    """The first ``limit`` programs of a job of ``data``; both as ``failure_files.read_failure`` gives them."""
    buffers = [buffer for buffer in data["buffers"] if buffer["domain"] == job["domain"]]
    return [_reading(row, data["words"], buffers) for row in job["descriptors"][:limit]]


def _reading(row: dict[str, Any], words: Sequence[str], buffers: Sequence[dict[str, Any]]) -> ProgramReading:
    first = row.get("first_word")
    if first is None:
        return ProgramReading(
            row["index"], None, (), ("its words were not found in any buffer, or left out",)
        )
    part = np.array([int(word, 16) for word in words[first : first + row["words"]]], dtype=np.uint64)
    listing = disassemble(part)
    if not listing.programs:
        return ProgramReading(row["index"], None, (), ("its words are no program",))
    operation = read_operations(listing)[0]
    addresses = tuple(
        _use(role, address, buffers)
        for role in ("a", "w", "b", "c")
        if (address := getattr(operation, role)) is not None
    )
    return ProgramReading(row["index"], operation, addresses, tuple(_differences(row, operation)))


def _use(role: str, address: int, buffers: Sequence[dict[str, Any]]) -> AddressUse:
    for buffer in buffers:
        offset = address - int(buffer["iova"], 16)
        if 0 <= offset < buffer["size"]:
            return AddressUse(role, address, buffer["handle"], offset)
    return AddressUse(role, address, None)


def _differences(row: dict[str, Any], operation: Operation) -> Iterator[str]:
    for name, needed in (("enable_mask", operation.enable), ("int_mask", operation.int_mask)):
        if needed is not None and int(row[name], 16) != needed:
            yield f"{name} is {row[name]}, its program needs {needed:#x}"
    if row["regcfg_amount"] != operation.regcfg_amount:
        yield f"regcfg_amount is {row['regcfg_amount']}, its program needs {operation.regcfg_amount}"
