"""Products whose operands are told anew for each run: exact, independent of each other, refused where they do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.fresh_products import FreshProduct
from orkbench_tui.driver.matmul.formats import FP16
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import OrkError
from orkbench_tui.native.scan_halves import HALF_DEPTH, HALF_WIDTH
from orkbench_tui.sim.inprocess import InProcessBoard

ROWS, K, N = 64, 128, 160


def tell(product: FreshProduct, seed: int) -> np.ndarray:
    """Small whole numbers, whose sums are exact in fp32 in any order; the expected result."""
    random = np.random.default_rng(seed)
    (rows, k), n = product.a.shape, product.output.shape[1]
    a, b = (random.integers(-8, 9, shape).astype(np.float16) for shape in ((rows, k), (n, k)))
    product.a[:] = a
    product.tiles[:] = b.reshape(n // 16, 16, k // 32, 32).transpose(0, 2, 1, 3).ravel()
    return a.astype(np.float64) @ b.T.astype(np.float64)


@pytest.mark.parametrize(("rows", "k", "n"), [(ROWS, K, N), (128, 64, 5120), (1, 32, 16), (48, 256, 96)])
def test_every_run_multiplies_what_was_told_last(npu: Npu, rows: int, k: int, n: int) -> None:
    products = npu.fresh_products(3, rows, k, n)
    for seed in range(3):
        expected = [tell(product, 10 * seed + i) for i, product in enumerate(products.products)]
        products.run(3)
        for product, wanted in zip(products.products, expected, strict=True):
            np.testing.assert_array_equal(product.output, wanted)


def test_tiles_of_halves_are_the_format_s() -> None:
    """The kernels that fill them cannot ask the driver."""
    assert (FP16.precision.kernel_group, FP16.precision.k_granule) == (HALF_WIDTH, HALF_DEPTH)


def test_only_those_asked_for_run(npu: Npu) -> None:
    products = npu.fresh_products(4, ROWS, K, N)
    expected = [tell(product, i) for i, product in enumerate(products.products)]
    before = npu.counters.submits
    products.run(0)
    assert npu.counters.submits == before
    products.run(2)
    assert npu.counters.submits == before + 2
    for index, product in enumerate(products.products):
        assert np.array_equal(product.output, expected[index]) is (index < 2)


def test_a_weight_that_was_not_brought_to_the_device_shows(npu: Npu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the cache maintenance the chip reads what was there before."""
    products = npu.fresh_products(1, ROWS, K, N)
    tell(products.products[0], 1)
    products.run(1)
    expected = tell(products.products[0], 2)
    weight = products._weights[0].buffer
    synced = npu.memory.sync
    monkeypatch.setattr(
        npu.memory, "sync", lambda part, flags: None if part.buffer is weight else synced(part, flags)
    )
    products.run(1)
    assert not np.array_equal(products.products[0].output, expected)


def test_beside_int8_nothing_is_reset_again(npu: Npu) -> None:
    weight = npu.load_int8("w", np.zeros(512 * 64, np.int8), 512, 64)
    matmul, products = npu.matmul_int8([weight], 16), npu.fresh_products(1, ROWS, K, N)
    for _ in range(3):
        matmul.run()
        expected = tell(products.products[0], 3)
        products.run(1)
        np.testing.assert_array_equal(products.products[0].output, expected)
    assert npu.counters.resets <= 1


def test_memory_is_given_back(npu: Npu) -> None:
    npu.fresh_products(1, ROWS, K, N).close()
    before = npu.memory.used_bytes(0)
    products = npu.fresh_products(2, ROWS, K, N)
    products.run(2)
    assert npu.memory.used_bytes(0) > before
    products.close()
    assert npu.memory.used_bytes(0) == before
    with pytest.raises(OperandError, match="2 asked for, 0 are there"):
        products.run(2)
    products.close()


def test_what_does_not_fit_is_refused_and_leaves_nothing(npu: Npu) -> None:
    npu.fresh_products(1, ROWS, K, N).close()
    before = npu.memory.used_bytes(0)
    for count, k, n in ((0, K, N), (1, 48, N), (1, K, 24)):
        with pytest.raises(OrkError):
            npu.fresh_products(count, ROWS, k, n)
    products = npu.fresh_products(1, ROWS, K, N)
    with pytest.raises(OperandError, match="2 asked for"):
        products.run(2)
    products.products[0].a[3, 3] = np.inf
    with pytest.raises(OperandError, match="finite"):
        products.run(1)
    products.close()
    assert npu.memory.used_bytes(0) == before


def test_a_closed_npu_says_so(board: InProcessBoard) -> None:
    npu = Npu(board.device())
    products = npu.fresh_products(1, ROWS, K, N)
    npu.close()
    with pytest.raises(OrkError):
        products.run(1)
