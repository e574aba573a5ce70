"""One decoder layer on fixed numbers has one digest, on every processor and instruction set."""

from __future__ import annotations

import hashlib

import numpy as np

from orkbench_tui.native.steps import CacheArrays, Codes, Steps
from orkbench_tui.native.tiles import quantize_weights
from tests.native.kernel_oracle import every_way

# Of the kernels in this repository; it changes only with their arithmetic.
DIGEST = "577ddce79e7aee6b94b58afa3ea6718bc359297ada67e5b72f11331731196e61"

ROWS, WIDTH, HEADS, KV_HEADS, DIM, FORWARD, CAPACITY = 45, 96, 6, 2, 16, 100, 96


def layer_digest(threads: int) -> str:
    rng = np.random.default_rng(20)

    def fixed(*shape: int) -> np.ndarray:
        # Multiples of 1/1024 made from integers: exact, whatever library draws them.
        return (rng.integers(-3000, 3001, shape) / 1024).astype(np.float32)

    def room(rows: int, width: int) -> np.ndarray:
        return np.zeros((rows, width), np.float32)

    x, normed, codes = (
        fixed(ROWS, WIDTH),
        room(ROWS, WIDTH),
        Codes(np.zeros((ROWS, 96), np.int8), fixed(ROWS)),
    )
    q, k, v = room(ROWS, HEADS * DIM), room(ROWS, KV_HEADS * DIM), room(ROWS, KV_HEADS * DIM)
    attended, gate, up, gated = (
        room(ROWS, HEADS * DIM),
        room(ROWS, FORWARD),
        room(ROWS, FORWARD),
        room(ROWS, FORWARD),
    )
    wide = Codes(np.zeros((ROWS, 128), np.int8), fixed(ROWS))
    keys = np.zeros((KV_HEADS, CAPACITY // 32, DIM, 32), np.float16)
    values = np.zeros((KV_HEADS, CAPACITY, DIM), np.float16)
    cosines, sines = fixed(CAPACITY, DIM // 2), fixed(CAPACITY, DIM // 2)

    steps = Steps()
    steps.norm(x, fixed(WIDTH), normed, epsilon=1e-5, codes=codes)
    for target in (q, k, v):
        steps.matmul(codes, *quantize_weights(fixed(target.shape[1], WIDTH)), target)
    steps.rope(q, cosines, sines, heads=HEADS, halves=False)
    steps.rope(k, cosines, sines, heads=KV_HEADS, halves=True)
    steps.append(k, v, CacheArrays(keys, values))
    steps.attention(q, attended, CacheArrays(keys, values), heads=HEADS, scale=0.25, window=40)
    steps.quantize(attended, codes)
    steps.matmul(codes, *quantize_weights(fixed(WIDTH, WIDTH)), x, bias=fixed(WIDTH), accumulate=True)
    steps.norm(x, fixed(WIDTH), normed, epsilon=1e-5, codes=codes)
    for target in (gate, up):
        steps.matmul(codes, *quantize_weights(fixed(FORWARD, WIDTH)), target)
    steps.gated(gate, up, gated, function="gelu_tanh")
    steps.gated(gate, up, gated, function="silu", codes=wide)
    steps.matmul(wide, *quantize_weights(fixed(WIDTH, FORWARD)), x, accumulate=True)
    for first in (0, 30):
        steps.run(30 if first == 0 else ROWS, first, threads)

    digest = hashlib.sha256()
    for array in (x, q, attended, gated, codes.values, keys, values):
        digest.update(array.tobytes())
    return digest.hexdigest()


def test_the_digest_is_the_same_everywhere() -> None:
    for label, threads, way in every_way():
        with way():
            assert layer_digest(threads) == DIGEST, label
