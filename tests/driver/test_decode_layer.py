"""A decoder layer's matmuls compiled once: right, kept, and together where nothing stands between them."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.decode_layer import LAYER_STEPS, DecodeLayer, batch_sizes
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError

WIDTH, INNER, KV = 512, 1024, 128
SHAPES = {
    "q": (WIDTH, WIDTH), "k": (KV, WIDTH), "v": (KV, WIDTH), "o": (WIDTH, WIDTH),
    "gate": (INNER, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER),
}  # fmt: skip


def _layer(npu: Npu, seed: int, names=tuple(SHAPES)):
    random = np.random.default_rng(seed)
    matrices = {name: random.integers(-128, 128, SHAPES[name], dtype=np.int8) for name in names}
    return matrices, {name: npu.load(INT8, f"{seed}.{name}", matrix) for name, matrix in matrices.items()}


def test_two_layers_give_exact_results_token_after_token(npu: Npu) -> None:
    made = [_layer(npu, seed) for seed in (1, 2)]
    layers = [DecodeLayer(npu.context, weights) for _, weights in made]
    random = np.random.default_rng(3)
    used = npu.memory.used_bytes(0)
    before = npu.counters
    for _ in range(3):
        for (matrices, _), layer in zip(made, layers, strict=True):
            for step, names in LAYER_STEPS.items():
                a = random.integers(-128, 128, (1, matrices[names[0]].shape[1]), dtype=np.int8)
                results = layer.run(step, a)
                for name, result in zip(names, results, strict=True):
                    np.testing.assert_array_equal(
                        result, a.astype(np.int32) @ matrices[name].T.astype(np.int32)
                    )
    assert npu.memory.used_bytes(0) == used, "a run allocates nothing"
    assert npu.counters.submits - before.submits == 3 * 2 * len(LAYER_STEPS), "a submit for each step"
    for layer in layers:
        layer.close()


def test_projections_share_a_step_and_down_has_no_peer() -> None:
    assert batch_sizes() == {"qkv": 3, "o": 1, "gate_up": 2, "down": 1}


def test_a_compiled_step_is_one_submit_where_building_each_time_is_several(npu: Npu) -> None:
    _, weights = _layer(npu, 4, ("q", "k", "v"))
    layer = DecodeLayer(npu.context, weights)
    a = np.random.default_rng(5).integers(-128, 128, (1, WIDTH), dtype=np.int8)
    before = npu.counters
    compiled = [result.copy() for result in layer.run("qkv", a)]
    middle = npu.counters
    apart = []
    for name in ("q", "k", "v"):
        matmul = npu.matmul([weights[name]], 1)
        matmul.a[:] = a
        matmul.run_on(0)
        apart.append(matmul.outputs[0].copy())
        matmul.close()
    assert middle.submits - before.submits == 1 and npu.counters.submits - middle.submits >= 3
    for one, other in zip(compiled, apart, strict=True):
        np.testing.assert_array_equal(one, other)
    layer.close()


def test_layers_that_are_none_are_refused(npu: Npu) -> None:
    _, weights = _layer(npu, 6, ("gate", "up", "down"))
    with pytest.raises(OperandError, match="'up' is missing in step gate_up"):
        DecodeLayer(npu.context, {"gate": weights["gate"]})
    with pytest.raises(OperandError, match="no matmul 'router'"):
        DecodeLayer(npu.context, {"router": weights["gate"]})
    odd = npu.load(INT8, "odd", np.ones((64, 768), np.int8))
    with pytest.raises(RefusedError, match="GRD-10"):
        DecodeLayer(npu.context, {"o": odd})
    layer = DecodeLayer(npu.context, weights)
    assert layer.steps == ("gate_up", "down")
    for step, a in (("qkv", np.zeros((1, WIDTH), np.int8)), ("down", np.zeros((1, WIDTH), np.int8))):
        with pytest.raises(OperandError):
            layer.run(step, a)
    npu.free(weights["down"])
    with pytest.raises(LifetimeError):
        layer.run("down", np.zeros((1, INNER), np.int8))
    layer.close()
