"""The compiled kernels and what all callers of them need: addresses of arrays and the thread count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from orkbench_tui.native._kernels import ffi, lib

__all__ = [
    "address",
    "available_threads",
    "ffi",
    "instruction_set",
    "lib",
    "portable_kernels",
    "require",
]


def available_threads() -> int:
    """Processors this process may run on (its affinity, not the machine's count)."""
    return int(lib.ork_available_threads())


def instruction_set() -> str:
    """The path the kernels take on this processor: ``avx2``, ``neon``, ``neon+dotprod`` or ``portable``."""
    return str(ffi.string(lib.ork_instruction_set()).decode("ascii"))


@contextmanager
def portable_kernels() -> Iterator[None]:
    """Within the block every kernel takes its portable path; process-wide, for tests and comparisons."""
    lib.ork_use_portable(1)
    try:
        yield
    finally:
        lib.ork_use_portable(0)


def require(array: np.ndarray, dtype: type, shape: tuple[int | None, ...], what: str) -> np.ndarray:
    """``array`` itself, once it is C-contiguous with this dtype and shape (None: any length).

    Raises:
        ValueError: naming ``what``.
    """
    fits = len(array.shape) == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits or not array.flags.c_contiguous:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{what} must be a contiguous {np.dtype(dtype).name} [{wanted}], not {array.dtype} {list(array.shape)}"
        )
    return array


def address(array: np.ndarray | None, pointer: str) -> Any:
    """The array's memory as a C pointer, NULL for None. The caller keeps the array alive."""
    if array is None:
        return ffi.NULL
    return ffi.cast(pointer, array.__array_interface__["data"][0])
