"""Programs that compute with the weights the one before them loaded."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.sim.chip.address_space import AddressSpace, Segment
from orkbench_tui.sim.chip.core import Core, Run
from orkbench_tui.sim.chip.faults import ProgramError, UnsupportedOperation
from orkbench_tui.sim.chip.kept_weights import ring_contents
from tests.sim import programs
from tests.sim.chip.build import CODE, A, B, C

_REUSE, _DATA_REUSE = 1 << 13, 1 << 12
_K, _M = 1024, 4


def _tiled(weights: np.ndarray) -> np.ndarray:
    n, k = weights.shape
    return weights.reshape(n // 32, 32, k // 32, 32).transpose(0, 2, 1, 3).reshape(-1)


class _Case:
    """Two row tiles of one matmul: weights [n, 1024] at B, other bytes behind them."""

    def __init__(self, n: int, weight_banks: int, k: int = _K) -> None:
        random = np.random.default_rng(n)
        self.n, self.k, self.banks = n, k, weight_banks
        self.a = random.integers(-128, 128, (2 * _M, k), dtype=np.int8)
        self.w = random.integers(-128, 128, (n, k), dtype=np.int8)
        self.c = np.zeros((2 * _M, n), np.int32)
        self.code = np.zeros(4096, np.uint8)
        self.space = AddressSpace()
        for iova, data in ((A, self.a), (B, _tiled(self.w)), (C, self.c), (CODE, self.code)):
            self.space = self.space.with_segment(Segment(iova, data.view(np.uint8).reshape(-1)))

    def registers(self, tile: int, changes: dict[int, int]) -> dict[int, int]:
        regs = programs.registers(
            geometry="rows", m=_M, k=self.k, n=self.n,
            a=A + tile * _M * self.k, b=B, c=C + 4 * tile * _M * self.n,
        )  # fmt: skip
        return regs | {0x1040: self.banks << 4 | 12 - self.banks} | changes

    def run(self, *tiles: dict[int, int]) -> Run:
        """Programs in one run; each gives its changed registers, the row tile is its place."""
        bodies = [programs.body(self.registers(tile, changes)) for tile, changes in enumerate(tiles)]
        words: list[int] = []
        for index, body in enumerate(bodies):
            following = 8 * (len(words) + len(body) + 4) + CODE if index + 1 < len(bodies) else 0
            words += [*body, *programs.trailer(following, len(body))]
        self.code[: 8 * len(words)] = np.array(words, "<u8").view(np.uint8)
        self.c[:] = 0
        return Core(0).run(self.space, CODE, (len(bodies[0]) + 5) // 2 - 1, len(bodies))

    def right(self, weights: np.ndarray | None = None) -> np.ndarray:
        chosen = self.w if weights is None else weights
        return self.a.astype(np.int64) @ chosen.T.astype(np.int64)

    def keep(self, tile: int = 1) -> dict[int, int]:
        return {0x1040: self.registers(tile, {})[0x1040] | _REUSE}


@pytest.mark.parametrize(("n", "banks"), [(128, 4), (352, 11), (32, 1)])
def test_weights_that_fit_the_banks_are_the_right_ones(n: int, banks: int) -> None:
    case = _Case(n, banks)
    assert case.run({}, case.keep()).fault is None
    np.testing.assert_array_equal(case.c, case.right())


def test_weights_beyond_the_banks_are_the_later_ones_and_no_fault_tells() -> None:
    case = _Case(192, 4)
    assert case.run({}, case.keep()).fault is None
    np.testing.assert_array_equal(case.c[:_M], case.right()[:_M])
    held = case.w.copy()
    held[:64] = case.w[128:]
    np.testing.assert_array_equal(case.c[_M:], case.right(held)[_M:])
    assert np.count_nonzero(case.c[_M:] != case.right()[_M:]) > 0.3 * case.c[_M:].size
    assert case.run({}, {}).fault is None
    np.testing.assert_array_equal(case.c, case.right())


def test_the_ring_holds_what_came_last() -> None:
    stream = np.arange(10, dtype=np.uint8)
    assert ring_contents(stream, 10).tolist() == list(range(10))
    assert ring_contents(stream, 4).tolist() == [8, 9, 6, 7, 8, 9, 6, 7, 8, 9]


def test_the_address_of_weights_that_are_kept_is_not_read() -> None:
    case = _Case(64, 4)
    assert case.run({}, case.keep() | {0x1110: 0x1000}).fault is None
    np.testing.assert_array_equal(case.c, case.right())


def test_kept_weights_cost_no_traffic() -> None:
    case = _Case(128, 4)
    kept, read = case.run({}, case.keep()), case.run({}, {})
    assert kept.predicted_ns < read.predicted_ns


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("weight banks is 5", {0x1040: _REUSE | 5 << 4 | 7}),
        ("N is 32", {0x1038: 0x01010020, 0x1030: 32 * _K, 0x3018: 31, 0x403C: 31 << 16 | 31, 0x4058: 31}),
    ],
)
def test_weights_of_another_shape_stop_the_run(why: str, changes: dict[int, int]) -> None:
    case = _Case(64, 4)
    fault = case.run({}, case.keep() | changes).fault
    assert isinstance(fault, ProgramError) and fault.rule == "weight reuse" and why in str(fault)
    assert not case.c[_M:].any()


def test_the_first_program_of_a_run_has_nothing_to_keep() -> None:
    case = _Case(64, 4)
    fault = case.run(case.keep(0)).fault
    assert isinstance(fault, ProgramError) and "no program before it" in str(fault)


def test_kept_features_are_not_simulated() -> None:
    case = _Case(64, 4)
    fault = case.run({}, {0x1040: case.registers(1, {})[0x1040] | _DATA_REUSE}).fault
    assert isinstance(fault, UnsupportedOperation) and "feature reuse" in str(fault)
