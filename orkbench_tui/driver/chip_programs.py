"""Chips whose register programs nobody has published, and what is known of their layouts.

The vendor's matrix interface says how weights lie on each chip. What to write into the registers is known
for RK3588 and taken over for chips of its layout; for the others a program would compute something else,
so nothing is submitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.driver.soc import Soc
from orkbench_tui.errors import RefusedError

__all__ = ["CHIP_TILES", "ChipTile", "require_known_programs", "tile_of"]


@dataclass(frozen=True, slots=True)
class ChipTile:
    """How one chip tiles operands of ``bits``: kernels of a group, channels of a tile, channels of an atom."""

    bits: int
    kernel_group: int
    k_granule: int
    atom_channels: int

    @property
    def tile_bytes(self) -> int:
        return self.kernel_group * self.k_granule * self.bits // 8


_RK3588 = (ChipTile(8, 32, 32, 16), ChipTile(16, 16, 32, 8), ChipTile(4, 64, 32, 32))
_RK3566 = (ChipTile(8, 16, 32, 8), ChipTile(16, 8, 16, 4))
_RK3562 = (ChipTile(8, 16, 32, 16), ChipTile(16, 8, 32, 8))

CHIP_TILES: Mapping[str, tuple[ChipTile, ...]] = MappingProxyType(
    {
        "rk3588": _RK3588,
        "rk3583": _RK3588,
        "rk3576": _RK3588,
        "rk3568": _RK3566,
        "rk3566": _RK3566,
        "rk3562": _RK3562,
    }
)
"""By chip. RK3583 is taken for an RK3588 with two cores; nobody says otherwise."""


def tile_of(soc: Soc, bits: int) -> ChipTile:
    """How a chip tiles operands of ``bits``.

    Raises:
        RefusedError: no source gives it.
    """
    found = [tile for tile in CHIP_TILES.get(soc.name, ()) if tile.bits == bits]
    if not found:
        known = ", ".join(str(tile.bits) for tile in CHIP_TILES.get(soc.name, ())) or "none"
        raise RefusedError(f"{bits}-bit operands on {soc.name}", why=f"layouts are known for {known} bits")
    return found[0]


def require_known_programs(soc: Soc) -> None:
    """Raises RefusedError for a chip whose registers nobody has published a program for."""
    if soc.programs_known:
        return
    tiles = CHIP_TILES.get(soc.name)
    layouts = (
        "; ".join(
            f"{t.bits}-bit weights lie in groups of {t.kernel_group} by {t.k_granule}, features in atoms of "
            f"{t.atom_channels}"
            for t in tiles
        )
        if tiles
        else "its layouts are not known"
    )
    raise RefusedError(
        f"programs for {soc.name}",
        why=f"{layouts}; which register values compute that has not been published",
        do="use a board with an RK3588 or RK3576",
    )
