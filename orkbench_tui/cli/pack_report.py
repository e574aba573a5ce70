"""What ``ork pack`` says about packs and placements, as data and as lines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orkbench_tui.runner.orkpack.placement import Domain, Placement
    from orkbench_tui.runner.orkpack.reader import OrkPack

__all__ = ["differences", "pack_facts", "pack_lines", "placement_facts", "placement_lines"]

_GIB, _MIB = 1 << 30, 1 << 20
_COLUMNS = "{:>6} {:>10} {:>7} {:>11} {:>11} {:>11} {:>7}"


def placement_facts(placement: Placement) -> dict[str, Any]:
    return {
        "ceiling_bytes": placement.policy.ceiling_bytes,
        "max_domains": placement.policy.max_domains,
        "layers_per_domain": placement.layers_per_domain or None,
        "full_k_copies": placement.keeps_full_k,
        "weight_bytes": placement.weight_bytes,
        "worst_domain_bytes": max(domain.weights for domain in placement.domains),
        "domains": [
            {
                "id": domain.id,
                "layers": list(domain.layers),
                "weights": len(domain.names),
                "weight_bytes": domain.weights,
                "full_k_bytes": domain.full_k,
                "scratch_bytes": domain.scratch,
                "anchor_bytes": domain.anchor,
                "total_bytes": domain.total,
            }
            for domain in placement.domains
        ],
    }


def placement_lines(placement: Placement) -> list[str]:
    """A table, and a plot where there is more than one domain."""
    from orkbench_tui.cli.plots import bars

    ceiling = placement.policy.ceiling_bytes
    lines = [_COLUMNS.format("domain", "layers", "weights", "MiB", "scratch MiB", "total MiB", "window")]
    for domain in placement.domains:
        lines.append(
            _COLUMNS.format(
                domain.id,
                _layers(domain),
                len(domain.names),
                f"{domain.weights / _MIB:.1f}",
                f"{(domain.scratch + domain.anchor) / _MIB:.1f}",
                f"{domain.total / _MIB:.1f}",
                f"{domain.total / ceiling:.0%}",
            )
        )
    worst = max(domain.weights for domain in placement.domains)
    count = len(placement.domains)
    lines.append(
        f"{placement.weight_bytes / _GIB:.2f} GiB of weights in {count} domain{'s' if count > 1 else ''} "
        f"of at most {ceiling >> 20} MiB; the fullest has {worst / _GIB:.2f} GiB of them"
    )
    if count > 1:
        labels = [str(domain.id) for domain in placement.domains]
        lines += [
            "",
            *bars("GiB of weights by domain", labels, [d.weights / _GIB for d in placement.domains]),
        ]
    return lines


def _layers(domain: Domain) -> str:
    inside = [layer for layer in domain.layers if layer >= 0]
    parts = ["other"] if len(inside) < len(domain.layers) else []
    if inside:
        parts.append(f"{inside[0]}-{inside[-1]}" if len(inside) > 1 else str(inside[0]))
    return "+".join(parts)


def pack_facts(pack: OrkPack) -> dict[str, Any]:
    header = pack.header
    packed = [pack.tensors[name] for name in pack.packed_names]
    return {
        "file": str(pack.path),
        "file_bytes": pack.file_bytes,
        "format": f"{header.major}.{header.minor}",
        "scheme": pack.scheme,
        "uuid": header.uuid.hex(),
        "created": header.created or None,
        "model": str(pack.metadata.get("general.name", "")) or None,
        "architecture": str(pack.metadata.get("general.architecture", "")) or None,
        "source_sha256": header.source_sha256.hex(),
        "digest": header.table_digest.hex(),
        "packed": len(packed),
        "stored_as": pack.tier_counts,
        "packed_bytes": sum(entry.data_size for entry in packed),
        "rotation_blocks": dict(
            sorted(Counter(str(entry.rotation) for entry in packed if entry.rotation).items())
        ),
        "raw": len(pack.raw_names),
        "raw_bytes": sum(pack.tensors[name].data_size for name in pack.raw_names),
        "sections": [
            {
                "name": section.name,
                "offset": section.offset,
                "bytes": section.size,
                "required": section.required,
            }
            for section in pack.sections.values()
        ],
        "provenance": pack.provenance,
        "placement": placement_facts(pack.placement),
    }


def pack_lines(pack: OrkPack) -> list[str]:
    facts = pack_facts(pack)
    blocks = ", ".join(f"{count} of {size}" for size, count in facts["rotation_blocks"].items()) or "none"
    stored = ", ".join(f"{count} {name}" for name, count in facts["stored_as"].items())
    return [
        f"file       {facts['file']}, {facts['file_bytes'] / _MIB:.1f} MiB, format {facts['format']}",
        f"model      {facts['model'] or 'no name'}, {facts['architecture'] or 'unknown architecture'}",
        f"source     {facts['provenance'].get('source', 'unknown')}, sha256 {facts['source_sha256']}",
        f"scheme     {facts['scheme']}; weights rotated in blocks: {blocks}",
        f"packed     {facts['packed']} weights, {facts['packed_bytes'] / _MIB:.1f} MiB: {stored}",
        f"raw        {facts['raw']} tensors, {facts['raw_bytes'] / _MIB:.1f} MiB",
        f"digest     {facts['digest']}",
        *placement_lines(pack.placement),
    ]


def differences(first: OrkPack, second: OrkPack) -> list[dict[str, str]]:
    """What differs, most general first: header facts, metadata, then tensor by tensor."""
    found: list[dict[str, str]] = []

    def compare(what: str, one: object, other: object) -> None:
        if one != other:
            found.append({"what": what, "first": str(one), "second": str(other)})

    compare("scheme", first.scheme, second.scheme)
    compare("source sha256", first.header.source_sha256.hex(), second.header.source_sha256.hex())
    compare("format", first.header.minor, second.header.minor)
    for key in sorted(set(first.metadata) | set(second.metadata)):
        if (key in first.metadata) != (key in second.metadata):
            compare(
                f"metadata {key}", *("there" if key in p.metadata else "missing" for p in (first, second))
            )
        elif first.metadata.stored(key) != second.metadata.stored(key):
            compare(f"metadata {key}", *(_short(p.metadata[key]) for p in (first, second)))
    for name in sorted(set(first.tensors) | set(second.tensors)):
        one, other = first.tensors.get(name), second.tensors.get(name)
        if one is None or other is None:
            compare(
                f"tensor {name}",
                "missing" if one is None else "there",
                "missing" if other is None else "there",
            )
            continue
        compare(f"tensor {name} shape", list(one.shape), list(other.shape))
        compare(f"tensor {name} rotation", one.rotation, other.rotation)
        compare(f"tensor {name} data", f"{one.data_crc:08x}", f"{other.data_crc:08x}")
        compare(f"tensor {name} scales", f"{one.scale_crc:08x}", f"{other.scale_crc:08x}")
    return found


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
