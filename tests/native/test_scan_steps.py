"""Convolution and state space scan: plain numpy, the same bits in any cut, on any threads and instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.scan_steps import (
    SCAN_CHUNK_MAX,
    TAPS_MAX,
    ScanArrays,
    ScanRows,
    ScanShape,
    convolve,
    scan,
)
from orkbench_tui.native.steps import Steps

HEADS, HEAD_DIM, SIZE, GROUPS, TAPS = 6, 8, 20, 3, 4
INNER = HEADS * HEAD_DIM
WIDTH = INNER + 2 * GROUPS * SIZE
MIXED = INNER + WIDTH + HEADS
ROWS = 45
CHUNK = 16


class Mixer:
    def __init__(self, seed: int = 0, rows: int = ROWS, taps: int = TAPS, chunk: int = CHUNK) -> None:
        random = np.random.default_rng(seed)

        def values(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(np.float32)

        self.mixed, self.weights, self.bias = values(rows, MIXED), values(taps, WIDTH), values(WIDTH)
        self.time_bias, self.a, self.d = values(HEADS), -np.abs(values(HEADS)), values(HEADS)
        self.window = np.full((taps - 1, WIDTH), np.nan, np.float32)
        self.held = ScanArrays.zeros(ScanShape(HEADS, HEAD_DIM, SIZE, GROUPS, chunk), rows)
        for array in self.held.arrays:
            array[:] = np.nan
        self.convolved = np.zeros((rows, WIDTH), np.float32)
        self.products = np.zeros((rows, GROUPS * chunk), np.float32)
        self.output = np.zeros((rows, INNER), np.float32)

    def steps(self, part: np.ndarray) -> Steps:
        steps = Steps()
        convolve(steps, part, INNER, self.weights, self.bias, self.window, self.convolved)
        scan(steps, self.rows(part))
        return steps

    def rows(self, part: np.ndarray) -> ScanRows:
        vectors = {"time_bias": self.time_bias, "a": self.a, "d": self.d}
        return ScanRows(part, self.convolved, self.products, self.output, self.held, **vectors)

    def run(self, cuts: tuple[int, ...] = (ROWS,), threads: int = 1) -> tuple[bytes, ...]:
        """All rows in parts of so many; the bits of every result. State and window begin as NaN."""
        found: list[np.ndarray] = []
        first = 0
        for count in cuts:
            part = np.ascontiguousarray(self.mixed[first : first + count])
            self.steps(part).run(count, first, threads)
            found.append(self.output[:count].copy())
            first += count
        told = first % self.held.inputs.shape[1]
        slot = first // CHUNK % len(self.held.writes)
        held = (self.held.state, self.held.inputs[:, :told], self.held.writes[slot, :, :, :told])
        return tuple(array.tobytes() for array in (np.concatenate(found), self.window, *held))

    def expected(self) -> np.ndarray:
        mixed = self.mixed.astype(np.float64)
        channels = mixed[:, INNER : INNER + WIDTH]
        taps = len(self.weights)
        padded = np.pad(channels, ((taps - 1, 0), (0, 0)))
        summed = self.bias + sum(padded[j : j + len(mixed)] * self.weights[j] for j in range(taps))
        active = summed / (1 + np.exp(-summed))
        state, rows = np.zeros((HEADS, HEAD_DIM, SIZE)), []
        for row, gate in zip(active, mixed[:, :INNER], strict=True):
            x = row[:INNER].reshape(HEADS, HEAD_DIM)
            write, read = (np.repeat(v.reshape(GROUPS, SIZE), HEADS // GROUPS, axis=0)
                           for v in np.split(row[INNER:], 2))  # fmt: skip
            time = np.logaddexp(0, mixed[len(rows), -HEADS:] + self.time_bias)
            state = (
                state * np.exp(time * self.a)[:, None, None] + (time[:, None] * x)[..., None] * write[:, None]
            )
            y = np.einsum("hds,hs->hd", state, read) + self.d[:, None] * x
            rows.append(y.ravel() * gate / (1 + np.exp(-gate)))
        return np.array(rows)


@pytest.mark.parametrize("taps", [1, 2, 4, TAPS_MAX])
def test_what_numpy_computes(taps: int) -> None:
    mixer = Mixer(seed=taps, taps=taps)
    mixer.run()
    np.testing.assert_allclose(mixer.output, mixer.expected(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("chunk", [8, 16, 24, 64, SCAN_CHUNK_MAX])
def test_chunks_of_any_length_are_what_the_recurrence_computes(chunk: int) -> None:
    mixer = Mixer(seed=4, chunk=chunk)
    mixer.run()
    np.testing.assert_allclose(mixer.output, mixer.expected(), rtol=2e-5, atol=2e-5)


def test_one_wrong_number_held_would_show() -> None:
    """The control of the two tests above: each thing held counts."""
    for index in range(4):
        mixer, whole = Mixer(), Mixer().run()[0]
        mixer.run((20,))
        mixer.held.arrays[index][..., 0] += 1
        rest = np.ascontiguousarray(mixer.mixed[20:])
        mixer.steps(rest).run(len(rest), 20, 1)
        assert mixer.output[: len(rest)].tobytes() != whole[20 * INNER * 4 :]


@pytest.mark.parametrize("decay", [-1e-9, -50.0, -1e30])
def test_heads_that_hardly_or_at_once_forget(decay: float) -> None:
    mixer = Mixer(seed=5)
    mixer.a[:] = decay
    mixer.run()
    np.testing.assert_allclose(mixer.output, mixer.expected(), rtol=3e-5, atol=3e-5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 24), min_size=1, max_size=6), st.integers(1, 4))
def test_the_same_bits_however_the_rows_are_cut_and_shared_out(parts: list[int], threads: int) -> None:
    cuts: list[int] = []
    for part in parts:
        cuts.append(min(part, ROWS - sum(cuts)))
    cuts = [*(cut for cut in cuts if cut), *([ROWS - sum(cuts)] if sum(cuts) < ROWS else [])]
    assert Mixer().run(tuple(cuts), threads) == Mixer().run()


def test_every_instruction_set_gives_the_same_bits() -> None:
    with portable_kernels():
        portable = Mixer(3).run()
    assert Mixer(3).run() == portable


def test_a_run_at_position_0_forgets_and_a_later_one_does_not() -> None:
    mixer = Mixer()
    first = mixer.run()
    assert mixer.run() == first, "what was held before does not show"
    other = Mixer()
    other.run((5, 40))
    for array in other.held.arrays:
        array[:] = 0
    other.window[:] = 0
    assert other.run((5, 40)) == first


def test_what_the_kernels_do_not_compute_is_refused() -> None:
    mixer, steps = Mixer(), Steps()
    with pytest.raises(ValueError, match="9 taps"):
        wide = np.zeros((9, WIDTH), np.float32)
        convolve(
            steps, mixer.mixed, INNER, wide, mixer.bias, np.zeros((8, WIDTH), np.float32), mixer.convolved
        )
    with pytest.raises(ValueError, match="columns"):
        convolve(
            steps,
            mixer.mixed,
            MIXED - 1,
            mixer.weights,
            mixer.bias,
            np.zeros((3, WIDTH), np.float32),
            mixer.convolved,
        )
    for sizes, why in (
        ((6, 12, 16, 3, 16), "heads of 12 values and chunks of 16 rows must be multiples of 8"),
        ((6, 16, 16, 3, 12), "heads of 16 values and chunks of 12 rows"),
        ((6, 16, 16, 3, 264), "chunks up to 256"),
        ((6, 16, 16, 4, 16), "6 heads of 4 groups"),
    ):
        with pytest.raises(ValueError, match=why):
            ScanShape(*sizes)
    with pytest.raises(ValueError, match="scan products"):
        mixer.products = mixer.products[:, :-1].copy()
        mixer.steps(mixer.mixed)
    assert len(steps) == 0
