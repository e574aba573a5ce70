"""Registers persist, in two groups that programs take in turn."""

from __future__ import annotations

import numpy as np

from orkbench_tui.sim.chip.faults import ProgramError
from tests.sim import programs
from tests.sim.test_programs_on_chip import CODE, A, B, C, Machine

M, K, N = 4, 32, 32
_C = programs.word(programs.DPU, 0, 0x4020)


def _machine() -> tuple[Machine, np.ndarray, list[int]]:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (M, K), dtype=np.int8), rng.integers(-128, 128, (N, K), dtype=np.int8)
    machine = Machine()
    machine.put(A, a)
    machine.put(B, programs.weight_tiles(b))
    machine.put(C, np.zeros(4 * 4 * M * N, np.uint8))
    body = programs.body(programs.registers(geometry="rows", m=M, k=K, n=N, a=A, b=B, c=C))
    return machine, programs.exact(a, b), body


def _slot(machine: Machine, index: int) -> np.ndarray:
    size = 4 * M * N
    return machine.memory[C][index * size : (index + 1) * size].view(np.int32).reshape(M, N)


def _delta(index: int) -> list[int]:
    """A program that only moves the output, and relies on what its group already holds."""
    return [programs.word(programs.DPU, C + index * 4 * M * N, 0x4020), 0, *programs.trailer()]


def test_a_short_program_uses_the_registers_of_the_program_before_the_previous_one() -> None:
    machine, expected, body = _machine()
    full = [*body, *programs.trailer()]
    assert machine.run(full).fault is None
    assert machine.run(full).fault is None
    assert machine.run(_delta(1)).fault is None
    assert np.array_equal(_slot(machine, 1), expected)


def test_the_other_group_is_empty_until_a_program_has_filled_it() -> None:
    machine, _, body = _machine()
    assert machine.run([*body, *programs.trailer()]).fault is None
    fault = machine.run(_delta(1)).fault
    assert fault is not None, "the second program ran on registers nobody wrote"


def test_values_survive_submits_and_not_a_reset() -> None:
    machine, expected, body = _machine()
    full = [*body, *programs.trailer()]
    machine.run(full)
    machine.run(full)
    machine.memory[C][:] = 0
    assert machine.run(_delta(2)).fault is None
    assert np.array_equal(_slot(machine, 2), expected)
    fresh = Machine()
    fresh.memory = machine.memory
    assert fresh.run(_delta(3)).fault is not None


def test_the_last_write_of_a_register_wins() -> None:
    machine, expected, body = _machine()
    again = programs.word(programs.DPU, C + 4 * M * N, 0x4020)
    assert machine.run([*body, again, 0, *programs.trailer()]).fault is None
    assert np.array_equal(_slot(machine, 1), expected)
    assert not _slot(machine, 0).any()


def test_without_pingpong_every_program_lands_in_one_group() -> None:
    machine, expected, body = _machine()
    body = [0 if word >> 48 == programs.DPU and word & 0xFFFF == 0x4004 else word for word in body]
    machine.run([*body, *programs.trailer()])
    # CNA and CORE alternate because the kernel turns their ping-pong on at each commit.
    cna_core = [word for word in body if word >> 48 in (programs.CNA, programs.CORE)]
    move = programs.word(programs.DPU, C + 4 * M * N, 0x4020)
    words = [*cna_core, move]
    assert machine.run([*words, *([0] * (len(words) % 2)), *programs.trailer()]).fault is None
    assert np.array_equal(_slot(machine, 1), expected)


def test_interrupt_bits_follow_the_group() -> None:
    machine, _, body = _machine()
    full = [*body, *programs.trailer()]
    assert machine.run(full).raw_status == 0x155
    assert machine.run(full).raw_status == 0x2AA


def test_a_program_seen_before_is_decoded_again_when_it_depends_on_older_registers() -> None:
    machine, _expected, body = _machine()
    full = [*body, *programs.trailer()]
    machine.run(full)
    machine.run(full)
    assert machine.run(_delta(1)).fault is None
    # The same short program, now over a group whose K is wrong, must not reuse the old decoding.
    broken = [*body, programs.word(programs.CNA, 0x2F << 16 | 0x30, 0x1024), 0, *programs.trailer()]
    assert isinstance(machine.run(broken).fault, ProgramError)
    assert isinstance(machine.run(_delta(1)).fault, ProgramError)


def test_a_chain_reads_what_an_earlier_program_wrote() -> None:
    """Program 2 takes program 1's int8 results as its features."""
    rng = np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (M, K), dtype=np.int8), rng.integers(-4, 5, (N, K), dtype=np.int8)
    middle = C + 0x1000
    machine = Machine()
    machine.put(A, a)
    machine.put(B, programs.weight_tiles(b))
    machine.put(C, np.zeros(0x2000, np.uint8))
    first = programs.body(
        programs.registers(geometry="rows", m=M, k=K, n=N, a=A, b=B, c=middle, out=1, conversion=(1, 4, 0))
    )
    second = programs.body(programs.registers(geometry="rows", m=M, k=N, n=N, a=middle, b=B, c=C))
    words = [*first, *programs.trailer(CODE + 8 * 112, len(second)), *second, *programs.trailer()]
    run = machine.run_chain(words, 2)
    assert run.fault is None
    assert run.programs == 2
    between = machine.memory[C][0x1000 : 0x1000 + M * N].view(np.int8).reshape(M, N)
    assert np.array_equal(_slot(machine, 0), programs.exact(between, b))


def test_a_chain_ends_at_the_count_or_where_the_links_end() -> None:
    machine, _, body = _machine()
    second = CODE + 8 * 112
    linked = [*body, *programs.trailer(second, len(body)), *body, *programs.trailer()]
    assert machine.run_chain(linked, 5).programs == 2
    forward = machine.run_chain(linked, 1)
    assert forward.programs == 1
    assert forward.forward_link
    itself = [*body, *programs.trailer(CODE, len(body))]
    run = machine.run_chain(itself, 3)
    assert run.programs == 3
    assert not run.forward_link
