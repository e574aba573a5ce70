"""The batch form of int4: measured limits, the packing, and exact results up to every limit."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import INT4, INT8
from orkbench_tui.driver.matmul.int4_batch import Int4BatchMatmul, gather_rows, pack_rows
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.emit import emit_program
from orkbench_tui.driver.regcmd.int4_batch import MEASURED_ROWS, batch_columns, batch_rows, columns_lost
from orkbench_tui.driver.regcmd.words import decode
from orkbench_tui.errors import RefusedError, UsageError
from tests.sim.chip import build


def test_rows_are_the_smaller_of_measured_and_published() -> None:
    assert {k: batch_rows(k) for k in MEASURED_ROWS} == dict(MEASURED_ROWS)
    for k, rows in MEASURED_ROWS.items():
        assert rows <= min(64, -(-16384 // k))
    assert [batch_rows(k) for k in (32, 128, 160, 224, 480, 640, 4128)] == [128, 128, 64, 64, 25, 19, 2]


@pytest.mark.parametrize("k", [6176, 8224, 16384])
def test_a_k_that_leaves_one_row_is_refused(k: int) -> None:
    with pytest.raises(RefusedError, match=f"GRD-20.*K = {k} leaves"):
        batch_rows(k)


def test_columns_and_what_rounding_costs() -> None:
    assert [batch_columns(k) for k in (768, 1024, 1536, 2048)] == [128, 128, 64, 64]
    assert columns_lost(768) == columns_lost(1536) == pytest.approx(0.25)
    assert columns_lost(1024) == 0


def test_words_are_the_published_ones() -> None:
    """Registers of the form as a test of the chip builds them, which shares nothing with the driver."""
    k, rows = 512, 8
    program = emit_program("int4", rows, k, 64, a=build.A, w=build.B, c=build.C, geometry="int4_batch")
    words = {decode(word)[1]: decode(word)[2] for word in program.words[: program.body_words]}
    published = build.int4_batch(k, rows) | {0x4050: words[0x4050], 0x1040: words[0x1040]}
    assert {address: words[address] for address in published if address in words} == {
        address: value for address, value in published.items() if address in words
    }
    assert (words[0x405C], words[0x4024], words[0x1080], words[0x40C0]) == (0, 0x10, 0xFFFFFFD, 0x80)


@pytest.mark.parametrize(("dtype", "m"), [("int8", 4), ("int4", 33), ("int4", 0)])
def test_emitting_beyond_the_form_is_refused(dtype: str, m: int) -> None:
    with pytest.raises(UsageError, match=r"allowed: (int4|1 to 32)"):
        emit_program(dtype, m, 512, 64, a=0, w=0, c=0, geometry="int4_batch")


def test_packing_leaves_a_gap_behind_each_row() -> None:
    packed = pack_rows(np.arange(-8, 8, dtype=np.int8).reshape(1, 16))
    assert packed.shape == (1, 16) and packed[0, :2].tolist() == [0x98, 0xBA] and not packed[0, 8:].any()


def test_gathering_takes_every_fourth_line() -> None:
    rows, n = 3, 128
    slots = np.full((n // 64, 4 * rows, 64), -1, np.int16)
    for b in range(n // 64):
        for j in range(rows):
            slots[b, 4 * j] = 100 * j + b
    found = gather_rows(slots.reshape(-1), rows, n)
    assert found[:, 0].tolist() == [0, 100, 200] and found[:, 64].tolist() == [1, 101, 201]


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (1, 32, 64),
        (32, 256, 64),
        (65, 256, 128),
        (128, 128, 64),
        (7, 480, 320),
        (26, 480, 64),
        (5, 2048, 128),
    ],
)
def test_every_row_is_exact(npu: Npu, m: int, k: int, n: int) -> None:
    random = np.random.default_rng(m)
    a = random.integers(-8, 8, (m, k), dtype=np.int8)
    w = random.integers(-8, 8, (n, k), dtype=np.int8)
    weight = npu.load(INT4, "w", w)
    matmul = Int4BatchMatmul(npu.context, weight, m, core=1)
    right = a.astype(np.int64) @ w.T.astype(np.int64)
    assert np.array_equal(matmul.run(a), right)
    fold = npu.matmul([weight], m)
    fold.a[:] = a
    fold.run()
    assert np.array_equal(fold.outputs[0], right)
    matmul.close()
    with pytest.raises(LifetimeError, match="it was closed"):
        matmul.run(a)


def test_the_extremes_are_exact(npu: Npu) -> None:
    weight = npu.load(INT4, "w", np.full((64, 960), -8, np.int8))
    matmul = Int4BatchMatmul(npu.context, weight, 3)
    assert np.array_equal(matmul.run(np.full((3, 960), -8, np.int8)), np.full((3, 64), 64 * 960))


def test_bad_operands_are_refused(npu: Npu) -> None:
    eight = npu.load(INT8, "w", np.ones((32, 32), np.int8))
    four = npu.load(INT4, "w", np.ones((64, 64), np.int8))
    before = npu.counters
    for weight, rows in ((eight, 1), (four, 0)):
        with pytest.raises(OperandError, match="allowed: rows from 1 on, int4"):
            Int4BatchMatmul(npu.context, weight, rows)
    matmul = Int4BatchMatmul(npu.context, four, 2)
    for a, why in (
        (np.full((2, 64), 9, np.int8), "-8 to 7"), (np.ones((3, 64), np.int8), "expected"),
        (np.ones((2, 64), np.int16), "expected"),
    ):  # fmt: skip
        with pytest.raises(OperandError, match=why):
            matmul.run(a)
    npu.free(four)
    with pytest.raises(LifetimeError, match="freed"):
        matmul.run(np.ones((2, 64), np.int8))
    assert npu.counters.since(before).submits == 0
