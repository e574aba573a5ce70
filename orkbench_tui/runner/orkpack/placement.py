"""Which IOMMU domain each packed weight lives in, and the chunks it is mapped by.

This planner puts everything into domain 0 and fails where that cannot hold it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import NoMemoryError
from orkbench_tui.runner.orkpack.layout import PAGE, TensorEntry, align

__all__ = ["Chunk", "Placed", "Placement", "parse_placement", "plan_single_domain"]

MAX_DOMAINS = 16
MAX_CHUNK_BYTES = 16 << 20
# A chain of tasks may touch this many imported chunks of one weight; more and the weight is copied in.
MAX_CHAINED_CHUNKS = 5
POLICY_SINGLE_DOMAIN = 1
LOAD_IMPORT, LOAD_NATIVE = 0, 1
_TILE_BYTES = 1024

_HEAD = struct.Struct("<IIQIIIIII")
_DOMAIN = struct.Struct("<IIQQQQQ")
_ENTRY = struct.Struct("<IIIIII")
_CHUNK = struct.Struct("<IIQQQ")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A page-aligned piece of a weight: ``size`` bytes at ``file_offset``, from 1024-byte tile ``tile_first`` on."""

    domain: int
    size: int
    file_offset: int
    tile_first: int


@dataclass(frozen=True, slots=True)
class Placed:
    tensor: int
    domain: int
    chunks: tuple[Chunk, ...]
    load_mode: int


@dataclass(frozen=True, slots=True)
class Placement:
    ceiling_bytes: int
    layers_per_domain: int
    entries: tuple[Placed, ...]
    domain_bytes: int

    def pack(self) -> bytes:
        chunks = [chunk for entry in self.entries for chunk in entry.chunks]
        parts = [
            _HEAD.pack(
                1,
                MAX_DOMAINS,
                self.ceiling_bytes,
                POLICY_SINGLE_DOMAIN,
                self.layers_per_domain,
                len(self.entries),
                len(chunks),
                0,
                0,
            ),
            _DOMAIN.pack(0, len(self.entries), self.domain_bytes, 0, 0, 0, self.domain_bytes),
        ]
        first = 0
        for entry in self.entries:
            parts.append(
                _ENTRY.pack(entry.tensor, entry.domain, first, len(entry.chunks), entry.load_mode, 0)
            )
            first += len(entry.chunks)
        parts += [_CHUNK.pack(c.domain, 0, c.size, c.file_offset, c.tile_first) for c in chunks]
        return b"".join(parts)


def _chunks(entry: TensorEntry) -> tuple[Chunk, ...]:
    # A chunk starts on a page and on a whole row of tiles, so that a task never straddles two.
    unit = math.lcm(32 * entry.k_slice, PAGE)
    step = max(unit, MAX_CHUNK_BYTES // unit * unit)
    size = align(entry.data_size, PAGE)
    return tuple(
        Chunk(0, min(step, size - at), entry.data_offset + at, at // _TILE_BYTES)
        for at in range(0, size, step)
    )


def plan_single_domain(
    entries: Sequence[TensorEntry], names: Sequence[str], packed: Sequence[int], layers: int
) -> Placement:
    """Place the entries with the indices ``packed``; NoMemoryError names the first that does not fit."""
    ceiling = RK3588.iova_guard_bytes
    placed: list[Placed] = []
    total = 0
    for index in packed:
        entry = entries[index]
        total += entry.resident_bb
        chunks = _chunks(entry)
        if total > ceiling:
            raise NoMemoryError(
                f"the weights do not fit one IOMMU domain: {names[index]} brings them to {total} bytes",
                why=f"a domain holds {ceiling} bytes",
                do="choose a smaller model",
            )
        mode = LOAD_NATIVE if len(chunks) > MAX_CHAINED_CHUNKS else LOAD_IMPORT
        placed.append(Placed(index, 0, chunks, mode))
    return Placement(ceiling, layers, tuple(placed), total)


def parse_placement(data: bytes) -> tuple[int, int, bytes]:
    """(policy, layers per domain, ``data``) of a stored placement; ValueError where it is cut short."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes, its head alone has {_HEAD.size}")
    domains, _, _, policy, layers, entries, chunks, _, _ = _HEAD.unpack_from(data)
    size = _HEAD.size + domains * _DOMAIN.size + entries * _ENTRY.size + chunks * _CHUNK.size
    if size != len(data):
        raise ValueError(f"{len(data)} bytes, {size} expected for {entries} entries and {chunks} chunks")
    return policy, layers, data
