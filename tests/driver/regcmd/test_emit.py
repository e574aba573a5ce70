"""A matmul program from a name and a shape: the published words, and what is refused."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.regcmd.emit import emit_program, precision_named
from orkbench_tui.errors import UsageError
from tests.driver.regcmd import captures

AT = {"a": 0xFFF00000, "w": 0xFFC00000, "c": 0xFF800000}


def test_the_mtx_form_is_the_golden_program_word_for_word():
    assert list(emit_program("int8", 4, 64, 64, **AT, geometry="cube", form="mtx").words) == captures.golden()


@pytest.mark.parametrize(
    ("dtype", "shape", "geometry", "text"),
    [
        ("int8", (4, 32, 32), "row_major", captures.RKNN_ROW_MAJOR),
        ("fp16", (4, 32, 16), "row_major", captures.FP16_ROW_MAJOR),
        ("int4", (1, 64, 64), "fold", captures.RKNN_INT4),
    ],
)
def test_the_rknn_form_is_captures_and_formulas_register_for_register(dtype, shape, geometry, text):
    program = emit_program(dtype, *shape, **AT, geometry=geometry)
    written = {word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in program.words[: program.body_words]}
    expected = captures.values(captures.MATMUL_CONSTANTS, text)
    # OD_BYPASS is set in the int4 capture and has no effect on a matmul.
    expected[0x4050] &= ~2
    written[0x4050] &= ~2
    assert {address: written[address] for address in expected} == expected
    assert program.body_words == 108 and len(program.words) == 112


def test_a_type_alone_means_its_widest_result():
    assert {
        name: precision_named(name).name for name in ("int8", "int4", "int16", "fp16", "bf16", "tf32")
    } == {
        "int8": "int8->int32",
        "int4": "int4->int16",
        "int16": "int16->int32",
        "fp16": "fp16->fp32",
        "bf16": "bf16->fp32",
        "tf32": "tf32->fp32",
    }


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"dtype": "int9"}, "--dtype int9: allowed: int8, "),
        ({"m": 0}, "M = 0: allowed: 1 to 1022"),
        ({"m": 1023}, "M = 1023: allowed: 1 to 1022"),
        ({"k": 31}, "K = 31: allowed: 32 to 16384, a multiple of 32"),
        ({"k": 0}, "K = 0"),
        ({"k": 16416}, "K = 16416"),
        ({"n": 48}, "N = 48: allowed: 32 to 8192, a multiple of 32"),
        ({"n": 8224}, "N = 8224"),
        ({"m": 45, "k": 8192}, "M = 45: allowed: 1 to 44"),
        ({"dtype": "fp16", "n": 24}, "N = 24: allowed: 16 to 8192, a multiple of 16"),
        ({"dtype": "int4", "n": 96}, "N = 96: allowed: 64 to 8192, a multiple of 64"),
        ({"geometry": "cube", "m": 6}, "M = 6 with --geometry cube: allowed: 1, or 4 to"),
        ({"geometry": "ring"}, "--geometry ring: allowed: cube, fold, int4_batch, row_major"),
        ({"form": "xyz"}, "--form xyz: allowed: rknn, mtx"),
        ({"a": 8}, "--a 0x8: allowed: 0x0 to 0xfffffff0, a multiple of 16"),
        ({"w": 1 << 32}, "--w 0x100000000"),
        ({"c": -16}, "--c -0x10"),
    ],
)
def test_what_does_not_fit_is_named_with_the_allowed_range(call, text):
    arguments = {"dtype": "int8", "m": 4, "k": 64, "n": 64, **AT, **call}
    dtype, m, k, n = (arguments.pop(name) for name in ("dtype", "m", "k", "n"))
    with pytest.raises(UsageError) as error:
        emit_program(dtype, m, k, n, **arguments)
    assert text in error.value.line()


def test_the_largest_sizes_are_accepted():
    for geometry in ("row_major", "fold", "cube"):
        for m, k, n in ((20, 16384, 32), (1, 32, 8192), (1020, 320, 32)):
            assert len(emit_program("int8", m, k, n, **AT, geometry=geometry).words) == 112
