"""The chain table pair by pair, and how sequences are cut along it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.chain_rules import (
    CHAIN_TABLE,
    SURVEYED,
    ChainRule,
    Composite,
    Implementation,
    OpGroup,
    OpKind,
    chain_rule,
    counts,
    hazard,
    op_group,
    partition,
    require_hardware_edge,
)
from orkbench_tui.errors import RefusedError

HW = {
    ("matmul_w8a8", "matmul_w8a8"),
    ("matmul_w8a8", "silu_i8"),
    ("silu_i8", "matmul_w8a8"),
    ("matmul_w8a8", "mul_i8"),
    ("mul_i8", "matmul_w8a8"),
    ("matmul_w16a16", "mul_perchannel_f16"),
}

SW = {
    "matmul_w16a16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16 gelu_i16 add_i16",
    "matmul_w8a8": "matmul_w16a16 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
    "exp_i16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
    "silu_i16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
    "mul_i16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
    "mul_f16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
    "add_f16": "matmul_w16a16 matmul_w8a8 exp_i16 silu_i16 mul_i16 mul_f16 add_f16",
}

kinds = st.sampled_from(list(OpKind))


def test_every_pair_has_the_published_rule():
    sequenced = {(first, second) for first, others in SW.items() for second in others.split()}
    assert not sequenced & HW
    for first in OpKind:
        for second in OpKind:
            pair = (str(first), str(second))
            expected = (
                ChainRule.HW if pair in HW else ChainRule.SW if pair in sequenced else ChainRule.DISALLOW
            )
            assert chain_rule(first, second) is expected, pair


def test_the_survey_has_6_hw_50_sw_and_785_disallowed_of_841():
    assert len(SURVEYED) == 29
    assert counts() == {ChainRule.HW: 6, ChainRule.SW: 50, ChainRule.DISALLOW: 785}
    assert sum(counts().values()) == 841


def test_later_kinds_only_add_disallowed_pairs():
    assert len(OpKind) == 35
    assert counts(tuple(OpKind)) == {ChainRule.HW: 6, ChainRule.SW: 50, ChainRule.DISALLOW: 35 * 35 - 56}
    later = set(OpKind) - set(SURVEYED)
    assert later == {
        "matmul_silu_w8a8_i32out",
        "rmsnorm_f16",
        "l2norm_f16",
        "rsqrt_i16",
        "matmul_w16a16_f16out",
        "matmul_w8a8_i16out",
    }
    assert not any(first in later or second in later for first, second in CHAIN_TABLE)


@pytest.mark.parametrize("pair", [("matmul_w8a8", "conv"), ("", "matmul_w8a8"), ("a", "b")])
def test_a_name_nobody_knows_is_disallowed(pair):
    assert chain_rule(*pair) is ChainRule.DISALLOW


def test_names_resolve_both_ways_and_say_their_precision():
    for enumeration, size in ((OpKind, 35), (Composite, 9), (Implementation, 3)):
        assert len(enumeration) == size
        for member in enumeration:
            assert enumeration(member.value) is member
            assert member.name == member.value.upper()
    weighted = {kind for kind in OpKind if op_group(kind) is OpGroup.MATMUL}
    assert len(weighted) == 10
    for kind in OpKind:
        assert ("_w" in kind) == (kind in weighted)
        assert kind in weighted or kind.rsplit("_", 1)[1] in {"i8", "i16", "f16", "i32"}


def test_groups_are_as_large_as_the_published_list():
    sizes = {group: sum(op_group(kind) is group for kind in OpKind) for group in OpGroup}
    assert list(sizes.values()) == [10, 9, 9, 5, 2]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (OpKind.MATMUL_W16A16, OpKind.GELU_I8, "GRD-04.*wedged until a power cycle"),
        (OpKind.MATMUL_W16A16, OpKind.SILU_I8, "GRD-04.*hung"),
        (OpKind.MATMUL_W8A8, OpKind.GELU_I8, "GRD-03.*hang"),
        (OpKind.MATMUL_W8A8, OpKind.ADD_I8, "GRD-03"),
        (OpKind.MATMUL_REQUANT_W8A8, OpKind.MUL_PERCHANNEL_I8, "GRD-03"),
        (OpKind.MATMUL_W8A8, OpKind.MUL_I16, "two inputs hung.*run them as two submits$"),
        (OpKind.MATMUL_W8A8, OpKind.MUL_PERCHANNEL_I16, "two inputs hung.*with a reset between$"),
        (OpKind.EXP_I16, OpKind.SILU_I16, "exp_i16 -> silu_i16 is SW"),
        (OpKind.ROPE_NEOX_F16, OpKind.RESHAPE_F16, "is DISALLOW; run them as two submits with a reset"),
    ],
)
def test_only_hardware_edges_may_be_linked(first, second, words):
    with pytest.raises(RefusedError, match=words):
        require_hardware_edge(first, second)


@pytest.mark.parametrize("pair", sorted(HW))
def test_hardware_edges_pass(pair):
    require_hardware_edge(*(OpKind(name) for name in pair))


def test_what_is_known_of_a_pair_is_said_even_when_it_may_be_linked():
    assert "linked in one submit it works" in hazard(OpKind.MATMUL_W8A8, OpKind.SILU_I8)
    assert hazard(OpKind.MATMUL_W8A8, OpKind.MATMUL_W8A8) == ""


def test_a_feed_forward_block_is_one_run():
    block = [OpKind.MATMUL_W8A8, OpKind.SILU_I8, OpKind.MATMUL_W8A8, OpKind.MUL_I8, OpKind.MATMUL_W8A8]
    (run,) = partition(block)
    assert run.kinds == tuple(block) and run.start == 0 and run.before is None


def test_runs_say_how_they_were_cut():
    runs = partition(
        [OpKind.MATMUL_W8A8, OpKind.MATMUL_W8A8, OpKind.EXP_I16, OpKind.GELU_I8, OpKind.MATMUL_W8A8]
    )
    assert [(run.start, len(run.kinds), run.before) for run in runs] == [
        (0, 2, None),
        (2, 1, ChainRule.SW),
        (3, 1, ChainRule.DISALLOW),
        (4, 1, ChainRule.DISALLOW),
    ]
    assert partition([]) == ()


@given(st.lists(kinds, max_size=40))
def test_any_sequence_is_cut_exactly_where_there_is_no_hardware_edge(sequence):
    runs = partition(sequence)
    assert [kind for run in runs for kind in run.kinds] == sequence
    at = 0
    for run in runs:
        assert run.start == at and run.kinds
        for offset in range(1, len(run.kinds)):
            assert chain_rule(run.kinds[offset - 1], run.kinds[offset]) is ChainRule.HW
        if at:
            assert run.before is chain_rule(sequence[at - 1], sequence[at]) is not ChainRule.HW
        else:
            assert run.before is None
        at += len(run.kinds)
