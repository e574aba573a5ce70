"""Weights in NPU memory: loaded once, domain by domain, without running anything, and sealed afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from orkbench_tui.errors import RefusedError
from orkbench_tui.native.tiles import padded
from orkbench_tui.runner.mapped_file import forget_pages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.linear import Int8WeightLike, NpuLike, PackedLike

__all__ = ["DomainLoad", "Residence", "ResidentWeights", "reside"]

# (what is being done, weights done, weights in all)
Progress = Callable[[str, int, int], None]


class _Packed(Protocol):
    def packed(self, name: str) -> PackedLike: ...


@dataclass(frozen=True, slots=True)
class DomainLoad:
    """What was loaded into one IOMMU domain."""

    id: int
    weights: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Residence:
    """What ``reside`` did: ``weights`` of ``expected``, and the jobs that ran meanwhile, which is 0.

    ``seconds`` is this machine's clock, from the first weight to the last; benchmarks begin after it.
    """

    weights: int
    expected: int
    domains: tuple[DomainLoad, ...]
    submits: int
    seconds: float

    @property
    def bytes(self) -> int:
        return sum(domain.bytes for domain in self.domains)

    @property
    def fullest(self) -> DomainLoad | None:
        return max(self.domains, key=lambda domain: domain.bytes, default=None)

    def as_dict(self) -> dict[str, Any]:
        fullest = self.fullest
        return {
            "weights": self.weights,
            "expected": self.expected,
            "bytes": self.bytes,
            "domains": [
                {"id": domain.id, "weights": domain.weights, "bytes": domain.bytes} for domain in self.domains
            ],
            "fullest_domain": None if fullest is None else fullest.id,
            "submits": self.submits,
            "seconds": self.seconds,
        }


class ResidentWeights:
    """The weights an NPU holds, by name: what is resident is told from here alone.

    Once sealed nothing more is loaded: a weight that comes later would be timed as if it were computing.
    """

    def __init__(self, npu: NpuLike) -> None:
        self._npu = npu
        self._weights: dict[str, Int8WeightLike] = {}
        self._domains: dict[str, tuple[int, int]] = {}
        self._sealed = False

    def load(self, name: str, tiles: NDArray[np.int8], k: int, n: int, domain: int) -> Int8WeightLike:
        """Put a weight into ``domain``; one that is there already is not loaded again.

        Raises:
            RefusedError: the weights are sealed; the tensor is named.
        """
        if name in self._weights:
            return self._weights[name]
        if self._sealed:
            raise RefusedError(
                f"tensor {name} is not in NPU memory",
                why="all weights were loaded before, and none may come later",
                do="make the pack again",
            )
        weight = self._npu.load_int8(name, tiles, k, n, domain=domain)
        self._weights[name] = weight
        self._domains[name] = (domain, k * n)
        return weight

    def seal(self) -> None:
        self._sealed = True

    def __getitem__(self, name: str) -> Int8WeightLike:
        """The weight; RefusedError, which names it, where it is not resident."""
        if name not in self._weights:
            raise RefusedError(
                f"tensor {name} is not in NPU memory",
                why=f"{len(self._weights)} others are",
                do="make the pack again",
            )
        return self._weights[name]

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    def __len__(self) -> int:
        return len(self._weights)

    def domains(self) -> tuple[DomainLoad, ...]:
        """Count and bytes in each domain, ascending."""
        ids = sorted({domain for domain, _ in self._domains.values()})
        return tuple(
            DomainLoad(
                wanted,
                sum(domain == wanted for domain, _ in self._domains.values()),
                sum(size for domain, size in self._domains.values() if domain == wanted),
            )
            for wanted in ids
        )


def reside(
    pack: _Packed,
    npu: NpuLike,
    names: Sequence[str],
    domain_of: Mapping[str, int],
    progress: Progress | None = None,
) -> tuple[ResidentWeights, Residence]:
    """Load ``names`` into their domains (0 where ``domain_of`` has none) and seal them.

    Domain by domain, ascending, so each is entered once; nothing is submitted.

    Raises:
        NoMemoryError: a domain or the memory does not suffice.
        InvalidFileError: a weight of the pack is damaged.
    """
    started, submits = time.perf_counter(), npu.counters.submits
    resident = ResidentWeights(npu)
    ordered = sorted(names, key=lambda name: domain_of.get(name, 0))
    for done, name in enumerate(ordered, start=1):
        stored = pack.packed(name)
        # Once: 4-bit codes become tiles each time they are asked for.
        tiles = stored.tiles
        weight = resident.load(name, tiles, padded(stored.K), padded(stored.N), domain_of.get(name, 0))
        if weight.tiles is not None:
            # The CPU reads the NPU's copy too, so the file's is not kept in memory beside it.
            forget_pages(tiles)
        if progress is not None:
            progress(f"loading {name}", done, len(ordered))
    resident.seal()
    report = Residence(
        weights=len(resident),
        expected=len(names),
        domains=resident.domains(),
        submits=npu.counters.submits - submits,
        seconds=time.perf_counter() - started,
    )
    return resident, report
