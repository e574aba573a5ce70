"""What programs amount to: published words, captures of other drivers, and what is wrong with broken ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.regcmd.disassemble import disassemble
from orkbench_tui.driver.regcmd.emit import emit_program
from orkbench_tui.driver.regcmd.int4_batch import batch_rows
from orkbench_tui.driver.regcmd.operation import Operation, read_operations
from orkbench_tui.driver.regcmd.programs import GEOMETRIES, PRECISIONS
from orkbench_tui.driver.regcmd.words import trailer
from tests.driver.regcmd import captures


def read(words: list[int]) -> Operation:
    (operation,) = read_operations(disassemble(words))
    return operation


def errors(operation: Operation) -> set[str]:
    return {problem.rule for problem in operation.problems if problem.severity == "error"}


def test_the_golden_mtx_program():
    found = read(captures.golden())
    assert (found.op, found.dtype) == ("matmul", "int8->int32")
    assert (found.m, found.k, found.n) == (4, 64, 64)
    assert (found.a, found.w, found.c) == (0xFFF00000, 0xFFC00000, 0xFF800000)
    assert found.geometry == "cube" and found.c_layout.cube_rows == 4
    assert (found.banks.data, found.banks.weight, found.banks.needed) == (1, 11, 1)
    assert found.conversion.identity and found.problems == ()
    assert (found.enable, found.int_mask, found.regcfg_amount) == (0x0D, 0x300, 104)


@pytest.mark.parametrize(
    ("text", "dtype", "m", "k", "n", "geometry"),
    [
        (captures.RKNN_ROW_MAJOR, "int8->int32", 4, 32, 32, "row_major"),
        (captures.FP16_ROW_MAJOR, "fp16->fp32", 4, 32, 16, "row_major"),
        (captures.RKNN_INT4, "int4->int16", 1, 64, 64, "cube"),
        (captures.INT4_BATCH, "int4->int16", 4, 64, 64, "int4_batch"),
        (captures.INT4_PANEL, "int4->int16", 16, 64, 64, "panel->fold"),
    ],
)
def test_matmuls_of_other_drivers(text, dtype, m, k, n, geometry):
    found = read(captures.matmul(text))
    assert (found.op, found.dtype, found.m, found.k, found.n) == ("matmul", dtype, m, k, n)
    assert found.geometry == geometry
    assert found.problems == ()


def test_row_pitches_of_a_row_major_capture():
    found = read(captures.matmul(captures.RKNN_ROW_MAJOR))
    assert found.a_layout.row_pitch_bytes == 32
    assert found.c_layout.row_pitch_bytes == 128


def test_a_chained_capture_names_the_next_program():
    registers = captures.values(captures.MATMUL_CONSTANTS, captures.RKNN_INT4)
    words = captures.program(captures.body(registers), 0x0D, 0xFFFFF380, 0x37)
    assert read(words).as_dict()["chained_to"] == "0xfffff380"


@pytest.mark.parametrize(
    ("ew", "name"),
    [(0x108003C4, "mul"), (0x108202C0, "add"), (0x108002C0, "max"), (0x108102C0, "min")],
)
def test_an_operand_beside_a_matmul(ew, name):
    found = read(captures.matmul(captures.FP16_WITH_OPERAND, enable=0x1D, r4070=ew))
    assert found.op == f"matmul+operand({name})"
    assert found.b == 0xFE001000
    assert errors(found) == set()


def test_bias_and_requant_from_memory():
    found = read(captures.matmul(captures.BIAS_REQUANT, enable=0x1D))
    assert found.op == "matmul+bias+scale+requant"
    assert found.details["bs"]["alu_operand"] == "0xfd000000"
    assert found.details["bs"]["mul_shift"] == found.details["bs"]["mul_shift_negative"] == 14
    assert (found.conversion.scale, found.conversion.shift, found.conversion.offset) == (0x57A7, 0x14, 5)
    assert found.conversion.rounding == "half to even"
    assert errors(found) == set()


def test_requant_inside_a_matmul():
    found = read(
        captures.matmul(
            captures.RKNN_ROW_MAJOR,
            r4010=0,
            r4038=0x10001,
            r4050=0x124,
            r40c0=0x20,
            r4080=0xFFFFFFFB,
            r4084=0x4000,
            r4088=14,
        )
    )
    assert (found.op, found.dtype) == ("matmul+requant", "int8->int8")
    assert found.conversion.offset == -5 and found.conversion.scale == 0x4000 and found.conversion.shift == 14
    assert found.problems == ()


@pytest.mark.parametrize(
    ("name", "text", "op", "dtype"), captures.SDP_ROWS, ids=[row[0] for row in captures.SDP_ROWS]
)
def test_published_element_wise_programs(name, text, op, dtype):
    found = read(captures.sdp(text))
    assert (found.op, found.dtype, found.published) == (op, dtype, name)
    assert (found.m, found.n, found.k) == (4, 32, None)
    assert (found.a, found.c) == (0xFFF00000, 0xFF800000)
    assert found.b == (0xFFC00000 if op in ("sdp add", "sdp mul") else None)
    assert errors(found) == set()


def test_the_vendors_table_program_shows_its_index_and_output_settings():
    text = next(text for name, text, _, _ in captures.SDP_ROWS if name == "int8 table")
    found = read(captures.sdp(text))
    assert found.details["bn"]["alu_operand"] == -2 * 16668
    assert found.details["bn"]["mul_operand"] == 16668 and found.details["bn"]["mul_shift"] == 8
    assert found.details["lut"] == {"le": [-16384, 0], "lo": [0, 16384], "step_bits": 5}
    assert (
        found.conversion.offset == -104 and found.conversion.scale == 0x7AD3 and found.conversion.shift == 21
    )


def test_a_table_load():
    found = read(captures.lut_load(list(range(-256, 257)), [-1] * 513))
    assert found.op == "lut-load" and errors(found) == set()
    assert found.details["tables"] == [
        {"table": "le", "start": 0, "entries": 513, "first": -256, "last": 256},
        {"table": "lo", "start": 0, "entries": 513, "first": -1, "last": -1},
    ]


def test_a_table_load_that_runs_over_its_end():
    assert "table" in errors(read(captures.lut_load([0] * 514, [0] * 513)))


def test_pooling():
    found = read(captures.program(captures.body(captures.values(captures.POOL_MAX)), 0x60))
    assert (found.op, found.dtype, found.int_mask) == ("pool", "fp16->fp16", 0xC00)
    assert found.details["method"] == "max"
    assert (found.details["kernel"], found.details["stride"]) == ([2, 2], [2, 2])
    assert (found.m, found.n, found.a, found.c) == (16, 8, 0xFFF00000, 0xFF800000)
    assert found.problems == ()
    wrong = captures.values(captures.POOL_MAX, "6018=4")
    assert errors(read(captures.program(captures.body(wrong), 0x60))) == {"size"}


def test_short_programs_inherit_from_the_program_before_the_previous_one():
    first = captures.body(captures.values(captures.MATMUL_CONSTANTS, captures.RKNN_ROW_MAJOR))
    other = captures.body(
        captures.values(
            captures.MATMUL_CONSTANTS, captures.RKNN_ROW_MAJOR, "1070=11110 1110=22220 4020=33330"
        )
    )
    delta = captures.body(captures.values("4020=44440"))
    stream = [
        *captures.program(first, 0x0D, 0x1000, 0x37),
        *captures.program(other, 0x0D, 0x2000, 3),
        *captures.program(delta, 0x0D, 0x3000, 3),
        *captures.program(captures.body(captures.values("1070=55550")), 0x0D),
    ]
    _, _, third, fourth = read_operations(disassemble(stream))
    assert (third.a, third.w, third.c) == (0xFFF00000, 0xFFC00000, 0x44440)
    assert (fourth.a, fourth.w, fourth.c) == (0x55550, 0x22220, 0x33330)
    assert third.op == fourth.op == "matmul"
    assert third.inherited_registers > 50
    assert errors(third) == errors(fourth) == set()


def test_a_short_program_without_its_base_is_unknown():
    found = read(captures.program(captures.body(captures.values("4020=44440 1070=55550")), 0x0D))
    assert found.op == "unknown"
    assert "unwritten" in errors(found)
    assert found.a == 0x55550 and found.c == 0x44440


def test_without_ping_pong_a_program_inherits_from_the_previous_one():
    base = captures.values(captures.SDP_CONSTANTS, captures.SDP_ROWS[0][1], "4004=30 5004=30")
    stream = [
        *captures.program(captures.body(base), 0x18, 0x1000, 4),
        *captures.program(captures.body(captures.values("5018=77770")), 0x18),
    ]
    first, second = read_operations(disassemble(stream))
    assert (second.op, second.a, second.c) == ("sdp mul", 0x77770, first.c)


def test_a_body_without_a_trailer_is_read_all_the_same():
    found = read(captures.golden()[:104])
    assert (found.op, found.m, found.enable, found.enable_inferred) == ("matmul", 4, 0x0D, True)
    assert errors(found) == {"trailer"}
    element_wise = read(captures.sdp(captures.SDP_ROWS[0][1])[:-4])
    assert (element_wise.op, element_wise.enable) == ("sdp mul", 0x18)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"r1040": 0xA1}, "banks"),
        ({"r1040": 0xC0}, "banks"),
        ({"r4050": 0x36C}, "SIZE_E"),
        ({"r4050": 0x124}, "SIZE_E"),
        ({"r1024": 0x1E001F, "r1088": 0x1F}, "K"),
        ({"r1024": 0x1F0040}, "K"),
        ({"r1088": 0x40}, "K"),
        ({"r1038": 0x1010021}, "N"),
        ({"r3018": 0x3F}, "N"),
        ({"r1034": 0x40}, "weights"),
        ({"r1030": 0x800}, "weights"),
        ({"r1070": 0xFFF00008}, "alignment"),
        ({"r4020": 0xFF800004}, "alignment"),
        ({"r102c": 5}, "rows"),
        ({"r1020": 0}, "rows"),
        ({"r3010": 0x201}, "types"),
        ({"r4010": 0x88000000}, "types"),
        ({"r107c": 1}, "layout"),
        ({"r40c0": 0x90}, "layout"),
        ({"r4040": 0x20040, "r4048": 0x40000100}, "negative shift"),
        ({"r4040": 0x20140}, "operands"),
    ],
)
def test_a_broken_matmul_is_told(changes, rule):
    assert rule in errors(read(captures.matmul(captures.RKNN_ROW_MAJOR, **changes)))


def test_features_that_do_not_fit_their_banks():
    words = list(emit_program("int8", 64, 1024, 32, a=0, w=0x100000, c=0x200000).words)
    assert read(words).banks.needed == 2
    for at, word in enumerate(words):
        if word & 0xFFFF == 0x1040:
            words[at] = 0x0201 << 48 | 0xB1 << 16 | 0x1040
    assert errors(read(words)) == {"banks"}


def test_a_cube_of_a_row_count_that_is_no_multiple_of_four():
    changes = {"r1020": 0x10006, "r1084": 0x10006, "r102c": 6, "r3014": 5 << 16, "r4034": 5, "r405c": 5 << 16}
    cube = captures.matmul("", **{f"r{a:x}": v for a, v in captures.values(captures.RKNN_ROW_MAJOR).items()} | changes
                           | {"r100c": 0, "r107c": 4, "r1080": 0, "r4024": 0x60, "r4038": 0, "r40c0": 0x300})  # fmt: skip
    assert errors(read(cube)) == {"layout"}


def test_rdma_without_an_operand_is_a_trap():
    assert "MRDMA" in errors(read(captures.matmul(captures.RKNN_ROW_MAJOR, enable=0x1D, r5044=0x7801)))
    assert "MRDMA" not in errors(read(captures.matmul(captures.RKNN_ROW_MAJOR, enable=0x1D, r5044=0x7810)))
    assert "MRDMA" in errors(read(captures.matmul(captures.FP16_WITH_OPERAND, enable=0x0D, r4070=0x108003C4)))


def test_weight_reuse_needs_weights_that_stay():
    fits = read(captures.matmul(captures.RKNN_ROW_MAJOR, r1040=0x20B1))
    assert fits.banks.weight_reuse and errors(fits) == set()
    large = emit_program("int8", 4, 4096, 256, a=0, w=0x100000, c=0x200000)
    words = [0x0201 << 48 | 0x20B1 << 16 | 0x1040 if w & 0xFFFF == 0x1040 else w for w in large.words]
    assert "weight reuse" in errors(read(words))


def _stream(*registers, shape=(4, 1024, 64)):
    """Matmuls linked to each other, each with its 0x1040."""
    words = []
    for index, value in enumerate(registers):
        program = list(emit_program("int8", *shape, a=0, w=0x100000, c=0x200000).words)
        program = [0x0201 << 48 | value << 16 | 0x1040 if w & 0xFFFF == 0x1040 else w for w in program]
        if index + 1 < len(registers):
            program[-4:-2] = trailer(0x0D, 0x1000 * (index + 1), 108)[:2]
        words += program
    return read_operations(disassemble(words))


def test_the_vendor_s_large_convolution_loads_once_and_keeps_for_its_other_tiles():
    """Two weight banks hold the 36 KiB of a 3x3 convolution of 64 by 64; 0x2a loads, 0x202a keeps."""
    found = _stream(0x2A, 0x202A, 0x202A, shape=(256, 576, 64))
    assert [(o.banks.data, o.banks.weight, o.banks.weight_reuse) for o in found] == [
        (10, 2, False), (10, 2, True), (10, 2, True),
    ]  # fmt: skip
    assert found[0].k * found[0].n == 36 << 10
    assert all(errors(o) == set() for o in found)


def test_kept_weights_are_those_of_the_last_program_that_loaded():
    loads, keeps, again = _stream(0x48, 0x2048, 0x2048)
    assert [o.banks.weight_reuse for o in (loads, keeps, again)] == [False, True, True]
    assert all(o.problems == () for o in (loads, keeps, again))
    [alone] = _stream(0x2048)
    assert [(p.severity, p.rule) for p in alone.problems] == [("caution", "weight reuse")]
    _, other = _stream(0x48, 0x2057)
    assert "weight banks is 5, the kept weights have 4" in [p.text for p in other.problems]


@pytest.mark.parametrize(
    ("row", "changes", "rule"),
    [
        ("int8 mul", {"r4030": 8176, "r405c": 8176, "r500c": 8176}, "rows"),
        ("fp16 mul", {"r4030": 8190, "r405c": 8190, "r500c": 8190}, "rows"),
        ("int8 mul", {"r500c": 4}, "shape"),
        ("int8 mul", {"r5014": 0x3F}, "shape"),
        ("int8 mul", {"r4050": 0x7FC}, "shape"),
        ("int8 mul", {"r5044": 0x7811}, "source"),
        ("int8 mul", {"r400c": 0x1E4}, "source"),
        ("int8 mul", {"r5034": 0x40000005}, "source"),
        ("int16 add", {"r4010": 0x24000001}, "negative shift"),
        ("fp16 mul", {"r5038": 0xFFC00001}, "alignment"),
    ],
)
def test_a_broken_element_wise_program_is_told(row, changes, rule):
    text = next(text for name, text, _, _ in captures.SDP_ROWS if name == row)
    assert rule in errors(read(captures.sdp(text, **changes)))


def test_an_element_wise_program_behind_a_matmul_that_uses_bs_is_cautioned():
    registers = captures.values(captures.MATMUL_CONSTANTS, captures.RKNN_ROW_MAJOR)
    stream = [
        *captures.program(captures.body(registers), 0x0D, 0x1000, 36),
        *captures.sdp(captures.SDP_ROWS[0][1]),
    ]
    assert "chain" in {problem.rule for problem in read_operations(disassemble(stream))[1].problems}


def test_an_enable_mask_of_nothing_known():
    found = read(captures.program([], 0))
    assert found.op == "unknown" and errors(found) == {"enable"}


def test_the_json_form_has_hex_addresses_and_is_json():
    data = read(captures.golden()).as_dict()
    assert (data["a"], data["w"], data["c"]) == ("0xfff00000", "0xffc00000", "0xff800000")
    assert (data["enable"], data["int_mask"], data["m"]) == ("0xd", "0x300", 4)
    assert json.loads(json.dumps(data)) == data


def _shape(draw: st.DrawFn, name: str, geometry: str) -> tuple[int, int, int]:
    precision = PRECISIONS[name]
    k = precision.k_granule * draw(st.integers(1, 24))
    n = precision.kernel_group * draw(st.integers(1, 12))
    cap = min(1022, 11 * 32768 // precision.row_bytes(k))
    if geometry == "int4_batch":
        cap = batch_rows(k)
    m = draw(st.integers(1, cap))
    return (m - m % 4 or 1) if geometry == "cube" else m, k, n


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_was_emitted_is_read_back(data):
    name = data.draw(st.sampled_from(sorted(PRECISIONS)))
    forms = sorted(GEOMETRIES) if name == "int4->int16" else sorted(GEOMETRIES.keys() - {"int4_batch"})
    geometry = data.draw(st.sampled_from(forms))
    m, k, n = data.draw(st.composite(lambda draw: _shape(draw, name, geometry))())
    a, w, c = (16 * data.draw(st.integers(0, (1 << 28) - 1)) for _ in range(3))
    form = data.draw(st.sampled_from(["rknn", "mtx"]))
    found = read(list(emit_program(name, m, k, n, a=a, w=w, c=c, geometry=geometry, form=form).words))
    assert (found.dtype, found.m, found.k, found.n, found.a, found.w, found.c) == (name, m, k, n, a, w, c)
    assert found.op in ("matmul", "matmul+requant")
    assert found.geometry == ("cube" if m == 1 and geometry == "fold" else geometry)
    assert errors(found) == set()


_WORDS = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.builds(
        lambda target, register, value: target << 48 | value << 16 | register,
        st.sampled_from([0, 0x41, 0x81, 0x101, 0x201, 0x801, 0x1001, 0x2001, 0x4001, 0x8001]),
        st.one_of(
            st.sampled_from([8, 0x10, 0x14, 0x1004, 0x4004, 0x4010, 0x100C, 0x4070, 0x4100, 0x4104, 0x5044]),
            st.integers(0, 0xFFFF),
        ),
        st.one_of(st.sampled_from([0x0D, 0x18, 0x1D, 0x60, 0x30, 0xE]), st.integers(0, (1 << 32) - 1)),
    ),
    st.sampled_from(captures.golden()),
)


@given(st.lists(_WORDS, max_size=60), st.integers(0, 108))
@settings(max_examples=300, deadline=None)
def test_no_words_stop_the_reader(words, position):
    golden = captures.golden()
    stream = [*golden[:position], *words, *golden[position:]]
    listing = disassemble(stream)
    operations = read_operations(listing)
    assert len(operations) == len(listing.programs)
    assert sum(len(program.words) for program in listing.programs) + listing.padding_words <= listing.words
    json.dumps([operation.as_dict() for operation in operations])
