"""Arrays in NPU memory: found by address, used in place, with exactly the syncs that takes."""

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.dma_memory import array_address
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import FORMATS, INT4, INT8
from orkbench_tui.driver.memory import Memory
from tests.driver.path_operands import FORMAT_NAMES, NARROW, matches, random_matrix

ROWS, K, N = 6, 512, 64


@pytest.fixture
def random():
    return np.random.default_rng(3)


def _loaded(npu, random, format=INT8):
    w = random_matrix(format, (N, K), random)
    return npu.load(format, "w", w), w


def test_a_range_is_found_only_when_it_lies_wholly_inside(npu):
    first, second = npu.dma_array((4096,), np.int8), npu.dma_array((100,), np.int8)
    find = npu.context.dma.find_range
    start = array_address(first)
    assert find(start, 4096, "x").offset == 0
    assert (find(start + 64, 32, "x").offset, find(start + 64, 32, "x").size) == (64, 32)
    assert find(start - 64, 64, "x") is None and find(start + 4096, 1, "x") is None
    assert npu.context.dma.find(np.zeros(8), "x") is None
    for address, size in ((start - 1, 2), (start + 4095, 2), (start - 8, 1 << 16)):
        with pytest.raises(OperandError, match="x lies partly in NPU memory"):
            find(address, size, "x")
    with pytest.raises(OperandError, match="partly"):
        find(array_address(second), 101, "x")


def test_arrays_are_zeros_of_what_was_asked_for(npu):
    for cached in (True, False):
        array = npu.dma_array((3, 5), np.float16, cached=cached)
        assert array.shape == (3, 5) and array.dtype == np.float16 and not array.any()
        assert array.flags.c_contiguous and array.flags.writeable


@pytest.mark.parametrize("shape", [(0,), (3, 0), (-1, 4)])
def test_empty_arrays_are_refused(npu, shape):
    with pytest.raises(OperandError, match="at least 1"):
        npu.dma_array(shape, np.int8)


def test_a_freed_array_is_no_npu_memory_any_more(npu, random):
    weight, _ = _loaded(npu, random)
    a = npu.dma_array((ROWS, K), np.int8)
    used = npu.memory.used_bytes(0)
    matmul = npu.matmul([weight], ROWS, a=a)
    npu.free_array(a)
    with pytest.raises(LifetimeError, match="was freed"):
        matmul.run()
    assert npu.counters.submits == 0
    with pytest.raises(OperandError, match="no array of this NPU"):
        npu.free_array(a)
    assert npu.memory.used_bytes(0) < used + (8 << 20)


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.parametrize("cached", [True, False])
def test_operands_in_npu_memory_give_the_same(npu, random, name, cached):
    format = FORMATS[name]
    weight, w = _loaded(npu, random, format)
    a = npu.dma_array((ROWS, K), format.operand, cached=cached)
    out = npu.dma_array((ROWS, N), format.total, cached=cached)
    a[:] = random_matrix(format, (ROWS, K), random)
    matmul = npu.matmul([weight], ROWS, NARROW.get(name), a=a, outputs=[out])
    chain = npu.chain([ChainTask(weight, ROWS, a=a, output=out, convert=NARROW.get(name))])
    for run in (matmul.run, lambda: matmul.run_on(2), chain.run):
        out[:] = 1
        run()
        assert matches(format, out, np.array(a), w)


def test_in_place_operands_are_not_copied(npu, random):
    weight, _ = _loaded(npu, random)
    a, out = npu.dma_array((ROWS, K), np.int8), npu.dma_array((ROWS, N), np.int32)
    matmul = npu.matmul([weight], ROWS, a=a, outputs=[out])
    assert matmul.a is a and matmul.outputs[0] is out
    assert not matmul._activation.moved and matmul._gathered == [None]
    host = npu.matmul([weight], ROWS, a=np.zeros((ROWS, K), np.int8))
    assert host._activation.moved
    # A cube has to be packed: it cannot be read where it is.
    four = npu.load(INT4, "four", random_matrix(INT4, (N, K), random))
    assert npu.matmul([four], ROWS, a=npu.dma_array((ROWS, K), np.int8))._activation.moved


