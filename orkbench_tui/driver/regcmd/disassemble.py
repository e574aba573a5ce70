"""Words taken apart: a stream of 64-bit words becomes programs, and each word a named instruction.

Nothing here judges what a program computes (``operation.py`` does). The reader takes any words: what
nobody has documented is listed as a finding, never an error, because captures from other drivers
and damaged dumps are what one wants to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.regcmd.instruction import BLOCK_BITS, BLOCK_NAMES, PORTS, Instruction, instruction_of
from orkbench_tui.driver.regcmd.registers import (
    BLOCK_OF_PAGE,
    ENABLE_REGISTER,
    NEXT_ADDRESS_REGISTER,
    NEXT_AMOUNT_REGISTER,
    REGISTERS,
    Block,
    by_address,
)
from orkbench_tui.driver.regcmd.words import TRAILER_WORDS, amount, decode

__all__ = [
    "Finding",
    "Listing",
    "Program",
    "disassemble",
    "enable_words",
]

MAX_FINDINGS = 64
"""Kept per program; a last one says how many more there are."""

_BASE = REGISTERS["pc_base_address"].fields["address"]
_AMOUNT = REGISTERS["pc_register_amounts"].fields["amount"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the words that is not as documented. ``index`` counts words of the stream."""

    index: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One program of a stream.

    ``words`` is uint64 [n]: body and trailer, the padding before it left out. ``start`` is the index of
    its first word in the stream, ``body_words`` counts what precedes the trailer (a NOP that pads the
    trailer to 16 bytes included). ``enable`` is None when no enable word ends it. ``next_address`` and
    ``next_amount`` are 0 in the last program of a run.
    """

    index: int
    start: int
    words: NDArray[np.uint64]
    body_words: int
    enable: int | None
    next_address: int
    next_amount: int
    findings: tuple[Finding, ...]

    def writes(self) -> Iterator[tuple[str, int]]:
        """``(register name, value)`` of every write to a documented register, in order."""
        for word in self.words[: self.body_words].tolist():
            block, address, value = decode(word)
            register = by_address(address)
            if register is not None and register.block == block and block != Block.PC:
                yield register.name, value

    def instructions(self) -> Iterator[Instruction]:
        """Every word, by name; a value that a later write replaces says so in its note."""
        last: dict[tuple[int, int], int] = {}
        for offset, word in enumerate(self.words.tolist()):
            block, address, _ = decode(word)
            last[block, address] = offset
        for offset, word in enumerate(self.words.tolist()):
            block, address, _ = decode(word)
            replaced_by = last[block, address]
            instruction = instruction_of(self.start + offset, word)
            if (
                replaced_by != offset
                and instruction.register is not None
                and instruction.register not in PORTS
            ):
                yield _with_note(instruction, f"replaced by word {self.start + replaced_by}")
            else:
                yield instruction


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A taken-apart stream. ``padding_words`` counts the NOPs between and after programs."""

    words: int
    padding_words: int
    programs: tuple[Program, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for program in self.programs for finding in program.findings)


def enable_words(words: NDArray[np.uint64]) -> int:
    """How many programs a stream holds, at most one more: a cheap look before taking it apart."""
    return int(np.count_nonzero((words >> np.uint64(48)) == np.uint64(Block.ENABLE)))


def disassemble(words: Sequence[int] | NDArray[np.uint64]) -> Listing:
    """Split ``words`` (unsigned 64-bit) into programs, each up to and with its enable word.

    Raises:
        OverflowError: a word is negative or does not fit 64 bits.
    """
    stream = np.asarray(words, dtype=np.uint64)
    is_end = (stream >> np.uint64(48)) == np.uint64(Block.ENABLE)
    ends = np.flatnonzero(is_end)
    not_nop = np.flatnonzero(stream)
    programs: list[Program] = []
    padding = position = 0
    for end in [*ends.tolist(), len(stream) - 1]:
        first = int(np.searchsorted(not_nop, position))
        start = int(not_nop[first]) if first < len(not_nop) else len(stream)
        if start > end:
            padding += end + 1 - position
        else:
            padding += start - position
            programs.append(_program(len(programs), start, stream[start : end + 1]))
        position = end + 1
    return Listing(len(stream), padding, tuple(_check_amounts(programs)))


def _program(index: int, start: int, words: NDArray[np.uint64]) -> Program:
    findings: list[Finding] = []
    enable = _enable_of(words)
    body = _body_words(words, enable is not None)
    if enable is None:
        findings.append(
            Finding(start + len(words) - 1, "trailer", "no enable word: nothing starts this program")
        )
        # The NOPs that fill the rest of a dump are not part of a program that was cut off.
        words = words[: int(np.flatnonzero(words)[-1]) + 1]
        body = min(body, len(words))
    else:
        findings.extend(_trailer_findings(start, body, words))
    next_address, next_amount = _link_of(words)
    if next_address and not next_amount:
        findings.append(
            Finding(
                start + body, "link", f"next program at {next_address:#x} with amount 0: the run ends here"
            )
        )
    if next_amount and not next_address:
        findings.append(
            Finding(start + body, "link", f"amount {next_amount} without an address of the next program")
        )
    findings.extend(_capped(_word_findings(start, body, words)))
    return Program(index, start, words, body, enable, next_address, next_amount, tuple(findings))


