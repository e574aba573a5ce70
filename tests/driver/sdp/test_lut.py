"""Function tables: the vendor's constants, the load program, accuracy against the real functions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd.disassemble import disassemble
from orkbench_tui.driver.regcmd.operation import read_operations
from orkbench_tui.driver.regcmd.registers import Enable
from orkbench_tui.driver.regcmd.words import amount, decode, link
from orkbench_tui.driver.sdp.formats import FORMATS
from orkbench_tui.driver.sdp.lut import accumulator_lut, fp16_lut, integer_lut
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS
from orkbench_tui.driver.sdp.lut_programs import LOAD_WORDS, lut_apply_body, lut_load_body
from orkbench_tui.driver.sdp.programs import SdpShape
from tests.driver.sdp import reference as ref

REAL = {
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0,
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "tanh": math.tanh,
    "exp": math.exp,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def real(name, x):
    return np.vectorize(REAL[name], otypes=[np.float64])(x)


def all_codes(dtype):
    low, high = ref.LIMITS[dtype]
    return np.arange(low, high + 1, dtype=ref.TYPES[dtype]).reshape(-1, 64)


def written(body):
    return {decode(int(word))[1]: decode(int(word))[2] for word in body if word}


def test_the_vendors_silu_constants_are_this_pipeline():
    """In scale 0.023056, out scale 0.011717: BN 16668 >> 8 with zero 2, result 0x7ad3 >> 21 minus 104."""
    steps = np.arange(513)
    le = np.rint(5692 * real("silu", (steps - 512) * 32 / 2824))
    lo = np.rint(5692 * real("silu", steps * 32 / 2824))
    codes = np.arange(-128, 128)
    x = ref.rounded_shift((codes - 2) * 16668, 8)
    seen = ref.converted(ref.looked_up(le, lo, x), "int8", 0x7AD3, 21, -104)
    exact = real("silu", (codes - 2) * 0.023056) / 0.011717 - 104
    assert np.abs(seen - np.clip(exact, -128, 127)).max() <= 0.51

    ours = integer_lut(
        FUNCTIONS["silu"], FORMATS["int8"], in_scale=0.023056, out_scale=0.011717, in_zero=2, out_zero=-104
    )
    units = ours.bn.factor / 2.0**ours.bn.shift / 0.023056
    assert ours.bn.alu == -2 * ours.bn.factor
    assert math.isclose(units, ours.lut.index_units, rel_tol=1e-4)


def test_an_applied_table_has_the_captured_words():
    use = integer_lut(FUNCTIONS["silu"], FORMATS["int8"], in_scale=0.02, out_scale=0.01)
    words = written(lut_apply_body(FORMATS["int8"], SdpShape(4, 64, 0x1000, 0x2000), use))
    captured = {
        0x4004: 0x30, 0x5004: 0x30, 0x4040: 0x53, 0x4060: 0x20040, 0x4070: 0x302, 0x4108: 0x68, 0x410C: 0x50500,
        0x4110: 0xFFFFC000, 0x4114: 0, 0x4118: 0, 0x411C: 0x4000, 0x5034: 1, 0x5038: 0, 0x5040: 0, 0x5044: 0x7801,
    }  # fmt: skip
    assert {address: words[address] for address in captured} == captured
    assert words[0x4068] == use.bn.factor << 16 | use.bn.shift << 8
    assert words[0x4010] == use.bn.shift << 10
    # The overflow slope is one real unit per real unit.
    scale, shift = words[0x4128] >> 16, words[0x412C] >> 5 & 31
    assert math.isclose(scale / 2**shift, use.lut.value_units / use.lut.index_units, rel_tol=1e-4)


def test_an_fp16_table_has_the_published_words():
    words = written(lut_apply_body(FORMATS["fp16"], SdpShape(4, 64, 0, 0), fp16_lut(FUNCTIONS["sigmoid"])))
    published = {
        0x4010: 0x48000002, 0x4060: 0x20040, 0x4064: 0x80000000, 0x4070: 0x300, 0x4080: 1, 0x4084: 0x10001,
        0x4088: 0x8000F000, 0x5044: 0x17849,
    }  # fmt: skip
    assert {address: words[address] for address in published} == published
    assert words[0x4068] == int(np.float16(16384 / 12).view(np.uint16)) << 16


def test_the_load_program_writes_both_tables_behind_a_dummy_copy():
    use = integer_lut(FUNCTIONS["tanh"], FORMATS["int8"], in_scale=0.02, out_scale=0.01)
    body = lut_load_body(use.lut, 0x4000)
    assert LOAD_WORDS == 1097 and len(body) == 1098
    words = [decode(int(word))[1:] for word in body[:LOAD_WORDS]]
    dummy = dict(words[:69])
    expected = {
        0x400C: 0x1E5, 0x4010: 0, 0x4024: 0x10, 0x4030: 0, 0x403C: 0xF000F, 0x4040: 0x53, 0x4060: 0x53, 0x4050: 2,
        0x4058: 0xF, 0x405C: 0, 0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x40C0: 0x10, 0x5014: 0xF, 0x5034: 1,
        0x5044: 0x7801, 0x4020: 0x4000, 0x5018: 0x4000,
    }  # fmt: skip
    assert {address: dummy[address] for address in expected} == expected
    assert words[69] == (0x4100, 0x20000) and words[69 + 514] == (0x4100, 0x30000)
    entries = [value for address, value in words[69:] if address == 0x4104]
    assert entries == [int(e) & 0xFFFF for half in (use.lut.le, use.lut.lo) for e in half.entries]
    assert amount(LOAD_WORDS) == 550
    [program] = link([body], [int(Enable.SDP)], [0x1000])
    [operation] = read_operations(disassemble(program))
    assert operation.op == "lut-load"
    assert not [problem for problem in operation.problems if problem.severity == "error"]


# Largest error in codes over every input code, half a code of rounding included; range 6, results full scale.
ACCURACY = {
    ("silu", "int8"): 0.51, ("gelu", "int8"): 0.51, ("sigmoid", "int8"): 0.51, ("tanh", "int8"): 0.51,
    ("exp", "int8"): 0.51, ("rsqrt", "int8"): 0.51, ("silu", "int16"): 3.2, ("gelu", "int16"): 3.0,
    ("sigmoid", "int16"): 3.2, ("tanh", "int16"): 7.2, ("exp", "int16"): 6.5, ("rsqrt", "int16"): 1.6,
}  # fmt: skip


@pytest.mark.parametrize("key", ACCURACY, ids="-".join)
def test_every_code_is_close_to_the_real_function(npu, key):
    name, dtype = key
    codes = all_codes(dtype)
    high = ref.LIMITS[dtype][1]
    in_scale = 6.0 / high
    x = codes.astype(np.float64) * in_scale
    if name == "rsqrt":
        x = np.maximum(x, in_scale)
    exact = real(name, x)
    out_scale = float(np.abs(exact).max()) / high
    seen = npu.sdp.activate(name, codes, in_scale=in_scale, out_scale=out_scale)
    assert np.abs(seen - exact / out_scale).max() <= ACCURACY[key]


@pytest.mark.parametrize("name", ["silu", "gelu", "sigmoid", "tanh", "exp", "rsqrt"])
@pytest.mark.parametrize("width", [0.25, 3.0, 40.0])
def test_int8_is_within_a_code_at_any_scale(npu, name, width):
    codes, in_scale = all_codes("int8"), width / 127
    exact = real(name, np.maximum(codes, 1) * in_scale if name == "rsqrt" else codes * in_scale)
    # Results of exp span many powers of ten; codes are given to what stays below 1000.
    out_scale = min(float(np.abs(exact).max()), 1000.0) / 127
    seen = npu.sdp.activate(name, codes, in_scale=in_scale, out_scale=out_scale)
    assert np.abs(seen - np.clip(exact / out_scale, -128, 127)).max() <= 1.0


@pytest.mark.parametrize(("zero", "out_zero"), [(5, -104), (-60, 20)])
def test_zero_points(npu, zero, out_zero):
    codes = all_codes("int8")
    exact = real("silu", (codes - float(zero)) * 0.03) / 0.02 + out_zero
    seen = npu.sdp.activate("silu", codes, in_scale=0.03, out_scale=0.02, in_zero=zero, out_zero=out_zero)
    assert np.abs(seen - np.clip(exact, -128, 127)).max() <= 0.6


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_biased_exp_is_relative_to_the_largest_code(npu, dtype):
    codes = ref.extremes(dtype, (3, 64), seed=4)
    high = ref.LIMITS[dtype][1]
    seen = npu.sdp.exp(codes, in_scale=8.0 / high, out_scale=1.0 / high, biased=True)
    exact = np.exp((codes.astype(float) - codes.max()) * 8.0 / high) * high
    assert np.abs(seen - exact).max() <= (0.6 if dtype == "int8" else 6.5)


# Largest error of fp16 over |x| <= 16 (exp: -16 to 0, rsqrt: 0.25 to 66), absolute or relative.
FP16_ACCURACY = {
    "sigmoid": (5e-4, 0), "tanh": (5e-4, 0), "exp": (7e-4, 0), "silu": (2e-3, 2.0**-10), "gelu": (1e-3, 2.0**-10),
    "rsqrt": (0, 8e-3),
}  # fmt: skip


@pytest.mark.parametrize("name", FP16_ACCURACY)
def test_fp16_is_close_to_the_real_function(npu, name):
    x = np.linspace(-16, 16, 4096).astype(np.float16)
    if name == "exp":
        x = -np.abs(x)
    if name == "rsqrt":
        x = np.linspace(0.25, 66, 4096).astype(np.float16)
    x = x.reshape(64, 64)
    exact = real(name, x.astype(np.float64))
    absolute, relative = FP16_ACCURACY[name]
    seen = npu.sdp.activate(name, x)
    assert seen.dtype == np.float16
    assert (np.abs(seen - exact) <= absolute + relative * np.abs(exact)).all()


def test_fp16_tables_hold_no_zero():
    for name in ("sigmoid", "tanh", "exp", "rsqrt", "gaussian_cdf"):
        lut = fp16_lut(FUNCTIONS[name]).lut
        assert lut.le.entries.all() and lut.lo.entries.all()


def test_fp16_tables_are_cut_to_what_one_program_may_have(npu):
    x = np.linspace(-4, 4, 3 * 32768, dtype=np.float32).astype(np.float16).reshape(-1, 64)
    seen = npu.sdp.activate("sigmoid", x)
    assert np.abs(seen - real("sigmoid", x.astype(np.float64))).max() <= 4e-4


@pytest.mark.parametrize("rows", [1, 7, 8176, 8177])
def test_a_table_at_every_row_count(npu, rows):
    codes = ref.extremes("int8", (rows, 16), seed=rows)
    seen = npu.sdp.silu(codes, in_scale=0.04, out_scale=0.04)
    assert np.abs(seen - np.clip(real("silu", codes * 0.04) / 0.04, -128, 127)).max() <= 0.6


@given(scale=st.floats(1e-4, 1.0), factor=st.floats(1.0, 1.05))
def test_near_scales_mostly_share_a_table(scale, factor):
    """A quarter octave is 19 percent, so one boundary at most lies between two scales 5 percent apart."""

    def key(value):
        return integer_lut(FUNCTIONS["silu"], FORMATS["int8"], in_scale=value, out_scale=0.1).lut.key

    assert len({key(scale * step) for step in np.linspace(1, factor, 4)}) <= 2


@given(
    name=st.sampled_from(list(FUNCTIONS)),
    dtype=st.sampled_from(["int8", "int16"]),
    in_scale=st.floats(1e-4, 1.0),
    out_scale=st.floats(1e-3, 1.0),
)
def test_tables_and_numbers_fit_their_registers(name, dtype, in_scale, out_scale):
    use = integer_lut(FUNCTIONS[name], FORMATS[dtype], in_scale=in_scale, out_scale=out_scale)
    body = lut_apply_body(FORMATS[dtype], SdpShape(1, 16, 0, 0), use)
    assert len(body) == 70
    assert use.lut.le.end <= use.lut.lo.start + 1
    for half in (use.lut.le, use.lut.lo):
        assert half.entries.shape == (513,) and half.entries.dtype == np.int16


BAD = {
    "scale": {"in_scale": 0.0, "out_scale": 1.0},
    "nan": {"in_scale": 1.0, "out_scale": math.nan},
    "zero": {"in_scale": 1.0, "out_scale": 1.0, "in_zero": 128},
}


@pytest.mark.parametrize("case", BAD)
def test_scales_that_mean_nothing(case):
    with pytest.raises(ValueError, match=r"allowed|holds"):
        integer_lut(FUNCTIONS["silu"], FORMATS["int8"], **BAD[case])


def test_functions_that_have_no_such_table(npu):
    with pytest.raises(ValueError, match="no table of its own"):
        fp16_lut(FUNCTIONS["silu"])
    with pytest.raises(ValueError, match="behind a matmul"):
        accumulator_lut(FUNCTIONS["exp"], acc_scale=1.0, reach=1.0, out_scale=1.0)
    with pytest.raises(ValueError, match="there are silu"):
        npu.sdp.activate("cosine", np.zeros((1, 16), np.int8))
    with pytest.raises(ValueError, match="tables exist for"):
        npu.sdp.activate("silu", np.zeros((1, 4), np.int32))
    with pytest.raises(ValueError, match="int8 and int16"):
        npu.sdp.activate("silu", np.zeros((1, 8), np.float16), in_scale=2.0)


def table_arithmetic(use, codes):
    """Index, interpolation and result of an int16 table, in plain int64; every shift rounds half to even."""
    x = ref.rounded_int64(codes.astype(np.int64) * use.bn.factor + use.bn.alu, use.bn.shift)
    entries = np.concatenate([use.lut.le.entries, use.lut.lo.entries[1:]]).astype(np.int64)
    inside = np.clip(x, -16384, 16384) + 16384
    index = np.minimum(inside >> 5, 1023)
    rest = inside - (index << 5)
    value = entries[index] + ((entries[index + 1] - entries[index]) * rest >> 5)
    return np.clip(ref.rounded_int64(value * use.convert.scale, use.convert.shift), -32768, 32767)


@pytest.mark.parametrize("rows", sorted({round(rows) for rows in np.geomspace(8, 8176, 37)}))
def test_exp_of_int16_is_exact_from_8_to_8176_rows(npu, rows):
    codes = ref.extremes("int16", (rows, 64), seed=rows)
    scales = {"in_scale": 8.0 / 32767, "out_scale": math.exp(8.0) / 32767}
    use = integer_lut(FUNCTIONS["exp"], FORMATS["int16"], **scales)
    np.testing.assert_array_equal(npu.sdp.exp(codes, **scales), table_arithmetic(use, codes))
