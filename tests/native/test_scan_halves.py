"""The scan with its wide products in halves: what the recurrence gives up to their rounding, the same bits in any cut."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.scan_halves import ScanHalves, parts_of_run
from orkbench_tui.native.scan_steps import ScanArrays, ScanRows, ScanShape, chunks_touched, scan
from orkbench_tui.native.steps import Steps

HEADS, HEAD_DIM, SIZE, GROUPS, CHUNK, ROWS = 4, 16, 64, 2, 32, 100
SHAPE = ScanShape(HEADS, HEAD_DIM, SIZE, GROUPS, CHUNK)
INNER = HEADS * HEAD_DIM
WIDTH = INNER + 2 * GROUPS * SIZE


@dataclass(frozen=True, eq=False)
class NumpyProduct:
    """``a`` by weight tiles, halves exact and their sums in float64."""

    rows: int
    k: int
    n: int
    a: np.ndarray = field(init=False)
    tiles: np.ndarray = field(init=False)
    output: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        # As memory comes: what is read without being written shows.
        object.__setattr__(self, "a", np.full((self.rows, self.k), np.nan, np.float16))
        object.__setattr__(self, "tiles", np.full(self.n * self.k, np.nan, np.float16))
        object.__setattr__(self, "output", np.full((self.rows, self.n), np.nan, np.float32))

    def run(self) -> None:
        tiles = self.tiles.reshape(self.n // 16, self.k // 32, 16, 32)
        weights = tiles.transpose(0, 2, 1, 3).reshape(self.n, self.k).astype(np.float64)
        self.output[:] = self.a.astype(np.float64) @ weights.T


class Mixer:
    def __init__(self, seed: int = 0, large: float = 1.0) -> None:
        random = np.random.default_rng(seed)

        def values(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(np.float32)

        self.mixed, self.convolved = values(ROWS, INNER + HEADS), values(ROWS, WIDTH) * np.float32(large)
        self.time_bias, self.a, self.d = values(HEADS), -np.abs(values(HEADS)), values(HEADS)
        self.held = ScanArrays.zeros(SHAPE, ROWS)
        width, most = INNER // GROUPS, chunks_touched(ROWS, CHUNK) * GROUPS
        self.reads = [NumpyProduct(CHUNK, SIZE, width) for _ in range(most)]
        self.adds = [NumpyProduct(SIZE, CHUNK, width) for _ in range(most)]
        self.halves = ScanHalves(SHAPE, self.reads, self.adds, ROWS)

    def rows(self, first: int, count: int) -> tuple[ScanRows, np.ndarray]:
        part = slice(first, first + count)
        output = np.zeros((count, INNER), np.float32)
        rows = ScanRows(
            np.ascontiguousarray(self.mixed[part]),
            np.ascontiguousarray(self.convolved[part]),
            np.zeros((count, GROUPS * CHUNK), np.float32),
            output,
            self.held,
            self.time_bias,
            self.a,
            self.d,
        )
        return rows, output

    def run(self, cuts: tuple[int, ...] = (ROWS,), threads: int = 1) -> np.ndarray:
        found, first = [], 0
        for count in cuts:
            rows, output = self.rows(first, count)
            touched, full = parts_of_run(count, first, CHUNK)
            for compile_steps, products in (
                (self.halves.begin, self.adds[: full * GROUPS]),
                (self.halves.carry, self.reads[: touched * GROUPS]),
                (self.halves.finish, []),
            ):
                steps = Steps()
                compile_steps(steps, rows)
                steps.run(count, first, threads)
                for product in products:
                    # Rows of a chunk that nobody told anything about are anything.
                    with np.errstate(invalid="ignore"):
                        product.run()
            found.append(output)
            first += count
        return np.concatenate(found)

    def exact(self) -> np.ndarray:
        """The same all in float32."""
        rows, output = self.rows(0, ROWS)
        steps = Steps()
        scan(steps, rows)
        steps.run(ROWS)
        return output


def off(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def test_halves_are_near_what_floats_give() -> None:
    found, exact = Mixer(1).run(), Mixer(1).exact()
    assert 1e-6 < off(found, exact) < 1e-3


@pytest.mark.parametrize("large", [1e-12, 1e-4, 1e4, 3e9])
def test_numbers_outside_the_range_of_halves_are_scaled_into_it(large: float) -> None:
    found, exact = Mixer(2, large).run(), Mixer(2, large).exact()
    assert off(found, exact) < 1e-3


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=6), st.integers(1, 3))
def test_the_same_bits_however_the_rows_are_cut_and_shared_out(parts: list[int], threads: int) -> None:
    cuts: list[int] = []
    for part in parts:
        cuts.append(min(part, ROWS - sum(cuts)))
    cuts = [*(cut for cut in cuts if cut), *([ROWS - sum(cuts)] if sum(cuts) < ROWS else [])]
    assert Mixer().run(tuple(cuts), threads).tobytes() == Mixer().run().tobytes()


def test_every_instruction_set_gives_the_same_bits() -> None:
    with portable_kernels():
        portable = Mixer(3).run()
    assert Mixer(3).run().tobytes() == portable.tobytes()


def test_floats_go_on_where_halves_stopped() -> None:
    mixer, exact = Mixer(4), Mixer(4).exact()
    mixer.run((70,))
    rows, output = mixer.rows(70, 30)
    steps = Steps()
    scan(steps, rows)
    steps.run(30, 70)
    assert off(output, exact[70:]) < 1e-3


@pytest.mark.parametrize(
    ("column", "name"), [(0, "x"), (INNER, "B"), (INNER + GROUPS * SIZE, "C")], ids=["x", "B", "C"]
)
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite_is_not_lost_in_scaling(column: int, name: str, odd: float) -> None:
    mixer = Mixer(5)
    mixer.convolved[10, column] = odd
    found = np.isfinite(mixer.run()).all(axis=1)
    assert not found[10], name
    if name != "C":
        assert not found[40] and not found[-1], "the state has it from then on"


@pytest.mark.parametrize(
    ("rows", "position", "expected"),
    [(1, 0, (1, 0)), (32, 0, (1, 1)), (33, 0, (2, 1)), (2, 31, (2, 1)), (100, 31, (5, 4)), (1, 63, (1, 1))],
)
def test_parts_of_a_run(rows: int, position: int, expected: tuple[int, int]) -> None:
    assert parts_of_run(rows, position, CHUNK) == expected


def test_products_of_other_shapes_are_refused() -> None:
    mixer = Mixer()
    with pytest.raises(ValueError, match="9 products to read, 10 are needed"):
        ScanHalves(SHAPE, mixer.reads[:-1], mixer.adds, ROWS)
    with pytest.raises(ValueError, match="rows to add"):
        ScanHalves(SHAPE, mixer.reads, mixer.reads, ROWS)
    with pytest.raises(ValueError, match="multiples of 16, 32 and 32"):
        ScanHalves(replace(SHAPE, head_dim=8), mixer.reads, mixer.adds, 9)
    other = ScanArrays.zeros(replace(SHAPE, state_size=32), 9)
    rows, _ = mixer.rows(0, 9)
    with pytest.raises(ValueError, match="made for"):
        mixer.halves.begin(
            Steps(),
            ScanRows(
                rows.mixed,
                np.zeros((9, INNER + 2 * GROUPS * 32), np.float32),
                rows.products,
                rows.output,
                other,
                rows.time_bias,
                rows.a,
                rows.d,
            ),
        )
