"""Placement from shapes alone: published figures, balance, determinism and refusals."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from orkbench_tui.errors import InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.runner.orkpack.placement import MAX_DOMAINS, Placement, Policy, Resident, plan_placement
from orkbench_tui.runner.orkpack.residency import resident_bytes
from orkbench_tui.runner.orkpack.shapes import qwen_27b_like, shapes_named

GIB = 1 << 30


@pytest.mark.parametrize(
    ("K", "N", "wbits", "full_k", "sliced", "whole"),
    [
        (2048, 2048, 8, True, 4194304, 4194304),
        (2048, 6144, 8, True, 12582912, 12582912),
        (3584, 18944, 8, True, 67895296, 67895296),
        (18944, 3584, 8, True, 67895296, 0),
        (17408, 5120, 8, True, 89128960, 0),
        (2048, 2048, 4, False, 2097152, 0),
        (5120, 17408, 4, False, 44564480, 0),
        (2048, 2048, 8, False, 4194304, 0),
        # Two slices of 1024 and 32 rows of K: each its own pages.
        (1056, 96, 8, False, 98304 + 4096, 0),
    ],
)
def test_resident_bytes(K: int, N: int, wbits: int, full_k: bool, sliced: int, whole: int) -> None:
    assert resident_bytes(K, N, wbits, want_full_k=full_k) == (sliced, whole)


def test_a_weight_cut_another_way() -> None:
    assert resident_bytes(1056, 96, 8, k_slice=1056) == (102400, 0)
    assert resident_bytes(32, 256, 8, nmax=96) == (3 * 4096, 0)


def worst(placement: Placement) -> float:
    return max(domain.weights for domain in placement.domains) / GIB


@pytest.mark.parametrize(
    ("tier", "domains", "gib", "together"),
    [("w4a4", 11, 1.06, 6), ("mixed", 13, 1.18, 5), ("w4a8", 13, 1.77, 5)],
)
def test_the_published_placements_of_27b(tier: str, domains: int, gib: float, together: int) -> None:
    placement = plan_placement(qwen_27b_like(tier))
    assert len(placement.domains) == domains
    assert worst(placement) == pytest.approx(gib, abs=0.005)
    assert placement.layers_per_domain == together
    assert [layer for domain in placement.domains for layer in domain.layers] == list(range(64))


def test_totals_of_27b_with_and_without_full_k_copies() -> None:
    shapes = qwen_27b_like("w4a8")
    shed = plan_placement(shapes)
    assert shed.weight_bytes / GIB == pytest.approx(22.66, abs=0.01) and not shed.keeps_full_k
    copies = sum(sum(weight.bytes(True)) for weight in shapes)
    assert copies / GIB == pytest.approx(40, abs=0.1)
    assert plan_placement(shapes, Policy(full_k_budget_bytes=copies)).keeps_full_k
    assert not plan_placement(shapes, Policy(full_k_budget_bytes=copies - 1)).keeps_full_k


def test_what_fits_one_window_stays_in_it() -> None:
    weights = [Resident(f"blk.{n}.ffn_up.weight", 2048, 6144) for n in range(100)]
    placement = plan_placement(weights)
    assert len(placement.domains) == 1 and placement.layers_per_domain == 0
    assert placement.domains[0].anchor == 0 and placement.domains[0].scratch > 0


def test_the_order_of_the_input_changes_nothing() -> None:
    shapes = [
        *qwen_27b_like("mixed"),
        Resident("output.weight", 5120, 32768),
        Resident("token_types", 32, 64),
    ]
    expected = plan_placement(shapes)
    for seed in range(5):
        random.Random(seed).shuffle(shapes)
        assert plan_placement(shapes) == expected
    assert expected.domain_of["output.weight"] == expected.domain_of["token_types"] == 0


def test_no_domain_is_above_the_ceiling_and_every_weight_is_placed_once() -> None:
    rng = random.Random(7)
    for _ in range(40):
        weights = [
            Resident(f"blk.{layer}.w{n}.weight", 32 * rng.randint(1, 300), 32 * rng.randint(1, 300))
            for layer in range(rng.randint(1, 40))
            for n in range(rng.randint(1, 5))
        ]
        policy = Policy(ceiling_bytes=rng.choice((200, 600, 3900)) << 20)
        try:
            placement = plan_placement(weights, policy)
        except NoMemoryError as error:
            assert "blk." in str(error)
            continue
        assert all(domain.total <= policy.ceiling_bytes for domain in placement.domains)
        assert sorted(placement.domain_of) == sorted(weight.name for weight in weights)
        assert sum(len(domain.names) for domain in placement.domains) == len(weights)
        assert [domain.id for domain in placement.domains] == list(range(len(placement.domains)))
        assert len(placement.domains) <= MAX_DOMAINS
        layers = [layer for domain in placement.domains for layer in domain.layers]
        assert layers == sorted(set(layers))


def test_too_many_domains_name_the_first_weight_left_over() -> None:
    weights = [Resident(f"blk.{n}.ffn_up.weight", 32768, 65536) for n in range(20)]
    with pytest.raises(NoMemoryError, match=r"blk\.16\.ffn_up\.weight would be the first of domain 16"):
        plan_placement(weights)


def test_a_layer_that_fits_no_domain_is_named() -> None:
    weights = [Resident(f"blk.{n}.w.weight", 32, 32) for n in range(3)]
    weights.append(Resident("blk.1.huge.weight", 65536, 65536))
    with pytest.raises(NoMemoryError, match="of layer 1 do not fit"):
        plan_placement(weights)


def test_a_layer_of_experts_is_split_between_experts() -> None:
    weights = [
        Resident(f"blk.0.ffn_{part}_exps.weight#{expert}", 8192, 8192)
        for expert in range(40)
        for part in ("gate", "up", "down")
    ]
    placement = plan_placement(weights)
    assert len(placement.domains) > 1
    domain_of = placement.domain_of
    for expert in range(40):
        assert (
            len({domain_of[f"blk.0.ffn_{part}_exps.weight#{expert}"] for part in ("gate", "up", "down")}) == 1
        )
    order = [domain_of[f"blk.0.ffn_up_exps.weight#{expert}"] for expert in range(40)]
    assert order == sorted(order)


def test_the_width_that_counts_is_the_resident_one() -> None:
    """A 4-bit file that is multiplied in 8 bits takes twice what its file does."""
    narrow = [dataclasses.replace(weight, wbits=4) for weight in qwen_27b_like("w4a8")]
    assert plan_placement(qwen_27b_like("w4a8")).weight_bytes == 2 * plan_placement(narrow).weight_bytes


def test_shapes_from_json(tmp_path: Path) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(
        json.dumps([{"name": "blk.0.w", "K": 64, "N": 96, "wbits": 4}, {"name": "v", "K": 32, "N": 32}])
    )
    assert shapes_named(str(path)) == [Resident("blk.0.w", 64, 96, 4), Resident("v", 32, 32)]
    assert len(shapes_named("qwen-27b-like")) == 64 * 3 + 16 * 4 + 48 * 3


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[1]", '[{"name": "a"}]', '[{"name": "a", "K": -1, "N": 3}]', '[{"name": "a", "K": 32, "N": 32, "wbits": 5}]',
     '[{"name": "a", "K": 32, "N": true}]', '[{"name": "a", "K": 32, "N": 32}, {"name": "a", "K": 32, "N": 32}]'],
)  # fmt: skip
def test_bad_shape_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(text)
    with pytest.raises(InvalidFileError):
        shapes_named(str(path))
    with pytest.raises(UsageError, match="qwen-27b-like"):
        shapes_named("nothing-of-the-kind")
