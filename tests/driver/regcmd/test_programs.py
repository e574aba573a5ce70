"""Register programs against captured and published words."""

import pytest

from orkbench_tui.driver.regcmd.programs import (
    BODY_WORDS,
    GEOMETRIES,
    INT8_TO_INT32,
    MTX_ORDER,
    PRECISIONS,
    RKNN_ORDER,
    MatmulShape,
    OutputConversion,
    data_banks,
    matmul_body,
    registers_for,
)
from orkbench_tui.driver.regcmd.registers import REGISTERS
from orkbench_tui.driver.regcmd.words import decode, encode_all
from orkbench_tui.driver.soc import RK3588

# A vendor capture: int8 M=4 K=32 N=32, row-major A and C. Registers not listed hold the constant.
RKNN_ROW_MAJOR = (
    "1040=b1 100c=20000000 1010=50 1020=10004 1024=1f0020 1028=1 102c=4 1030=400 1034=20 1038=1010020 1044=1 107c=2 "
    "1080=0 1084=10004 1088=20 3010=1 3014=30000 3018=1f 4010=80000000 4024=10 4034=3 4038=70007 403c=1f001f 4050=7fc "
    "4058=1f 405c=30000 4084=1 40c0=80 4004=e 1014=9 104c=b 1050=10000 105c=10000 1078=f000f 400c=1e4 4040=53 4060=53 "
    "4070=383 4078=1 4030=0 4020=0 1070=0 1110=0"
)
# The mtx form of int8 M=4 K=64 N=64 with A, B and C placed.
MTX_CUBE = (
    "1010=50 1020=10004 1024=3f0040 1030=1000 1034=40 1038=1010040 1040=b1 1044=1 1070=fff00000 107c=4 1080=0 1088=40 "
    "1110=ffc00000 3010=0 3014=30000 3018=3f 4010=80000000 4020=ff800000 4024=40 4034=3 4038=0 403c=3f003f 4050=7fe "
    "4058=3f 405c=30000 4084=1 40c0=200 100c=0 1028=1 102c=4 1084=10004"
)


def _values(text):
    return {int(a, 16): int(v, 16) for a, v in (item.split("=") for item in text.split())}


def _by_address(values):
    return {REGISTERS[name].address: value for name, value in values.items()}


def test_the_two_published_orders_have_their_published_lengths():
    assert len(MTX_ORDER) == 104
    assert len(RKNN_ORDER) == BODY_WORDS == 108
    doubled = {name for name in RKNN_ORDER if RKNN_ORDER.count(name) == 2}
    assert {REGISTERS[name].address for name in doubled} == {0x1040, 0x100C, 0x1100, 0x1104}


def test_row_major_program_equals_the_vendor_capture():
    ours = _by_address(registers_for(RK3588, INT8_TO_INT32, "row_major", MatmulShape(4, 32, 32, 0, 0, 0)))
    for address, value in _values(RKNN_ROW_MAJOR).items():
        assert ours.get(address, 0) == value, hex(address)


def test_cube_program_equals_the_mtx_words():
    shape = MatmulShape(4, 64, 64, 0xFFF00000, 0xFFC00000, 0xFF800000)
    ours = _by_address(registers_for(RK3588, INT8_TO_INT32, "cube", shape, output_bypass=True))
    for address, value in _values(MTX_CUBE).items():
        assert ours.get(address, 0) == value, hex(address)


def test_fold_slice_words():
    shape = MatmulShape(36, 3584, 64, 0, 0, 0, cube_rows=96)
    ours = _by_address(registers_for(RK3588, INT8_TO_INT32, "fold", shape))
    assert ours[0x1040] == 0x84
    assert ours[0x107C] == 96
    assert ours[0x1080] == 60
    assert ours[0x100C] == 0x20000000
    assert ours[0x4024] == 16 * 96


@pytest.mark.parametrize("geometry", sorted(GEOMETRIES))
def test_bodies_hold_each_register_of_the_order_with_its_own_block(geometry):
    body = matmul_body(RK3588, INT8_TO_INT32, geometry, MatmulShape(8, 64, 96, 0x1000, 0x2000, 0x3000))
    assert len(body) == BODY_WORDS
    for name, word in zip(RKNN_ORDER, body.tolist(), strict=True):
        block, register, _ = decode(word)
        assert register == REGISTERS[name].address
        assert block == REGISTERS[name].block


