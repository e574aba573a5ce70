"""The envelope of kept weights over K, columns and banks: the chip is right exactly where the rule says so."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.matmul.reuse import require_weights_stay, weights_stay
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import RefusedError
from tests.sim.chip.test_kept_weights import _Case


@pytest.mark.parametrize("k", range(512, 4097, 512))
def test_every_cell_is_right_exactly_where_the_weights_stay(k: int) -> None:
    report = {}
    for n in (32, 64, 96, 192):
        for banks in (1, 4, 11):
            case = _Case(n, banks, k)
            assert case.run({}, case.keep()).fault is None
            report[n, banks] = bool((case.c == case.right()).all())
            assert report[n, banks] is weights_stay(RK3588, k, n, banks), (k, n, banks)
    assert report[32, 11] and not report[192, 1], "both kinds of cell are in the sweep"


@pytest.mark.parametrize(("m", "k", "n"), [(256, 3584, 3584), (256, 2048, 2048), (96, 3584, 18944)])
def test_the_published_shapes_that_failed_are_outside_and_refused(m: int, k: int, n: int) -> None:
    columns = -(-n // RK3588.cores)
    for banks in (1, 4, 11):
        assert not weights_stay(RK3588, k, columns, banks)
        with pytest.raises(RefusedError, match="GRD-12"):
            require_weights_stay(RK3588, INT8_TO_INT32, k, columns, banks)


def test_beyond_it_most_of_the_second_row_tile_is_wrong() -> None:
    case = _Case(96, 4, 2048)
    assert case.run({}, case.keep()).fault is None
    wrong = case.c != case.right()
    assert not wrong[:4].any() and np.count_nonzero(wrong[4:]) > 0.2 * wrong[4:].size
