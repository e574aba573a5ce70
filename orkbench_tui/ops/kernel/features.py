"""What a kernel contains, from evidence that can be read without starting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FEATURES", "Feature", "Found", "features_of"]


@dataclass(frozen=True, slots=True)
class Feature:
    """``text`` is a message only a kernel with it holds, ``symbol`` its configuration, ``patch`` its name in a manifest."""

    name: str
    title: str
    text: bytes = b""
    symbol: str = ""
    patch: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """``present`` is None when nothing read tells."""

    feature: Feature
    present: bool | None
    evidence: str


FEATURES: tuple[Feature, ...] = (
    Feature("rknpu", "rknpu driver", b"RKNPU", "ROCKCHIP_RKNPU"),
    Feature("domain-wait", "waits for a domain switch (0.9.8)", b"switch iommu domain time out"),
    Feature("sram", "on-chip SRAM for the NPU", b"", "ROCKCHIP_RKNPU_SRAM"),
    Feature("fence", "fences between jobs", b"", "ROCKCHIP_RKNPU_FENCE"),
    Feature("import-domain", "imports are recorded in their domain", patch="import-domain"),
    Feature(
        "defer-destroy",
        "a failed switch on destroy defers",
        b"deferred destroy, dma addr",
        patch="defer-destroy",
    ),
    Feature("job-domain-ref", "a job's domain reference is dropped once", patch="job-domain-ref"),
    Feature("refcount-clamp", "reference underflow is clamped", b"refcount underflow, clamped"),
    Feature("job-hw-time", "hardware time per core in debugfs", b"hw_ns", patch="job-hw-time"),
    Feature(
        "domain-anchor",
        "a new domain needs no buffer of its own before an import",
        b"failed to anchor iommu domain",
        patch="domain-anchor",
    ),
    Feature("counters", "diagnostic counters of the open stack", b"DEFERRED, not leaked"),
)


def features_of(
    image: bytes, config: Mapping[str, str], manifest: Mapping[str, Any] | None
) -> tuple[Found, ...]:
    """One finding per feature. ``image`` is the flat kernel, ``config`` without CONFIG_, empty when unknown."""
    return tuple(_found(feature, image, config, manifest) for feature in FEATURES)


def _found(
    feature: Feature, image: bytes, config: Mapping[str, str], manifest: Mapping[str, Any] | None
) -> Found:
    if feature.text and feature.text in image:
        return Found(feature, True, f"the image holds {feature.text.decode()!r}")
    if feature.symbol and config:
        value = config.get(feature.symbol, "n")
        return Found(feature, value in ("y", "m"), f"CONFIG_{feature.symbol} {value}")
    if feature.patch and manifest is not None:
        named = manifest.get("patches", [])
        has = isinstance(named, list) and any(feature.patch in str(name) for name in named)
        return Found(feature, has, "named by the build manifest" if has else "not in the build manifest")
    return Found(feature, None, "nothing on the disk tells")
