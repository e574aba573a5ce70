"""Which rows go to which expert: all choices of all rows, sorted by expert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.failures import OperandError

__all__ = ["Groups", "group_by_expert"]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """``slots[offsets[e] : offsets[e + 1]]`` are the choices of expert ``e``, ascending; choice ``t * used + i``
    is the i-th of row ``t``."""

    experts: int
    used: int
    slots: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def active(self) -> tuple[int, ...]:
        """The experts somebody chose; nothing else is touched."""
        return tuple(int(expert) for expert in np.flatnonzero(np.diff(self.offsets)))

    def choices(self, expert: int) -> NDArray[np.int64]:
        return self.slots[self.offsets[expert] : self.offsets[expert + 1]]

    def rows(self, expert: int) -> NDArray[np.int64]:
        return self.choices(expert) // self.used


def group_by_expert(ids: NDArray[np.integer], experts: int) -> Groups:
    """Sort the choices ``ids`` [rows, used], any strides.

    Raises:
        OperandError: no such matrix, or an expert there is not.
    """
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or not ids.shape[1]:
        raise OperandError(
            "experts", why=f"{ids.dtype} array of shape {ids.shape}; expected integers [rows, used]"
        )
    flat = np.ascontiguousarray(ids).reshape(-1)
    if flat.size and not 0 <= int(flat.min()) <= int(flat.max()) < experts:
        raise OperandError("experts", why=f"choices {flat.min()} to {flat.max()}; there are {experts}")
    slots = np.argsort(flat, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=experts))])
    return Groups(experts, ids.shape[1], slots.astype(np.int64), offsets.astype(np.int64))
