"""Convolution and state space scan: plain numpy, the same bits in any cut, on any threads and instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.scan_steps import TAPS_MAX, convolve, scan
from orkbench_tui.native.steps import Steps

HEADS, HEAD_DIM, SIZE, GROUPS, TAPS = 6, 5, 16, 3, 4
INNER = HEADS * HEAD_DIM
WIDTH = INNER + 2 * GROUPS * SIZE
MIXED = INNER + WIDTH + HEADS
ROWS = 13


class Mixer:
    def __init__(self, seed: int = 0, rows: int = ROWS, taps: int = TAPS) -> None:
        random = np.random.default_rng(seed)

        def values(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(np.float32)

        self.mixed, self.weights, self.bias = values(rows, MIXED), values(taps, WIDTH), values(WIDTH)
        self.time_bias, self.a, self.d = values(HEADS), -np.abs(values(HEADS)), values(HEADS)
        self.window = np.full((taps - 1, WIDTH), np.nan, np.float32)
        self.state = np.full((HEADS, HEAD_DIM, SIZE), np.nan, np.float32)
        self.convolved = np.zeros((rows, WIDTH), np.float32)
        self.output = np.zeros((rows, INNER), np.float32)

    def run(self, cuts: tuple[int, ...] = (ROWS,), threads: int = 1) -> tuple[bytes, ...]:
        """All rows in parts of so many; the bits of every result. State and window begin as NaN."""
        found: list[np.ndarray] = []
        first = 0
        for count in cuts:
            part = np.ascontiguousarray(self.mixed[first : first + count])
            steps = Steps()
            convolve(steps, part, INNER, self.weights, self.bias, self.window, self.convolved)
            scan(
                steps,
                part,
                self.convolved,
                self.output,
                self.state,
                time_bias=self.time_bias,
                a=self.a,
                d=self.d,
                groups=GROUPS,
            )
            steps.run(count, first, threads)
            found.append(self.output[:count].copy())
            first += count
        return np.concatenate(found).tobytes(), self.window.tobytes(), self.state.tobytes()

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

    def in_chunks(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The scan as matmuls (SSD): products inside chunks of rows, and a state handed from chunk to chunk.

        From what the convolution gave: results [rows, INNER] and the last state.
        """
        x, write, read = np.split(self.convolved.astype(np.float64), [INNER, INNER + GROUPS * SIZE], axis=1)
        x = x.reshape(-1, HEADS, HEAD_DIM)
        write, read = (
            np.repeat(part.reshape(-1, GROUPS, SIZE), HEADS // GROUPS, axis=1).swapaxes(0, 1)
            for part in (write, read)
        )
        time = np.logaddexp(0, self.mixed[:, -HEADS:].astype(np.float64) + self.time_bias)
        state, parts = np.zeros((HEADS, HEAD_DIM, SIZE)), []
        for first in range(0, len(x), length):
            rows = slice(first, first + length)
            decayed = np.cumsum(time[rows] * self.a, axis=0).T
            inputs = (time[rows, :, None] * x[rows]).swapaxes(0, 1)
            b, c = write[:, rows], read[:, rows]
            earlier = np.tril(np.ones((b.shape[1], b.shape[1]), bool))
            kept = np.exp(np.where(earlier, decayed[:, :, None] - decayed[:, None], -np.inf))
            inside = (c @ b.swapaxes(1, 2) * kept) @ inputs
            before = np.exp(decayed)[..., None] * (c @ state.swapaxes(1, 2))
            left = np.exp(decayed[:, -1:] - decayed)[..., None]
            state = np.exp(decayed[:, -1])[:, None, None] * state + (inputs * left).swapaxes(1, 2) @ b
            parts.append((inside + before).swapaxes(0, 1) + self.d[:, None] * x[rows])
        gate = self.mixed[:, :INNER]
        return np.concatenate(parts).reshape(-1, INNER) * gate / (1 + np.exp(-gate)), state


@pytest.mark.parametrize("taps", [1, 2, 4, TAPS_MAX])
def test_what_numpy_computes(taps: int) -> None:
    mixer = Mixer(seed=taps, taps=taps)
    mixer.run()
    np.testing.assert_allclose(mixer.output, mixer.expected(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("length", [1, 2, 5, 8, ROWS])
def test_rows_one_by_one_are_what_chunks_of_matmuls_compute(length: int) -> None:
    mixer = Mixer(seed=4)
    mixer.run()
    output, state = mixer.in_chunks(length)
    np.testing.assert_allclose(mixer.output, output, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(mixer.state, state, rtol=2e-5, atol=2e-5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, ROWS), min_size=1, max_size=6), st.integers(1, 4))
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
    other.run((5, 8))
    other.state[:] = 0
    assert other.run((5, 8)) == first


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
    with pytest.raises(ValueError, match="multiples of 8, 6 heads of 4 groups"):
        scan(
            steps,
            mixer.mixed,
            mixer.convolved,
            mixer.output,
            mixer.state,
            time_bias=mixer.time_bias,
            a=mixer.a,
            d=mixer.d,
            groups=4,
        )
    assert len(steps) == 0
