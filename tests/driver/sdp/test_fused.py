"""Matmuls that finish their result on the way out, exact against the published arithmetic."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.regcmd.disassemble import disassemble
from orkbench_tui.driver.regcmd.operation import read_operations
from orkbench_tui.driver.regcmd.programs import MatmulShape, OutputConversion
from orkbench_tui.driver.regcmd.words import decode, link
from orkbench_tui.driver.sdp.dead_forms import DEAD_FORMS, Form
from orkbench_tui.driver.sdp.fused_programs import (
    FUSED_ORDER,
    OPERAND_OPS,
    PerChannelRequant,
    activated_program,
    biased_program,
    operand_program,
    requantized_program,
)
from orkbench_tui.driver.sdp.lut import accumulator_lut
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import RefusedError
from tests.driver.sdp import reference as ref

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHAPE = MatmulShape(rows=16, k=64, n=64, a=0x10000, b=0x20000, c=0x30000, a_pitch=64, c_pitch=64)


def written(program):
    return {decode(int(word))[1]: decode(int(word))[2] for word in program.body if word}


def int8_operands(rows, k, n, seed=0):
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (rows, k)).astype(np.int8)
    w = random.integers(-128, 128, (n, k)).astype(np.int8)
    return a, w, a.astype(np.int64) @ w.T.astype(np.int64)


def requant(n, seed=0):
    random = np.random.default_rng(seed)
    bias = random.integers(-50000, 50000, n).astype(np.int32)
    return PerChannelRequant(bias, random.integers(0, 0x8000, n), OutputConversion(0x57A7, 26, -7))


def test_the_words_of_a_requantization_per_channel_are_the_vendors():
    words = written(requantized_program(RK3588, SHAPE, requant(64), 0x40000))
    expected = {
        0x4040: 0x20140, 0x4048: 0xE01, 0x4010: 0xE0, 0x4050: 0x125, 0x501C: 0x0E, 0x5020: 0x40000, 0x5044: 0x7810,
        0x4060: 0x53, 0x4070: 0x383, 0x4080: 0xFFFFFFF9, 0x4084: 0x57A7, 0x4088: 26, 0x40C0: 0x20,
    }  # fmt: skip
    assert {address: words[address] for address in expected} == expected
    assert len(FUSED_ORDER) == 126


def test_the_words_of_a_bias_alone():
    words = written(biased_program(RK3588, SHAPE, 0x40000))
    assert (words[0x4040], words[0x501C], words[0x5020], words[0x5044]) == (0x20150, 2, 0x40000, 0x7810)


def test_the_words_of_a_fused_table():
    use = accumulator_lut(FUNCTIONS["silu"], acc_scale=1e-3, reach=8.0, out_scale=0.06)
    words = written(activated_program(RK3588, SHAPE, use))
    assert (words[0x4004], words[0x5004], words[0x4060], words[0x4070]) == (0x30, 0x30, 0x20040, 0x302)
    assert words[0x4010] >> 10 & 0x3F == words[0x4068] >> 8 & 0x3F == use.bn.shift
    assert words[0x5044] == 0x7810


@pytest.mark.parametrize(
    ("op", "word"), [("mul", 0x108003C4), ("add", 0x108202C0), ("max", 0x108002C0), ("min", 0x108102C0)]
)
def test_the_words_of_a_fused_operand(op, word):
    words = written(operand_program(RK3588, SHAPE, op, 0x40000))
    expected = {
        0x4070: word, 0x4078: 1, 0x5034: 0x40000008, 0x5044: 0x17D40, 0x5018: 0x40000, 0x5038: 0x40100,
        0x5040: 0x100, 0x504C: 0x100, 0x506C: 0x100, 0x500C: 0, 0x5010: 15, 0x5014: 63, 0x5068: 0x01010101,
    }  # fmt: skip
    assert {address: words[address] for address in expected} == expected


def test_the_program_reader_finds_no_problem():
    use = accumulator_lut(FUNCTIONS["silu"], acc_scale=1e-3, reach=8.0, out_scale=0.06)
    for program in (
        requantized_program(RK3588, SHAPE, requant(64), 0x40000),
        biased_program(RK3588, SHAPE, 0x40000),
        activated_program(RK3588, SHAPE, use),
        operand_program(RK3588, SHAPE, "add", 0x40000),
    ):
        [words] = link([program.body], [program.enable], [0x1000])
        [operation] = read_operations(disassemble(words))
        assert (operation.m, operation.k, operation.n, operation.enable) == (16, 64, 64, 0x1D)
        assert not [problem for problem in operation.problems if problem.severity == "error"]


@QUICK
@given(rows=st.integers(1, 40), k=st.integers(1, 5), n=st.integers(1, 4), seed=st.integers(0, 999))
def test_requantization_per_channel_is_exact(npu, rows, k, n, seed):
    a, w, acc = int8_operands(rows, 32 * k, 32 * n, seed)
    parameters = requant(32 * n, seed)
    inner = ref.rounded_shift((acc + parameters.bias) * parameters.factors.astype(object), 14)
    expected = ref.converted(inner, "int8", 0x57A7, 26, -7)
    weight = npu.load(INT8, "w", w)
    with npu.sdp.requantized(weight, rows, parameters) as matmul:
        np.testing.assert_array_equal(matmul.run(a), expected)
    npu.memory.free(weight.buffer)


def test_requantization_by_real_factors_is_within_a_code(npu):
    a, w, acc = int8_operands(33, 96, 64)
    factors = np.random.default_rng(1).uniform(1e-4, 1e-3, 64)
    bias = np.arange(-3200, 3200, 100, dtype=np.int32)
    matmul = npu.sdp.requantized(npu.load(INT8, "w", w), 33, PerChannelRequant.from_factors(bias, factors, 3))
    exact = np.clip((acc + bias) * factors + 3, -128, 127)
    assert np.abs(matmul.run(a) - exact).max() <= 0.55


@QUICK
@given(rows=st.integers(1, 20), n=st.integers(1, 3), seed=st.integers(0, 999))
def test_a_bias_is_added_exactly(npu, rows, n, seed):
    a, w, acc = int8_operands(rows, 64, 32 * n, seed)
    bias = np.random.default_rng(seed).integers(-(2**20), 2**20, 32 * n).astype(np.int32)
    weight = npu.load(INT8, "w", w)
    with npu.sdp.biased(weight, rows, bias) as matmul:
        np.testing.assert_array_equal(matmul.run(a), acc + bias)
    npu.memory.free(weight.buffer)


def test_rows_beyond_one_program_are_tiled(npu):
    a, w, acc = int8_operands(700, 512, 64)
    bias = np.arange(64, dtype=np.int32)
    with npu.sdp.biased(npu.load(INT8, "w", w), 700, bias) as matmul:
        assert matmul.tasks > 1
        np.testing.assert_array_equal(matmul.run(a), acc + bias)


REAL = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", REAL)
def test_an_activation_behind_a_matmul_is_within_a_code(npu, name):
    a, w, acc = int8_operands(33, 96, 64)
    scale = 8.0 / np.abs(acc).max()
    exact = REAL[name](acc * scale)
    out_scale = float(np.abs(exact).max()) / 127
    matmul = npu.sdp.activated(
        npu.load(INT8, "w", w), 33, name, acc_scale=scale, out_scale=out_scale, reach=8.0
    )
    assert np.abs(matmul.run(a) - exact / out_scale).max() <= 0.6
    matmul.run(a)
    assert npu.sdp.table_loads == 1


COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("op", OPERAND_OPS)
@pytest.mark.parametrize("rows", [1, 11, 12, 40])
def test_an_fp16_operand_behind_a_matmul(npu, op, rows):
    random = np.random.default_rng(rows)
    a, w, operand = (random.standard_normal(s).astype(np.float16) for s in ((rows, 64), (96, 64), (rows, 96)))
    product = a.astype(np.float64) @ w.T.astype(np.float64)
    expected = COMBINED[op](product, operand.astype(np.float64))
    with npu.sdp.with_operand(npu.load(FP16, "w", w), rows, op) as matmul:
        seen = matmul.run(a, operand)
    assert seen.dtype == np.float16
    # fp32 sums of 64 products, then one rounding to fp16.
    np.testing.assert_allclose(seen, expected, rtol=2.0**-10, atol=1e-4)


def test_tiled_operands_meet_their_rows(npu):
    random = np.random.default_rng(0)
    rows = 200
    a, w = np.zeros((rows, 1024), np.float16), np.zeros((32, 1024), np.float16)
    operand = random.standard_normal((rows, 32)).astype(np.float16)
    with npu.sdp.with_operand(npu.load(FP16, "w", w), rows, "add") as matmul:
        assert matmul.tasks > 1
        np.testing.assert_array_equal(matmul.run(a, operand), operand)


@pytest.fixture
def weights(npu):
    zeros = np.zeros((64, 64))
    return {
        "int8": npu.load(INT8, "int8 weight", zeros.astype(np.int8)),
        "fp16": npu.load(FP16, "fp16 weight", zeros.astype(np.float16)),
        "int4": npu.load(INT4, "int4 weight", zeros.astype(np.int8)),
        "split": npu.load(INT8, "split weight", np.zeros((32, 16384), np.int8)),
    }


TABLE = {"acc_scale": 1.0, "out_scale": 1.0, "reach": 1.0}
DEAD = {
    Form.FUSED_MULTIPLY: lambda s, w: s.with_operand(w["int8"], 1, "mul"),
    Form.FUSED_FP16_TABLE: lambda s, w: s.activated(w["fp16"], 1, "silu", **TABLE),
    Form.FUSED_FP16_OUTPUT: lambda s, w: s.activated(w["int8"], 1, "silu", out="fp16", **TABLE),
    Form.PER_CHANNEL_INT16: lambda s, w: s.compile("mul_perchannel", "int16", 1, 8),
}


@pytest.mark.parametrize("form", Form)
def test_dead_forms_are_refused_with_their_evidence(npu, weights, form):
    before = npu.counters.submits
    with pytest.raises(RefusedError) as caught:
        DEAD[form](npu.sdp, weights)
    row = DEAD_FORMS[form]
    line = caught.value.line()
    assert line.startswith(str(form)) and row.evidence in line and row.instead in line
    assert npu.counters.submits == before


BAD = {
    "split K": (lambda s, w: s.biased(w["split"], 1, np.zeros(32, np.int32)), "K = 16384 is split"),
    "rows": (lambda s, w: s.biased(w["int8"], 0, np.zeros(64, np.int32)), "0 rows"),
    "fp16 bias": (lambda s, w: s.biased(w["fp16"], 1, np.zeros(64, np.int32)), "expected int8"),
    "bias width": (lambda s, w: s.biased(w["int8"], 1, np.zeros(32, np.int32)), "expected int32 \\(64,\\)"),
    "bias type": (lambda s, w: s.biased(w["int8"], 1, np.zeros(64, np.int64)), "int64"),
    "requant width": (lambda s, w: s.requantized(w["int8"], 1, requant(32)), "32 channels for 64 columns"),
    "operand op": (lambda s, w: s.with_operand(w["fp16"], 1, "div"), "there are add"),
    "operand int4": (lambda s, w: s.with_operand(w["int4"], 1, "add"), "is for fp16"),
    "function": (lambda s, w: s.activated(w["int8"], 1, "rsqrt", **TABLE), "behind a matmul"),
    "reach": (lambda s, w: s.activated(w["int8"], 1, "silu", **{**TABLE, "reach": 0.0}), "reach = 0"),
    "factors": (
        lambda s, w: PerChannelRequant(np.zeros(1, np.int32), np.array([0x8000]), OutputConversion()),
        "allowed: 0 to 32767",
    ),
    "real factors": (
        lambda s, w: PerChannelRequant.from_factors(np.zeros(1, np.int32), np.zeros(1)),
        "positive",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(npu, weights, case):
    call, message = BAD[case]
    with pytest.raises(RefusedError, match=message):
        call(npu.sdp, weights)


def test_wrong_operands_and_closed_matmuls(npu, weights):
    matmul = npu.sdp.with_operand(weights["fp16"], 2, "add")
    a, operand = np.zeros((2, 64), np.float16), np.zeros((2, 64), np.float16)
    inf = np.full((2, 64), np.inf, np.float16)
    for arguments in ((a,), (a[:1], operand), (a, operand.astype(np.float32)), (inf, operand), (a, inf)):
        with pytest.raises(RefusedError):
            matmul.run(*arguments)
    matmul.close()
    with pytest.raises(LifetimeError):
        matmul.run(a, operand)
    other = npu.sdp.with_operand(weights["fp16"], 2, "add")
    npu.memory.free(weights["fp16"].buffer)
    with pytest.raises(LifetimeError, match="freed"):
        other.run(a, operand)
