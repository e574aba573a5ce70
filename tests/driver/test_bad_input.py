"""What a matmul does not take: typed errors with the value and the allowed range, and nothing submitted."""

import os

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT4, INT8, INT16
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import ExitCode, NoDeviceError, NoMemoryError, OrkError, RefusedError
from tests.driver.gated_board import FaultyDevice

SHAPE = (32, 64)


@pytest.fixture
def device(board):
    return FaultyDevice(board, lambda request, argument, nth: False)


@pytest.fixture
def npu(device):
    with Npu(device, timeout_ms=2000) as npu:
        yield npu
        assert device.submits == [], "something was submitted"


def _weight(npu, format=INT8, shape=(64, 512)):
    return npu.load(format, "w", np.ones(shape, format.operand))


@pytest.mark.parametrize("k", [31, 33, 48, 0, -32])
def test_tiles_of_a_misaligned_k(npu, k):
    with pytest.raises(OperandError, match=f"K = {k} and N = 32 must be positive multiples of 32 and 32"):
        npu.load_int8("w", np.zeros(max(k, 0) * 32, np.int8), k, 32)


@pytest.mark.parametrize(("name", "group"), [("int8", 32), ("fp16", 16), ("int16", 16), ("int4", 64)])
def test_tiles_of_a_misaligned_n(npu, name, group):
    format = FORMATS[name]
    n = group + 8
    with pytest.raises(OperandError, match=f"N = {n} must be positive multiples of 32 and {group}"):
        npu.load_tiles(format, "w", np.zeros(format.memory_bytes(n * 32), np.uint8), 32, n)


@pytest.mark.parametrize("name", FORMATS)
def test_weights_of_another_type(npu, name):
    format = FORMATS[name]
    other = np.float64 if format.operand is not np.float64 else np.int8
    with pytest.raises(OperandError, match=f"float64 array .* {name} takes a matrix of"):
        npu.load(format, "w", np.ones(SHAPE, other))


@pytest.mark.parametrize("shape", [(32,), (2, 32, 32), (0, 32), (32, 0)])
def test_weights_that_are_no_matrix(npu, shape):
    with pytest.raises(OperandError, match="takes a matrix"):
        npu.load(INT8, "w", np.zeros(shape, np.int8))


@pytest.mark.parametrize("code", [-9, 8, 127, -128])
def test_int4_codes_out_of_range(npu, code):
    w = np.zeros(SHAPE, np.int8)
    w[3, 5] = code
    with pytest.raises(OperandError, match=r"codes -?\d+ to \d+, int4 takes -8 to 7"):
        npu.load(INT4, "w", w)
    matmul = npu.matmul([_weight(npu, INT4)], 2)
    matmul.a[1, 1] = code
    with pytest.raises(OperandError, match="activation: codes"):
        matmul.run()
    a = np.zeros((1, 512), np.int8)
    a[0, 7] = code
    chain = npu.chain([ChainTask(_weight(npu, INT4), 1, a=a)])
    with pytest.raises(OperandError, match="activation: codes"):
        chain.run()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_fp16_that_is_not_finite(npu, value):
    w = np.zeros(SHAPE, np.float16)
    w[1, 3] = value
    with pytest.raises(OperandError, match=rf"weight w: {value} at element 67; allowed: finite numbers"):
        npu.load(FP16, "w", w)
    with pytest.raises(OperandError, match="weight t"):
        npu.load_tiles(FP16, "t", w[:16, :32].copy(), 32, 16)
    weight = _weight(npu, FP16)
    matmul = npu.matmul([weight], 3)
    matmul.a[2, 511] = value
    for run in (matmul.run, lambda: matmul.run_on(1)):
        with pytest.raises(OperandError, match=rf"activation: {value} at element 1535"):
            run()
    a = np.zeros((1, 512), np.float16)
    a[0, 0] = value
    with pytest.raises(OperandError, match="activation"):
        npu.chain([ChainTask(weight, 1, a=a)]).run()
    doorbell = npu.doorbell()
    doorbell.build([ChainTask(weight, 1, a=a)])
    with pytest.raises(OperandError, match="activation"):
        doorbell.begin()


def test_the_largest_fp16_is_finite(npu):
    npu.load(FP16, "w", np.full(SHAPE, 65504, np.float16))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((4, 1024), np.int8)[:, ::2],
        lambda: np.zeros((512, 4), np.int8).T,
        lambda: np.zeros((8, 512), np.int8)[::2],
        lambda: np.asfortranarray(np.zeros((4, 512), np.int8)),
    ],
    ids=["columns", "transposed", "rows", "fortran"],
)
def test_activations_that_are_not_contiguous(npu, make):
    weight = _weight(npu)
    with pytest.raises(OperandError, match=r"activation: strides .* not row after row; pass numpy.ascontig"):
        npu.matmul([weight], 4, a=make())
    with pytest.raises(OperandError, match="strides"):
        npu.chain([ChainTask(weight, 4, a=make())])


