"""The placement section of a pack: domains, entries, and the chunks each weight is mapped by, as bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.runner.orkpack.layout import PAGE, DType, TensorEntry, align
from orkbench_tui.runner.orkpack.placement import MAX_DOMAINS, Placement, Policy, Resident, plan_placement

__all__ = ["Chunk", "PlacementHead", "chunks_of", "parse_head", "placement_of", "record_bytes"]

POLICY_LAYER_GROUPS = 2
MAX_CHUNK_BYTES = 16 << 20
# A chain of tasks may touch this many imported chunks of one weight; more and the weight is copied in.
MAX_CHAINED_CHUNKS = 5
LOAD_IMPORT, LOAD_NATIVE = 0, 1
_TILE_BYTES = 1024

_HEAD = struct.Struct("<IIQIIIIII")
_DOMAIN = struct.Struct("<IIQQQQQ")
_ENTRY = struct.Struct("<IIIIII")
_CHUNK = struct.Struct("<IIQQQ")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A page-aligned piece of a weight: ``size`` bytes at ``file_offset``, from 1024-byte tile ``tile_first`` on."""

    size: int
    file_offset: int
    tile_first: int


@dataclass(frozen=True, slots=True)
class PlacementHead:
    domains: int
    ceiling_bytes: int
    policy: int
    layers_per_domain: int


def chunks_of(entry: TensorEntry) -> tuple[Chunk, ...]:
    """At most 16 MiB each; a chunk starts on a page and on a whole row of tiles, so that no task straddles two.

    Of a 4-bit weight they are the pieces to read: it becomes tiles while it is loaded.
    """
    unit = math.lcm(32 * entry.k_slice, PAGE)
    step = max(unit, MAX_CHUNK_BYTES // unit * unit)
    size = align(entry.data_size, PAGE)
    return tuple(
        Chunk(min(step, size - at), entry.data_offset + at, at // _TILE_BYTES) for at in range(0, size, step)
    )


def placement_of(
    entries: Sequence[TensorEntry],
    names: Sequence[str],
    packed: Sequence[int],
    ceiling_bytes: int | None = None,
) -> Placement:
    """Where the entries with the indices ``packed`` go."""
    weights = [
        Resident(
            names[index],
            entries[index].k_slice,
            entries[index].nmax,
            entries[index].resident_wbits,
            k_slice=entries[index].k_slice,
            nmax=entries[index].nmax,
        )
        for index in packed
    ]
    return plan_placement(weights, None if ceiling_bytes is None else Policy(ceiling_bytes=ceiling_bytes))


def record_bytes(
    placement: Placement, entries: Sequence[TensorEntry], names: Sequence[str], packed: Sequence[int]
) -> bytes:
    domain_of = placement.domain_of
    chunks = [(domain_of[names[index]], chunks_of(entries[index])) for index in packed]
    parts = [
        _HEAD.pack(
            len(placement.domains),
            MAX_DOMAINS,
            placement.policy.ceiling_bytes,
            POLICY_LAYER_GROUPS,
            placement.layers_per_domain,
            len(packed),
            sum(len(own) for _, own in chunks),
            int(placement.keeps_full_k),
            0,
        )
    ]
    for domain in placement.domains:
        parts.append(
            _DOMAIN.pack(
                domain.id,
                len(domain.names),
                domain.sliced,
                domain.full_k,
                domain.scratch,
                domain.anchor,
                domain.total,
            )
        )
    first = 0
    for index, (domain_id, own) in zip(packed, chunks, strict=True):
        stored_as_run = entries[index].dtype == DType.I8
        mode = LOAD_IMPORT if stored_as_run and len(own) <= MAX_CHAINED_CHUNKS else LOAD_NATIVE
        parts.append(_ENTRY.pack(index, domain_id, first, len(own), mode, 0))
        first += len(own)
    parts += [
        _CHUNK.pack(number, 0, c.size, c.file_offset, c.tile_first) for number, own in chunks for c in own
    ]
    return b"".join(parts)


def parse_head(data: bytes) -> PlacementHead:
    """ValueError where the section is cut short or its counts do not match its size."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes, its head alone has {_HEAD.size}")
    domains, _, ceiling, policy, layers, entries, chunks, _, _ = _HEAD.unpack_from(data)
    size = _HEAD.size + domains * _DOMAIN.size + entries * _ENTRY.size + chunks * _CHUNK.size
    if size != len(data):
        raise ValueError(f"{len(data)} bytes, {size} expected for {entries} entries and {chunks} chunks")
    return PlacementHead(domains, ceiling, policy, layers)