def test_zero_copy_takes_exactly_these_syncs_in_this_order(npu, random, monkeypatch):
    weight, _ = _loaded(npu, random)
    a, out = npu.dma_array((ROWS, K), np.int8), npu.dma_array((ROWS, N), np.int32)
    matmul = npu.matmul([weight], ROWS, a=a, outputs=[out])
    matmul.run()
    seen = []
    dma = npu.context.dma
    names = {dma.find(a, "a"): "A", dma.find(out, "c"): "C"}
    sync, run_on = Memory.sync, type(npu.context.submitter).run_on
    monkeypatch.setattr(
        Memory,
        "sync",
        lambda self, part, way: (seen.append((names.get(part, part), int(way))), sync(self, part, way))[1],
    )
    monkeypatch.setattr(
        type(npu.context.submitter),
        "run_on",
        lambda self, core, job: (seen.append("submit"), run_on(self, core, job))[1],
    )
    matmul.run()
    to, back = int(uapi.SyncFlag.TO_DEVICE), int(uapi.SyncFlag.FROM_DEVICE)
    assert seen == [("A", to), ("C", to), "submit", ("C", back)]


@pytest.mark.parametrize(("which", "way"), [("a", uapi.SyncFlag.TO_DEVICE), ("c", uapi.SyncFlag.FROM_DEVICE)])
def test_each_bracket_of_zero_copy_is_needed(npu, random, monkeypatch, which, way):
    weight, w = _loaded(npu, random)
    a, out = npu.dma_array((ROWS, K), np.int8), npu.dma_array((ROWS, N), np.int32)
    matmul = npu.matmul([weight], ROWS, a=a, outputs=[out])
    matmul.run()
    part = npu.context.dma.find({"a": a, "c": out}[which], which)
    sync = Memory.sync
    monkeypatch.setattr(
        Memory,
        "sync",
        lambda self, p, wanted: None if p == part and wanted == way else sync(self, p, wanted),
    )
    a[:] = random_matrix(INT8, (ROWS, K), random)
    matmul.run()
    assert not matches(INT8, out, np.array(a), w)


def test_results_that_share_cache_lines_with_others_are_copied(npu, random):
    weight, w = _loaded(npu, random)
    room = npu.dma_array((1, ROWS * N + 16), np.int32)
    neighbours = np.arange(16, dtype=np.int32)
    for start, direct in ((0, True), (8, False), (16, True)):
        out = room.reshape(-1)[start : start + ROWS * N].reshape(ROWS, N)
        room.reshape(-1)[:] = 7
        matmul = npu.matmul([weight], ROWS, outputs=[out])
        assert (matmul._gathered[0] is None) is direct
        matmul.a[:] = a = random_matrix(INT8, (ROWS, K), random)
        matmul.run()
        assert matches(INT8, np.array(out), a, w)
        outside = np.delete(room.reshape(-1), slice(start, start + ROWS * N))
        assert (outside == 7).all()
    assert neighbours.size == 16


def test_an_activation_at_an_odd_place_is_copied(npu, random):
    weight, w = _loaded(npu, random)
    room = npu.dma_array((ROWS * K + 64,), np.int8)
    for start, moved in ((16, False), (8, True), (3, True)):
        a = room[start : start + ROWS * K].reshape(ROWS, K)
        a[:] = random_matrix(INT8, (ROWS, K), random)
        matmul = npu.matmul([weight], ROWS, a=a)
        assert matmul._activation.moved is moved
        matmul.run()
        assert matches(INT8, matmul.outputs[0], np.array(a), w)


def test_one_core_for_results_in_place_is_said_once(npu, random):
    weight, _ = _loaded(npu, random)
    out = npu.dma_array((ROWS, N), np.int32)
    for _ in range(3):
        matmul = npu.matmul([weight], ROWS, outputs=[out])
        matmul.run()
    assert npu.counters.core_submits == [3, 0, 0]
    assert [line[:6] for line in npu.notices] == ["GRD-23"]


def test_operands_in_another_domain_are_copied_or_refused(npu, random):
    w = random_matrix(INT8, (N, K), random)
    far = npu.load(INT8, "far", w, domain=2)
    a, out = npu.dma_array((ROWS, K), np.int8), npu.dma_array((ROWS, N), np.int32)
    a[:] = random_matrix(INT8, (ROWS, K), random)
    matmul = npu.matmul([far], ROWS, a=a, outputs=[out])
    matmul.run()
    assert matches(INT8, out, np.array(a), w)
    with pytest.raises(OperandError, match="lies in domain 0, the weight in 2"):
        npu.chain([ChainTask(far, ROWS, a=a)])