def test_row_pitches_reach_the_registers():
    ours = _by_address(
        registers_for(
            RK3588, INT8_TO_INT32, "row_major", MatmulShape(5, 64, 32, 0, 0, 0, a_pitch=256, c_pitch=96)
        )
    )
    assert ours[0x107C] == 256 // 16
    assert ours[0x4038] == (96 * 4 // 16 - 1) << 16 | (32 * 4 // 16 - 1)


@pytest.mark.parametrize(("rows", "k", "banks"), [(36, 3584, 4), (320, 1024, 10), (1, 32, 1), (64, 4096, 8)])
def test_banks_follow_the_capacity_rule(rows, k, banks):
    assert data_banks(RK3588, INT8_TO_INT32, rows, k) == banks


# name -> 0x100c low part, 0x3010, 0x4010, 0x4050 without OD_BYPASS, row-major 0x40c0, 0x4084
PUBLISHED_PRECISIONS = {
    "int8->int32": (0x000, 0x001, 0x80000000, 0x7FC, 0x80, 1),
    "int8->fp32": (0x000, 0x001, 0xA0000000, 0x7FC, 0x80, 1),
    "int8->int16": (0x000, 0x001, 0x20000000, 0x36C, 0x40, 1),
    "int8->fp16": (0x000, 0x001, 0x40000000, 0x36C, 0x40, 1),
    "int8->int8": (0x000, 0x001, 0x00000000, 0x124, 0x20, 1),
    "fp16->fp32": (0x120, 0x201, 0xA8000002, 0x36C, 0x40, 1),
    "fp16->fp16": (0x120, 0x201, 0x48000002, 0x124, 0x20, 0x10001),
    "bf16->fp32": (0x1B0, 0x301, 0xAC000003, 0x36C, 0x40, 1),
    "tf32->fp32": (0x3F0, 0x701, 0xB4000005, 0x36C, 0x40, 1),
    "int16->int32": (0x090, 0x101, 0x84000001, 0x36C, 0x40, 1),
    "int4->int16": (0x360, 0x601, 0x38000006, 0x7FC, 0x80, 1),
}


@pytest.mark.parametrize("name", sorted(PRECISIONS))
def test_precision_registers_equal_the_published_rows(name):
    ours = _by_address(registers_for(RK3588, PRECISIONS[name], "row_major", MatmulShape(8, 64, 64, 0, 0, 0)))
    assert name in PUBLISHED_PRECISIONS
    low, core, fmt, ow, surface, scale = PUBLISHED_PRECISIONS[name]
    assert ours[0x100C] & 0xFFF == low
    assert (ours[0x3010], ours[0x4010], ours[0x4050], ours[0x40C0], ours[0x4084]) == (
        core,
        fmt,
        ow,
        surface,
        scale,
    )


def test_native_int4_words_equal_the_vendor_capture():
    capture = (
        "1040=b1 100c=360 1010=20 1020=10001 1024=3f0040 102c=1 1030=800 1034=20 1038=1010040 1044=1 107c=4 "
        "1080=ffffffd 3010=601 3018=3f 4010=38000006 4024=10 4038=0 403c=3f003f 4058=3f 405c=0 40c0=80"
    )
    ours = _by_address(
        registers_for(RK3588, PRECISIONS["int4->int16"], "fold", MatmulShape(1, 64, 64, 0, 0, 0))
    )
    for address, value in _values(capture).items():
        assert ours.get(address, 0) == value, hex(address)


def test_output_conversion_reaches_its_registers():
    convert = OutputConversion(scale=0x4000, shift=14, offset=-104)
    shape = MatmulShape(8, 64, 64, 0, 0, 0)
    ours = _by_address(registers_for(RK3588, PRECISIONS["int8->int8"], "row_major", shape, convert=convert))
    assert (ours[0x4080], ours[0x4084], ours[0x4088]) == (0xFFFFFF98, 0x4000, 14)


@pytest.mark.parametrize("wrong", [{"scale": 0x8000}, {"scale": -1}, {"shift": 32}, {"offset": 1 << 31}])
def test_an_output_conversion_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="allowed"):
        OutputConversion(**wrong)


def test_a_shape_that_does_not_fit_a_field_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        registers_for(RK3588, INT8_TO_INT32, "row_major", MatmulShape(4, 32, 16384, 0, 0, 0))


def test_encode_all_rejects_unknown_names():
    with pytest.raises(KeyError):
        encode_all([("cna_conv_con9", 0)])