def test_activations_and_outputs_of_another_shape_or_type(npu):
    weight = _weight(npu)
    for a in (np.zeros((3, 512), np.int8), np.zeros((4, 511), np.int8), np.zeros((4, 512), np.int16)):
        with pytest.raises(OperandError, match=r"expected int8 \[4, 512\]"):
            npu.matmul([weight], 4, a=a)
    for out in (np.zeros((4, 63), np.int32), np.zeros((4, 64), np.int64), np.zeros(256, np.int32)):
        with pytest.raises(OperandError, match=r"output 0: .* expected int32 \[4, 64\]"):
            npu.matmul([weight], 4, outputs=[out])
    with pytest.raises(OperandError, match="2 outputs for 1 weights"):
        npu.matmul([weight], 4, outputs=[np.zeros((4, 64), np.int32)] * 2)
    with pytest.raises(OperandError, match="strides"):
        npu.matmul([weight], 4, outputs=[np.zeros((4, 128), np.int32)[:, ::2]])


def test_tiles_that_are_not_contiguous(npu):
    with pytest.raises(OperandError, match="strides"):
        npu.load_int8("w", np.zeros(2048, np.int8)[::2], 32, 32)


@pytest.mark.parametrize("rows", [0, -1])
def test_no_rows(npu, rows):
    with pytest.raises(OperandError, match=f"1 weights and {rows} rows; both must be at least 1"):
        npu.matmul([_weight(npu)], rows)


def test_shapes_that_fit_no_window(npu):
    weight = _weight(npu)
    with pytest.raises(NoMemoryError, match=r"domain 0 cannot take \d+ more bytes: \d+ of \d+ usable bytes"):
        npu.matmul([weight], 1 << 26)
    with pytest.raises(RefusedError, match="K = 8224 as int16: a program takes K up to 8192"):
        npu.load(INT16, "w", np.zeros((16, 8224), np.int16))


def test_weights_that_differ(npu):
    with pytest.raises(OperandError, match=r"share their format, not .*int8.*fp16"):
        npu.matmul([_weight(npu), _weight(npu, FP16)], 1)
    with pytest.raises(OperandError, match="share K"):
        npu.matmul([_weight(npu), _weight(npu, shape=(64, 96))], 1)


def test_freed_weights_arrays_and_programs(npu):
    weight, kept = _weight(npu), _weight(npu)
    matmul = npu.matmul([kept, weight], 2)
    npu.free(weight)
    npu.free(weight)
    with pytest.raises(
        LifetimeError, match=r"running a matmul: NPU memory at 0x[0-9a-f]+ .* was freed; load"
    ):
        matmul.run()
    with pytest.raises(LifetimeError, match="compiling a matmul"):
        npu.matmul([weight], 2)
    closed = npu.matmul([kept], 2)
    closed.close()
    with pytest.raises(LifetimeError, match="was closed"):
        closed.run()


def test_a_closed_npu(device):
    with Npu(device) as npu:
        weight = _weight(npu)
        matmul = npu.matmul([weight], 2)
        chain = npu.chain([ChainTask(weight, 2)])
    calls = [
        matmul.run,
        chain.run,
        lambda: _weight(npu),
        lambda: npu.load_int8("w", bytes(1024), 32, 32),
        lambda: npu.matmul([weight], 2),
        lambda: npu.chain([ChainTask(weight, 2)]),
        lambda: npu.compile(weight, np.zeros((1, 512), np.int8)),
        lambda: npu.dma_array((4,), np.int8),
        lambda: npu.resident_kv(32, 32),
        lambda: npu.doorbell().build([ChainTask(weight, 2)]),
    ]
    counts = dict(device.counts)
    for call in calls:
        with pytest.raises(NoDeviceError, match="this NPU was closed; open it again"):
            call()
    assert device.counts == counts, "a closed device was asked"
    npu.close()


def test_a_forked_process_does_not_use_its_parent_s_npu(npu):
    matmul = npu.matmul([_weight(npu)], 2)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            matmul.run()
        except NoDeviceError as error:
            code = 0 if f"belongs to process {os.getppid()}" in error.line() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_every_refusal_is_typed_and_one_line(npu):
    for call in (
        lambda: npu.load(INT8, "w", np.zeros((2, 2))),
        lambda: npu.matmul([], 1),
        lambda: npu.chain([]),
        lambda: npu.dma_array((0,), np.int8),
        lambda: npu.resident_kv(1, 1),
    ):
        with pytest.raises(OrkError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert caught.value.exit_code == ExitCode.REFUSED and "\n" not in caught.value.line()
