"""Programs that were captured or published run word for word, and random ones in every geometry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.sim.chip.address_space import AddressSpace, Segment
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.conv_reference import execute_reference
from orkbench_tui.sim.chip.core import Core, Run
from tests.sim import programs

A, B, C, CODE = 0xFFF00000, 0xFFC00000, 0xFF800000, 0xFFE00000

_GOLDEN = """
10010000000e4004 020100000000100c 0201000000501010 0201000000091014
0201000100041020 0201003f00401024 0201000000011028 020100000004102c
0201000010001030 0201000000401034 0201010100401038 0201000000b11040
0201000000011044 02010000000b104c 0201000100001050 0201000100001054
0201000100001058 020100010000105c 0201000000001060 0201000000001064
0201000000001068 0201fff000001070 0201000000001074 0201000f000f1078
020100000004107c 0201000000001080 0201000100041084 0201000000401088
0201000000001100 0201000000001104 0201ffc000001110 zeros:1140:1184:0201
0801000000003010 0801000300003014 08010000003f3018 080100000000301c
0801000000003030 1001000001e4400c 1001800000004010 1001000000004014
1001ff8000004020 1001000000404024 1001000000004030 1001000000034034
1001000000004038 1001003f003f403c 1001000000534040 zeros:4044:404c:1001
1001000007fe4050 1001000000004054 10010000003f4058 100100030000405c
1001000000534060 zeros:4064:406c:1001 1001000003834070 1001000000004074
1001000000014078 100100000000407c 1001000000004080 1001000000014084
1001000000004088 zeros:4090:40ac:1001 10010000020040c0 10010000000040c4
zeros:4100:412c:1001
0000000000000000 0101000000000014 0041000000000000 00810000000d0008
"""


def _golden_words() -> list[int]:
    words = []
    for token in _GOLDEN.split():
        if token.startswith("zeros:"):
            first, last, target = (int(part, 16) for part in token.split(":")[1:])
            words += [target << 48 | address for address in range(first, last + 4, 4)]
        else:
            words.append(int(token, 16))
    return words


class Machine:
    """One core and its memory, without a kernel."""

    def __init__(self, executor=execute_native) -> None:
        self.core = Core(0, executor)
        self.memory: dict[int, np.ndarray] = {}

    def put(self, iova: int, data: np.ndarray, size: int = 0) -> np.ndarray:
        raw = np.zeros(max(size, data.nbytes), np.uint8)
        raw[: data.nbytes] = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.memory[iova] = raw
        return raw

    @property
    def space(self) -> AddressSpace:
        space = AddressSpace()
        for iova, data in self.memory.items():
            space = space.with_segment(Segment(iova, data))
        return space

    def run(self, words: list[int]) -> Run:
        self.put(CODE, np.array(words, np.uint64))
        return self.core.run(self.space, CODE, -(-len(words) // 2) - 1, 1)

    def run_chain(self, words: list[int], count: int) -> Run:
        """Several linked programs of 108 body words each, laid out one after the other."""
        self.put(CODE, np.array(words, np.uint64))
        return self.core.run(self.space, CODE, 55, count)


def _operands(m: int, k: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-128, 128, (m, k), dtype=np.int8), rng.integers(-128, 128, (n, k), dtype=np.int8)


@pytest.mark.parametrize("executor", [execute_native, execute_reference])
def test_published_cube_program_multiplies(executor) -> None:
    a, b = _operands(4, 64, 64, 1)
    machine = Machine(executor)
    machine.put(A, programs.feature_cube(a))
    machine.put(B, programs.weight_tiles(b))
    out = machine.put(C, np.zeros(4 * 64, np.int32))
    words = _golden_words()
    assert len(words) == 108
    run = machine.run(words)
    assert run.fault is None
    assert run.programs == 1
    assert run.raw_status & 0x300 == 0x100
    assert np.array_equal(programs.from_cube(out.view(np.int32), 4, 64), programs.exact(a, b))


def test_captured_row_major_program_multiplies() -> None:
    captured = {
        0x1040: 0xB1, 0x100C: 0x20000000, 0x1010: 0x50, 0x1020: 0x10004, 0x1024: 0x1F0020, 0x1028: 1, 0x102C: 4,
        0x1030: 0x400, 0x1034: 0x20, 0x1038: 0x1010020, 0x1044: 1, 0x107C: 2, 0x1080: 0, 0x1084: 0x10004, 0x1088: 0x20,
        0x3010: 1, 0x3014: 0x30000, 0x3018: 0x1F, 0x4010: 0x80000000, 0x4024: 0x10, 0x4034: 3, 0x4038: 0x70007,
        0x403C: 0x1F001F, 0x4050: 0x7FC, 0x4058: 0x1F, 0x405C: 0x30000, 0x4084: 1, 0x40C0: 0x80,
    }  # fmt: skip
    built = programs.registers(geometry="rows", m=4, k=32, n=32, a=A, b=B, c=C)
    assert {address: built.get(address, 0) for address in captured} == captured
    a, b = _operands(4, 32, 32, 2)
    machine = Machine()
    machine.put(A, a)
    machine.put(B, programs.weight_tiles(b))
    out = machine.put(C, np.zeros(4 * 32, np.int32))
    assert machine.run([*programs.body(built), *programs.trailer()]).fault is None
    assert np.array_equal(out.view(np.int32).reshape(4, 32), programs.exact(a, b))


_SHAPES = st.tuples(
    st.integers(1, 70), st.integers(1, 12).map(lambda x: 32 * x), st.integers(1, 6).map(lambda x: 32 * x)
)


def _both(regs: dict[int, int], a_bytes: np.ndarray, b: np.ndarray, size: int) -> np.ndarray:
    """The output bytes, after checking that both executors agree on every byte."""
    outputs = []
    for executor in (execute_native, execute_reference):
        machine = Machine(executor)
        machine.put(A, a_bytes)
        machine.put(B, programs.weight_tiles(b))
        outputs.append(machine.put(C, np.full(size, 0x5A, np.uint8)))
        run = machine.run([*programs.body(regs), *programs.trailer()])
        assert run.fault is None, run.fault
    assert np.array_equal(*outputs)
    return outputs[0]


@settings(max_examples=30, deadline=None)
@given(_SHAPES, st.integers(0, 99))
def test_row_major_equals_numpy(shape: tuple[int, int, int], seed: int) -> None:
    m, k, n = shape
    a, b = _operands(m, k, n, seed)
    out = _both(programs.registers(geometry="rows", m=m, k=k, n=n, a=A, b=B, c=C), a, b, 4 * m * n)
    assert np.array_equal(out.view(np.int32).reshape(m, n), programs.exact(a, b))


@settings(max_examples=20, deadline=None)
@given(_SHAPES, st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_row_major_with_pitches_equals_numpy_and_spares_the_gaps(
    shape: tuple[int, int, int], wider_a: int, wider_c: int, seed: int
) -> None:
    m, k, n = shape
    pitch, stride = k + 16 * wider_a, n + 4 * wider_c
    wide, b = _operands(m, pitch, n, seed)[0], _operands(m, k, n, seed)[1]
    regs = programs.registers(geometry="rows", m=m, k=k, n=n, a=A, b=B, c=C, a_pitch=pitch, stride=stride)
    out = _both(regs, wide, b, 4 * m * stride).view(np.int32).reshape(m, stride)
    assert np.array_equal(out[:, :n], programs.exact(wide[:, :k], b))
    assert (out[:, n:] == 0x5A5A5A5A).all()


@settings(max_examples=20, deadline=None)
@given(_SHAPES, st.integers(0, 99))
def test_cube_equals_numpy(shape: tuple[int, int, int], seed: int) -> None:
    m, k, n = shape
    m = max(1, m // 4 * 4)
    a, b = _operands(m, k, n, seed)
    regs = programs.registers(geometry="cube", m=m, k=k, n=n, a=A, b=B, c=C)
    out = _both(regs, programs.feature_cube(a), b, 4 * m * n)
    assert np.array_equal(programs.from_cube(out.view(np.int32), m, n), programs.exact(a, b))


@settings(max_examples=20, deadline=None)
@given(_SHAPES, st.integers(0, 30), st.integers(0, 30), st.integers(0, 99))
def test_fold_whole_and_slice_equal_numpy(
    shape: tuple[int, int, int], before: int, after: int, seed: int
) -> None:
    m, k, n = shape
    total = before + m + after
    a, b = _operands(total, k, n, seed)
    regs = programs.registers(
        geometry="fold", m=m, k=k, n=n, a=A, b=B, c=C, rows_of_cube=total, first_row=before
    )
    out = _both(regs, programs.feature_cube(a), b, 4 * total * n)
    result = programs.from_cube(out.view(np.int32), total, n)
    assert np.array_equal(result[before : before + m], programs.exact(a, b)[before : before + m])
    assert (result[:before] == 0x5A5A5A5A).all()
    assert (result[before + m :] == 0x5A5A5A5A).all()


def _requant(sums: np.ndarray, scale: int, shift: int, offset: int, kind: type) -> np.ndarray:
    """Round half to even with exact fractions, then saturate."""
    from fractions import Fraction

    limits = np.iinfo(kind)
    flat = [
        min(max(round(Fraction(int(x) * scale, 1 << shift)) + offset, limits.min), limits.max)
        for x in sums.ravel()
    ]
    return np.array(flat, kind).reshape(sums.shape)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([1, 2]),
    st.integers(1, 0x7FFF),
    st.integers(0, 31),
    st.integers(-300, 300),
    st.integers(0, 99),
)
def test_requantised_outputs_round_half_to_even(
    out: int, scale: int, shift: int, offset: int, seed: int
) -> None:
    m, k, n = 3, 64, 64
    a, b = _operands(m, k, n, seed)
    regs = programs.registers(
        geometry="rows", m=m, k=k, n=n, a=A, b=B, c=C, out=out, conversion=(scale, shift, offset)
    )
    kind = {1: np.int8, 2: np.int16}[out]
    result = _both(regs, a, b, out * m * n).view(kind).reshape(m, n)
    assert np.array_equal(result, _requant(programs.exact(a, b), scale, shift, offset, kind))


def test_the_offset_comes_first_with_conversion_type_one() -> None:
    a, b = _operands(3, 64, 32, 8)
    regs = programs.registers(
        geometry="rows", m=3, k=64, n=32, a=A, b=B, c=C, out=2, conversion=(3, 5, 77), convert_type=1
    )
    result = _both(regs, a, b, 2 * 3 * 32).view(np.int16).reshape(3, 32)
    assert np.array_equal(result, _requant(programs.exact(a, b) + 77, 3, 5, 0, np.int16))


def test_exact_ties_go_to_even() -> None:
    a = np.zeros((4, 32), np.int8)
    a[:, 0] = [1, 3, -1, -3]
    b = np.zeros((32, 32), np.int8)
    b[:, 0] = 1
    regs = programs.registers(geometry="rows", m=4, k=32, n=32, a=A, b=B, c=C, out=1, conversion=(1, 1, 0))
    assert _both(regs, a, b, 128).view(np.int8).reshape(4, 32)[:, 0].tolist() == [0, 2, 0, -2]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("m", [1, 2, 5, 6, 9, 67])
def test_every_instruction_set_gives_the_same_sums(level: int, m: int) -> None:
    a, b = _operands(m, 160, 96, m)
    a[0], b[0] = -128, -128
    machine = Machine(lambda operation, space: execute_native(operation, space, level))
    machine.put(A, a)
    machine.put(B, programs.weight_tiles(b))
    out = machine.put(C, np.zeros(m * 96, np.int32))
    regs = programs.registers(geometry="rows", m=m, k=160, n=96, a=A, b=B, c=C)
    assert machine.run([*programs.body(regs), *programs.trailer()]).fault is None
    assert np.array_equal(out.view(np.int32).reshape(m, 96), programs.exact(a, b))


def test_operands_that_span_two_buffers_are_read_and_written_through_both() -> None:
    a, b = _operands(8, 64, 64, 5)
    machine = Machine()
    raw = a.reshape(-1)
    machine.put(A, raw[:256])
    machine.put(A + 256, raw[256:])
    machine.put(B, programs.weight_tiles(b)[:1024])
    machine.put(B + 1024, programs.weight_tiles(b)[1024:])
    low, high = (
        machine.put(C, np.zeros(640, np.uint8)),
        machine.put(C + 640, np.zeros(4 * 512 - 640, np.uint8)),
    )
    regs = programs.registers(geometry="rows", m=8, k=64, n=64, a=A, b=B, c=C)
    assert machine.run([*programs.body(regs), *programs.trailer()]).fault is None
    out = np.concatenate([low, high]).view(np.int32).reshape(8, 64)
    assert np.array_equal(out, programs.exact(a, b))
