"""A wrong product is named by the mistake that explains it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.ops.probes import layout
from orkbench_tui.ops.probes.asking import ask
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.ops.probes.declaration import Bench, Verdict
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def bench() -> Iterator[Bench]:
    board = InProcessBoard()
    with Npu(board.device(), heap=board.heap) as npu:
        yield Bench(npu, "sim")
    board.close()


@pytest.mark.parametrize("name", layout.MISTAKES)
def test_each_mistake_is_told_from_the_others(name: str) -> None:
    random = np.random.default_rng(5)
    a, b = random.standard_normal((2, 32, 32))
    noise = 1 + 1e-4 * random.standard_normal((32, 32))
    found, near = layout.closest(layout.MISTAKES[name](a, b) * noise, a, b)
    assert found == name and near < layout.FITS
    others = [
        layout.distance(make(a, b), layout.MISTAKES[name](a, b))
        for key, make in layout.MISTAKES.items()
        if key != name
    ]
    assert min(others) > 0.1


def test_a_product_nothing_explains_fits_nothing() -> None:
    random = np.random.default_rng(6)
    a, b, other = random.standard_normal((3, 32, 32))
    assert layout.closest(other, a, b)[1] > 0.1


def test_operands_on_the_npu_are_laid_out_as_they_are(bench: Bench) -> None:
    result = ask(PROBES["operand-layout"], bench)
    assert result.control.ok and result.answer.verdict is Verdict.PASS
    assert all(row[1] == "right" for row in result.answer.rows)


def test_a_transposed_fill_of_the_driver_is_found_and_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = layout._product

    def transposed(bench: Bench, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return straight(bench, a, np.ascontiguousarray(b.T))

    monkeypatch.setattr(layout, "_product", transposed)
    result = ask(PROBES["operand-layout"], bench)
    assert not result.control.ok, "the deliberate mistake is undone by the driver's own"
    answer = layout._ask(bench)
    assert answer.verdict is Verdict.FAIL and answer.why == "looks like: B transposed"
    assert all(float(row[2] or 0) < layout.FITS for row in answer.rows)