def _enable_of(words: NDArray[np.uint64]) -> int | None:
    block, _, value = decode(int(words[-1]))
    return value if block == Block.ENABLE else None


def _is_link(word: int, register: int) -> bool:
    block, address, _ = decode(word)
    return block == Block.PC and address == register


def _trailer_slots(words: NDArray[np.uint64]) -> list[tuple[str, bool]]:
    """The four trailer words as ``(what it should be, whether it is)``."""
    t0, t1, t2, t3 = (int(word) for word in words[-TRAILER_WORDS:])
    return [
        ("the next program's address", t0 == 0 or _is_link(t0, NEXT_ADDRESS_REGISTER)),
        ("the next program's amount", _is_link(t1, NEXT_AMOUNT_REGISTER)),
        ("the version word", t2 == int(Block.VERSION) << 48),
        ("the enable register", t3 & 0xFFFF == ENABLE_REGISTER),
    ]


def _body_words(words: NDArray[np.uint64], ended: bool) -> int:
    if not ended:
        return len(words)
    if len(words) >= TRAILER_WORDS and all(good for _, good in _trailer_slots(words)):
        return len(words) - TRAILER_WORDS
    # A damaged trailer: the body ends where the last word that is a block's own write does.
    body = len(words) - 1
    while body and decode(int(words[body - 1]))[0] in (Block.NOP, Block.PC, Block.VERSION):
        body -= 1
    return body


def _trailer_findings(start: int, body: int, words: NDArray[np.uint64]) -> Iterator[Finding]:
    end = start + len(words) - 1
    if len(words) < TRAILER_WORDS:
        yield Finding(end, "trailer", f"{len(words)} words before the end, a trailer has {TRAILER_WORDS}")
        return
    for offset, (meaning, good) in enumerate(_trailer_slots(words)):
        if not good:
            at = len(words) - TRAILER_WORDS + offset
            yield Finding(start + at, "trailer", f"{int(words[at]):#018x} where {meaning} should be")
    if body % 2:
        yield Finding(end, "trailer", f"odd body of {body} words: the trailer is not on a 16-byte boundary")
    value = decode(int(words[-1]))[2]
    unnamed = value & ~sum(1 << bit for bit in BLOCK_BITS)
    if unnamed or not value:
        yield Finding(end, "enable", f"enable mask {value:#x} names blocks nobody has documented or none")


def _link_of(words: NDArray[np.uint64]) -> tuple[int, int]:
    address = count = 0
    for word in words[-2 * TRAILER_WORDS :].tolist():
        if _is_link(word, NEXT_ADDRESS_REGISTER):
            address = decode(word)[2] & _BASE.mask
        elif _is_link(word, NEXT_AMOUNT_REGISTER):
            count = _AMOUNT.get(decode(word)[2])
    return address, count


def _word_findings(start: int, body: int, words: NDArray[np.uint64]) -> Iterator[Finding]:
    for offset, word in enumerate(words.tolist()):
        block, address, value = decode(word)
        index = start + offset
        if block == Block.NOP:
            if word:
                yield Finding(index, "word", f"{word:#018x} has no target block")
            elif 0 < offset < body - 1:
                yield Finding(index, "padding", "NOP inside the body")
            continue
        if block in (Block.VERSION, Block.ENABLE):
            continue
        register = by_address(address)
        if block not in BLOCK_NAMES:
            yield Finding(index, "block", f"target {block:#06x} is no known block")
        elif register is None or BLOCK_OF_PAGE.get(address >> 12) != block:
            yield Finding(
                index, "register", f"no register of {BLOCK_NAMES[block]} is known at {address:#06x}"
            )
        elif value & ~register.known_mask:
            unknown = value & ~register.known_mask
            yield Finding(index, "reserved", f"{register.name} has undocumented bits {unknown:#x} set")


def _capped(findings: Iterator[Finding]) -> Iterator[Finding]:
    last, more = None, 0
    for count, finding in enumerate(findings):
        if count < MAX_FINDINGS:
            yield finding
        else:
            last, more = finding, more + 1
    if last is not None:
        yield Finding(last.index, "more", f"{more} more findings up to here")


def _check_amounts(programs: list[Program]) -> Iterator[Program]:
    for program, following in zip_longest(programs, programs[1:]):
        finding = _amount_finding(program, following)
        if finding is None:
            yield program
        else:
            yield replace(program, findings=(*program.findings, finding))


def _amount_finding(program: Program, following: Program | None) -> Finding | None:
    if following is None or not program.next_amount or following.enable is None:
        return None
    needed = amount(following.body_words)
    if program.next_amount == needed:
        return None
    effect = (
        "the enable word is not fetched"
        if program.next_amount < needed
        else "more is fetched than the program"
    )
    return Finding(
        program.start + len(program.words) - TRAILER_WORDS + 1,
        "amount",
        f"amount {program.next_amount} for a body of {following.body_words} words, which needs {needed}: {effect}",
    )


def _with_note(instruction: Instruction, note: str) -> Instruction:
    return replace(instruction, note=f"{instruction.note}; {note}" if instruction.note else note)
