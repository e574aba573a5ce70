"""The native side of compiled programs: one structure per program, one call per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from orkbench_tui.native.library import ffi, lib

__all__ = ["HotPath", "cache_clean", "cache_clean_invalidate", "cache_maintained"]


def cache_maintained() -> bool:
    """Whether this processor lets a program maintain the data cache itself."""
    return bool(lib.ork_cache_maintained())


def cache_clean(array: np.ndarray) -> None:
    """Write the dirty cache lines of an array to memory; nothing on other processors."""
    lib.ork_cache_clean(ffi.cast("void *", array.__array_interface__["data"][0]), array.nbytes)


def cache_clean_invalidate(array: np.ndarray) -> None:
    """The same, and drop the lines, so that the next read comes from memory."""
    lib.ork_cache_clean_invalidate(ffi.cast("void *", array.__array_interface__["data"][0]), array.nbytes)


def _pointer(kind: str, array: np.ndarray) -> Any:
    return ffi.cast(kind, array.__array_interface__["data"][0])


class HotPath:
    """What one run needs, as addresses. Arrays handed in are kept alive.

    Args:
        source: the caller's activation to copy before each run, None when it lies in ``staging``.
        staging: uint8, what the device reads.
        bells: uint32 [1] views, seeded with ``pattern`` and looked at until they differ.
        results, mirrors: uint8 pairs copied after completion; a mirror may be None.
    """

    def __init__(
        self,
        *,
        source: np.ndarray | None,
        staging: np.ndarray,
        bells: Sequence[np.ndarray],
        pattern: int,
        results: Sequence[np.ndarray],
        mirrors: Sequence[np.ndarray | None],
        cached_results: bool,
    ) -> None:
        self._struct = ffi.new("ork_hot_path *")
        self._bells = ffi.new("uint32_t *[]", [_pointer("uint32_t *", bell) for bell in bells])
        self._results = ffi.new("const uint8_t *[]", [_pointer("uint8_t *", result) for result in results])
        self._mirrors = ffi.new(
            "uint8_t *[]", [ffi.NULL if m is None else _pointer("uint8_t *", m) for m in mirrors]
        )
        self._bytes = ffi.new("int64_t []", [result.nbytes for result in results])
        self._kept = (source, staging, tuple(bells), tuple(results), tuple(mirrors))
        struct = self._struct
        struct.source = ffi.NULL if source is None else _pointer("uint8_t *", source)
        struct.staging = _pointer("uint8_t *", staging)
        struct.activation_bytes = staging.nbytes
        struct.bells, struct.bell, struct.pattern = len(bells), self._bells, pattern
        struct.copies, struct.result, struct.mirror = len(results), self._results, self._mirrors
        struct.result_bytes, struct.cached_results = self._bytes, cached_results
        struct.fd = -1

    def attach(
        self,
        fd: int,
        *,
        sync: tuple[int, bytearray],
        submit: tuple[int, bytearray],
        maintain_cache: bool,
        call: Callable[[int, int, Any], int] | None = None,
    ) -> None:
        """Let ``run`` do the calls itself: (request, argument) of the sync of A and of the submit.

        ``call`` stands in for the system's ioctl; it gets (fd, request, pointer) and answers 0 or -errno.
        """
        struct = self._struct
        self._arguments = [ffi.from_buffer(argument) for _, argument in (sync, submit)]
        struct.fd, struct.maintain_cache = fd, maintain_cache
        struct.sync_request, struct.sync_argument = sync[0], self._arguments[0]
        struct.submit_request, struct.submit_argument = submit[0], self._arguments[1]
        if call is not None:
            self._call = ffi.callback("int(int, unsigned long, void *)", call)
            struct.call = self._call

    def refresh(self) -> None:
        """Copy A and write the patterns."""
        lib.ork_hot_refresh(self._struct)

    def submit(self) -> int:
        """Sync A and submit; 0 or -errno."""
        return int(lib.ork_hot_submit(self._struct))

    def poll(self, window_ns: int) -> int:
        """Look until all bells have rung, then copy the results; 0, or -ETIMEDOUT after the window."""
        self._struct.window_ns = window_ns
        return int(lib.ork_hot_poll(self._struct))

    def run(self, window_ns: int) -> int:
        """All of it in one call; 0 or -errno."""
        self._struct.window_ns = window_ns
        return int(lib.ork_hot_run(self._struct))

    @property
    def elapsed_ns(self) -> int:
        """How long the last successful poll took."""
        return int(self._struct.elapsed_ns)

    @property
    def looks(self) -> int:
        """How often the last poll looked."""
        return int(self._struct.looks)
