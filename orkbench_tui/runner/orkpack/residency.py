"""How many bytes a weight takes in NPU memory: the one place that knows."""

from __future__ import annotations

from orkbench_tui.runner.orkpack.layout import PAGE, align

__all__ = ["FULL_K_LIMIT", "K_SLICES", "resident_bytes"]

# Length of a K slice by resident width, where a weight is sliced as the published packs are.
K_SLICES = {8: 1024, 4: 10752}
# A second copy over the whole K is kept of int8 weights up to this K.
FULL_K_LIMIT = 10752


def resident_bytes(
    K: int,
    N: int,
    wbits: int,
    *,
    want_full_k: bool = False,
    k_slice: int | None = None,
    nmax: int | None = None,
) -> tuple[int, int]:
    """(bytes of the slices, bytes of the copy over the whole K) of a weight of K inputs and N outputs.

    Every K slice of every column slice is rounded up to a page. ``wbits`` is the width in NPU memory, 8 or
    4: a weight stored in 4 bits and multiplied in 8 has 8. ``k_slice`` is the published one unless given;
    ``nmax`` is the widest column slice, N unless given.
    """
    step, wide = k_slice or K_SLICES[wbits], nmax or N
    columns = [min(wide, N - first) for first in range(0, N, wide)]
    rows = [min(step, K - first) for first in range(0, K, step)]
    sliced = sum(align(k * n * wbits // 8, PAGE) for n in columns for k in rows)
    whole = want_full_k and wbits == 8 and K <= FULL_K_LIMIT
    return sliced, sum(align(K * n, PAGE) for n in columns) if whole else 0
