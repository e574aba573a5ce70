"""Known-answer checks of the NPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.npu import Npu

__all__ = ["MatmulCheck", "exact_matmul"]


@dataclass(frozen=True, slots=True)
class MatmulCheck:
    """Outcome of one matmul. ``wrong`` counts elements that differ from the exact result."""

    m: int
    k: int
    n: int
    wrong: int
    submits: int
    tasks: int
    hw_ns: int


def _exact_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int8 [M,K] times int8 [N,K] transposed, exact, as int32 [M,N].

    Through float32 products of K slices short enough that every partial sum is an integer below 2**24.
    """
    import numpy as np

    total = np.zeros((a.shape[0], b.shape[0]), dtype=np.int32)
    for start in range(0, a.shape[1], 1024):
        part = slice(start, start + 1024)
        total += (a[:, part].astype(np.float32) @ b[:, part].astype(np.float32).T).astype(np.int32)
    return total


def exact_matmul(npu: Npu, m: int, k: int, n: int, *, seed: int = 0, core: int | None = None) -> MatmulCheck:
    """Run a seeded full-range int8 matmul on the NPU, over all cores or on one, and compare all of it."""
    import numpy as np

    from orkbench_tui.driver.layouts import tile_weights
    from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32

    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (m, k), dtype=np.int8)
    b = random.integers(-128, 128, (n, k), dtype=np.int8)
    weight = npu.load_int8("check", tile_weights(INT8_TO_INT32, b), k, n)
    matmul = npu.matmul_int8([weight], m)
    before = npu.counters
    matmul.a[:] = a
    matmul.run() if core is None else matmul.run_on(core)
    wrong = int(np.count_nonzero(matmul.outputs[0] != _exact_product(a, b)))
    used = npu.counters.since(before)
    matmul.close()
    npu.free(weight)
    return MatmulCheck(m, k, n, wrong, used.submits, used.tasks, used.hw_ns)
