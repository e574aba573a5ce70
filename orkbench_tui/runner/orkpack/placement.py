"""Which IOMMU domain each weight lives in, decided once from all shapes.

A window holds less than 4 GiB and entering another costs time, so consecutive layers share a domain and a
layer stays whole. The result is a function of shapes and policy alone: the order of the input plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import NoMemoryError
from orkbench_tui.runner.models.architecture import canonical_key
from orkbench_tui.runner.orkpack.residency import resident_bytes

__all__ = ["MAX_DOMAINS", "Domain", "Placement", "Policy", "Resident", "plan_placement"]

MAX_DOMAINS = 16
ANCHOR_BYTES = 64 << 10
# Register programs and task arrays of a domain, the shared ones and those of three cores.
_PROGRAM_BYTES = (2 << 20) + (512 << 10) + 3 * (128 << 10)
_STAGED_ROWS = 256
_AFTER_THE_STACK = 1 << 30


@dataclass(frozen=True, slots=True)
class Policy:
    """``target_bytes``: what layers of one domain may come to together; ``soft_domains``: how many are planned for.

    ``full_k_budget_bytes``: second copies over the whole K are kept while everything fits this, else of none.
    """

    ceiling_bytes: int = RK3588.iova_guard_bytes
    max_domains: int = MAX_DOMAINS
    soft_domains: int = MAX_DOMAINS - 1
    target_bytes: int = 1152 << 20
    full_k_budget_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Resident:
    """A weight of K inputs and N outputs; ``wbits`` is its width in NPU memory.

    ``k_slice`` and ``nmax`` say how it is cut; 0 is as the published packs are.
    """

    name: str
    K: int
    N: int
    wbits: int = 8
    want_full_k: bool = False
    k_slice: int = 0
    nmax: int = 0

    def bytes(self, full_k: bool) -> tuple[int, int]:
        return resident_bytes(
            self.K,
            self.N,
            self.wbits,
            want_full_k=full_k and self.want_full_k,
            k_slice=self.k_slice or None,
            nmax=self.nmax or None,
        )


@dataclass(frozen=True, slots=True)
class Domain:
    """Bytes of one domain by what they are for, and the layers it holds (-1: tensors outside the stack)."""

    id: int
    names: tuple[str, ...]
    layers: tuple[int, ...]
    sliced: int
    full_k: int
    scratch: int
    anchor: int

    @property
    def weights(self) -> int:
        return self.sliced + self.full_k

    @property
    def total(self) -> int:
        return self.weights + self.scratch + self.anchor


@dataclass(frozen=True, slots=True)
class Placement:
    """``layers_per_domain`` is 0 where one domain holds everything."""

    policy: Policy
    layers_per_domain: int
    keeps_full_k: bool
    domains: tuple[Domain, ...]

    @property
    def domain_of(self) -> dict[str, int]:
        return {name: domain.id for domain in self.domains for name in domain.names}

    @property
    def weight_bytes(self) -> int:
        return sum(domain.weights for domain in self.domains)


@dataclass(slots=True)
class _Filling:
    id: int
    units: list[tuple[int, Resident]] = field(default_factory=list)


def scratch_bytes(weights: Sequence[Resident]) -> int:
    """Programs, tasks, and room for the widest operands and results of a chunk of rows."""
    widest = max((weight.K + 4 * weight.N for weight in weights), default=0)
    return _PROGRAM_BYTES + _STAGED_ROWS * widest


def plan_placement(weights: Sequence[Resident], policy: Policy | None = None) -> Placement:
    """Place ``weights``.

    Raises:
        NoMemoryError: naming the first layer or weight that does not fit.
    """
    policy = policy or Policy()
    ordered = sorted(weights, key=lambda weight: canonical_key(weight.name))
    keeps = any(weight.want_full_k for weight in ordered) and (
        sum(sum(weight.bytes(True)) for weight in ordered) <= policy.full_k_budget_bytes
    )
    size = {weight.name: sum(weight.bytes(keeps)) for weight in ordered}
    scratch = scratch_bytes(ordered)
    layers = {weight.name: canonical_key(weight.name)[0] for weight in ordered}
    in_stack = {name for name, layer in layers.items() if 0 <= layer < _AFTER_THE_STACK}
    stack = [weight for weight in ordered if weight.name in in_stack]
    outside = [weight for weight in ordered if weight.name not in in_stack]
    total = sum(size.values())
    if total + scratch <= policy.ceiling_bytes:
        return _placed(
            [_Filling(0, [(_shown(layers[w.name]), w) for w in ordered])], policy, 0, keeps, scratch
        )
    by_layer: dict[int, list[Resident]] = {}
    for weight in stack:
        by_layer.setdefault(layers[weight.name], []).append(weight)
    count, bytes_of_stack = max(1, len(by_layer)), sum(size[weight.name] for weight in stack)
    together = max(-(-count // policy.soft_domains), policy.target_bytes * count // max(1, bytes_of_stack), 1)
    fillings = _fill(by_layer, outside, size, together, policy, scratch)
    return _placed(fillings, policy, together, keeps, scratch)


def _shown(layer: int) -> int:
    return -1 if layer == _AFTER_THE_STACK else layer


def _fill(
    by_layer: Mapping[int, Sequence[Resident]],
    outside: Sequence[Resident],
    size: Mapping[str, int],
    together: int,
    policy: Policy,
    scratch: int,
) -> list[_Filling]:
    room = policy.ceiling_bytes - scratch - ANCHOR_BYTES
    fillings = [_Filling(0)]
    used = held = 0

    def put(layer: int, weights: Sequence[Resident]) -> None:
        """Into the domain being filled, or the next where it is full; a layer too large for one goes by expert."""
        nonlocal used
        needed = sum(size[weight.name] for weight in weights)
        if needed > room:
            parts = _by_expert(weights)
            if len(parts) == 1:
                raise _too_large(layer, weights[0].name, needed, room)
            for part in parts:
                put(layer, part)
            return
        if used + needed > room:
            _next(layer, weights[0].name)
        fillings[-1].units += [(layer, weight) for weight in weights]
        used += needed

    def _next(layer: int, name: str) -> None:
        nonlocal used, held
        if len(fillings) == policy.max_domains:
            raise NoMemoryError(
                f"the weights need more than {policy.max_domains} IOMMU domains",
                why=f"{name} would be the first of domain {policy.max_domains}",
                do="choose a smaller model or fewer bits",
            )
        fillings.append(_Filling(len(fillings)))
        used = held = 0

    if outside:
        put(-1, outside)
    for layer in sorted(by_layer):
        if held == together:
            _next(layer, by_layer[layer][0].name)
        put(layer, by_layer[layer])
        held += 1
    return fillings


def _by_expert(weights: Sequence[Resident]) -> list[list[Resident]]:
    """What all tokens use first, then expert by expert."""
    parts: dict[int, list[Resident]] = {}
    for weight in weights:
        parts.setdefault(canonical_key(weight.name)[2], []).append(weight)
    return [parts[expert] for expert in sorted(parts)]


def _too_large(layer: int, name: str, needed: int, room: int) -> NoMemoryError:
    where = "outside the layers" if layer < 0 else f"of layer {layer}"
    return NoMemoryError(
        f"the weights {where} do not fit one IOMMU domain",
        why=f"{name} and what must stay with it take {needed} bytes, {room} are free in an empty domain",
        do="choose a smaller model or fewer bits",
    )


def _placed(
    fillings: Sequence[_Filling], policy: Policy, together: int, keeps: bool, scratch: int
) -> Placement:
    domains = []
    for filling in fillings:
        sizes = [weight.bytes(keeps) for _, weight in filling.units]
        domains.append(
            Domain(
                id=filling.id,
                names=tuple(weight.name for _, weight in filling.units),
                layers=tuple(sorted({layer for layer, _ in filling.units})),
                sliced=sum(sliced for sliced, _ in sizes),
                full_k=sum(whole for _, whole in sizes),
                scratch=scratch,
                anchor=ANCHOR_BYTES if filling.id else 0,
            )
        )
    return Placement(policy, together, keeps, tuple(domains))
