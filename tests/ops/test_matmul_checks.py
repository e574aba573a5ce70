"""The known-answer check: right references, padding, every path, and that it can fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.ops.checks import CHECKED_DTYPES, PATHS, exact_matmul
from orkbench_tui.ops.matmul_reference import compare, operands
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def npu():
    board = InProcessBoard()
    with Npu(board.device(), timeout_ms=2000) as npu:
        yield npu
    board.close()


@pytest.mark.parametrize("dtype", CHECKED_DTYPES)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 700, 45), (67, 130, 33), (130, 512, 96)])
def test_every_dtype_and_path(npu, dtype, path, m, k, n):
    if path == "compiled" and (dtype != "int8" or m != 1):
        with pytest.raises(UsageError, match="allowed: int8, M = 1"):
            exact_matmul(npu, m, k, n, dtype=dtype, path=path)
        return
    if path == "sliced" and dtype != "int8":
        with pytest.raises(UsageError, match="allowed: int8, on all cores"):
            exact_matmul(npu, m, k, n, dtype=dtype, path=path)
        return
    result = exact_matmul(npu, m, k, n, dtype=dtype, path=path, seed=m)
    assert result.wrong == 0 and (result.dtype, result.path) == (dtype, path)
    assert result.submits >= 1 and result.tasks >= 1
    assert (result.bound is None) == (not dtype.startswith("fp16"))
    assert (result.hw_ns is None) == (path in ("doorbell", "compiled")), "unknown is unknown, not 0"


@pytest.mark.parametrize("path", [path for path in PATHS if path != "sliced"])
@pytest.mark.parametrize("core", [0, 1, 2])
def test_one_core_is_the_one_that_runs(npu, path, core):
    exact_matmul(npu, 1, 512, 96, path=path, core=core)
    used = npu.counters.core_submits
    if path == "stream":
        assert sum(used) > used[core] == 0 or used[core] == sum(used)
    else:
        assert used[core] == sum(used) > 0


@pytest.mark.parametrize("dtype", CHECKED_DTYPES)
def test_one_wrong_element_is_counted(dtype):
    a, b, convert = operands(dtype, 5, 100, 7, 1)
    floating = dtype.startswith("fp16")
    if floating:
        kind = np.float16 if dtype == "fp16->fp16" else np.float32
        right = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(kind)
    else:
        right = np.clip(a.astype(np.int64) @ b.T.astype(np.int64), -(2**31), 2**31 - 1)
        if convert is not None:
            top = 127 if dtype.endswith("8") else 32767
            right = np.clip(np.rint(right * convert.scale / 2**convert.shift), -top - 1, top).astype(np.int64)
    assert compare(dtype, a, b, convert, right).wrong == 0
    wrong = right.copy()
    step = np.spacing(np.max(np.abs(right))) if floating else 1
    step = np.maximum(step, 0.01).astype(kind) if floating else step
    wrong[4, 6] += step
    wrong[0, 0] -= step
    assert compare(dtype, a, b, convert, wrong).wrong == 2
    if floating:
        wrong[2, 2] = np.nan
        assert compare(dtype, a, b, convert, wrong).wrong == 3


@pytest.mark.parametrize("dtype", ["int8", "int4", "int8->int8", "int16"])
def test_operands_cover_the_range_and_narrow_results_are_not_all_saturated(dtype):
    a, b, convert = operands(dtype, 40, 300, 40, 0)
    low, high = {"int4": (-8, 7), "int16": (-32768, 32767)}.get(dtype, (-128, 127))
    assert low <= min(a.min(), b.min()) and max(a.max(), b.max()) <= high
    assert a.min() < low * 0.98 and a.max() > high * 0.98
    if convert is not None:
        total = a.astype(np.int64) @ b.T.astype(np.int64)
        inside = np.abs(np.rint(total * convert.scale / 2**convert.shift)) < 127
        assert 0.5 < inside.mean() < 1


@given(
    scale=st.integers(0, 0x7FFF),
    shift=st.integers(0, 31),
    offset=st.integers(-100, 100),
    total=st.integers(-(2**31), 2**31 - 1),
)
def test_the_narrow_reference_rounds_half_to_even(scale, shift, offset, total):
    from fractions import Fraction

    from orkbench_tui.ops.matmul_reference import _narrowed

    convert = OutputConversion(scale, shift, offset)
    exact = round(Fraction(total * scale, 2**shift)) + offset
    found = _narrowed(np.array([total], np.int64), convert, -128, 127)
    assert found[0] == max(-128, min(127, exact))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"m": 0}, "M = 0: allowed: 1 to 65536"),
        ({"k": 65537}, "K = 65537"),
        ({"n": 262145}, "N = 262145"),
        ({"m": 65536, "k": 65536, "n": 65536}, "operands and result take"),
        ({"dtype": "int7"}, "dtype 'int7': allowed: int8, int8->int8"),
        ({"path": "fast"}, "path 'fast': allowed: blocking, chain, stream, doorbell, compiled"),
    ],
)
def test_what_cannot_be_checked_is_said_before_anything_runs(npu, arguments, match):
    with pytest.raises(UsageError, match=match):
        exact_matmul(npu, **{"m": 1, "k": 32, "n": 32, **arguments})
    assert npu.counters.submits == 0 and npu.memory.used_bytes(0) == 0


def test_a_chain_beyond_the_envelope_is_the_guard_s_refusal(npu):
    with pytest.raises(RefusedError, match="GRD-10"):
        exact_matmul(npu, 2, 5000, 32, path="chain")
    assert npu.counters.submits == 0


def test_without_a_check_nothing_is_compared(npu):
    result = exact_matmul(npu, 4, 64, 64, check=False)
    assert result.wrong is None and result.submits > 0


@pytest.mark.parametrize("shape", [(65536, 65536, 262144), (8192, 16384, 8193), (65536, 1, 262144)])
def test_what_this_machine_should_not_be_asked_is_refused_up_front(shape):
    with pytest.raises(UsageError, match="allowed: up to"):
        exact_matmul(None, *shape)


def test_too_little_memory_is_told_with_both_figures(monkeypatch, tmp_path):
    from orkbench_tui import host_memory
    from orkbench_tui.errors import NoMemoryError

    monkeypatch.setattr(host_memory, "available_bytes", lambda: 50 << 20)
    with pytest.raises(NoMemoryError, match=r"needed, 50 MiB available"):
        exact_matmul(None, 2048, 2048, 2048)
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:     1024 kB\n")
    monkeypatch.undo()
    assert host_memory.available_bytes(meminfo) == 1 << 20
    assert host_memory.available_bytes(tmp_path / "none") is None


@pytest.mark.parametrize("dtype", ["int8", "fp16", "int16"])
def test_blocks_of_rows_give_the_same_comparison(monkeypatch, dtype):
    from orkbench_tui.ops import matmul_reference

    a, b, convert = operands(dtype, 37, 2500, 19, 3)
    c = (a.astype(np.float64) @ b.astype(np.float64).T).clip(-(2.0**31), 2.0**31 - 1)
    c[5, 5] += 1e6
    whole = compare(dtype, a, b, convert, c)
    monkeypatch.setattr(matmul_reference, "_BLOCK_WORK", 1)
    assert compare(dtype, a, b, convert, c) == whole and whole.wrong == 1
