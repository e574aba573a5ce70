"""Every operation on offer passes its own check, and a check can fail."""

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.sdp.ops import Sdp
from orkbench_tui.errors import UsageError
from orkbench_tui.ops.element_wise_checks import available, run_op
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def npu():
    board = InProcessBoard()
    with Npu(board.device(), timeout_ms=2000) as npu:
        yield npu
    board.close()


@pytest.mark.parametrize("row", available(), ids=lambda row: f"{row.op}-{row.dtype}")
@pytest.mark.parametrize("rows", [1, 9])
def test_every_operation_passes(npu, row, rows):
    result = run_op(npu, row.op, row.dtype, rows, 64, seed=rows)
    assert result.wrong == 0
    assert result.worst is not None and result.allowed is not None and result.worst <= result.allowed
    assert result.submits >= 1 and result.evidence == row.evidence


@pytest.mark.parametrize(
    ("op", "dtype"), [("add", "int8"), ("mul", "fp16"), ("silu", "int8"), ("exp", "fp16")]
)
def test_one_wrong_element_is_counted(npu, op, dtype, monkeypatch):
    method = "activate" if op in ("silu", "exp") else "run"
    honest = getattr(Sdp, method)

    def off_by_some(self, *arguments, **options):
        result = honest(self, *arguments, **options)
        result[-1, -1] = result[-1, -1] // 2 + 3
        return result

    monkeypatch.setattr(Sdp, method, off_by_some)
    result = run_op(npu, op, dtype, 3, 64)
    assert result.wrong == 1
    assert result.worst > result.allowed


def test_nothing_is_claimed_without_a_comparison(npu):
    result = run_op(npu, "add", "int8", 3, 64, check=False)
    assert (result.wrong, result.worst, result.allowed) == (None, None, None)


def test_names_that_do_not_exist(npu):
    with pytest.raises(UsageError, match="there are mul"):
        run_op(npu, "nothing", "int8", 1, 16)
    with pytest.raises(UsageError, match="int8, int16, fp16"):
        run_op(npu, "silu", "int32", 1, 16)


def test_a_seed_gives_the_same_operands(npu):
    first, again, other = (run_op(npu, "silu", "int16", 3, 64, seed=seed).worst for seed in (1, 1, 2))
    assert first == again != other
    assert np.isfinite(first)
