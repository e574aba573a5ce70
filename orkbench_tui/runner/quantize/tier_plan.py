"""Which weight of a model is stored in how many bits, why, and from which figures: decided before any is packed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import EMBEDDING_NAME, HEAD_NAME, Architecture
from orkbench_tui.runner.orkpack.schemes import Scheme, Tier
from orkbench_tui.runner.quantize.tiers import LOW_BITS, effective_bits, source_stamp, tier_of

if TYPE_CHECKING:
    from orkbench_tui.runner.quantize.calibration import Calibration

__all__ = ["PackChoices", "TierPlan", "allocation_of", "map_lines", "tier_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class PackChoices:
    """``allocation``: another GGUF whose types say which weights get 4 bits; its values are never used.

    ``calibration`` weighs errors by what inputs are like; with ``gptq`` they are spread over later columns.
    ``force`` takes a source of hardly more bits.
    """

    allocation: Path | None = None
    calibration: Calibration | None = None
    gptq: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TierPlan:
    """``tiers[name]`` is the tier and the reason; ``stamps`` tell of low-bit sources."""

    tiers: Mapping[str, tuple[Tier, str]]
    choices: PackChoices
    stamps: tuple[str, ...]
    allocation_sha256: str

    @property
    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(tier for tier, _ in self.tiers.values()).items()))

    @property
    def map_sha256(self) -> str:
        return hashlib.sha256("\n".join(map_lines(self.tiers)).encode()).hexdigest()

    @property
    def signature(self) -> int:
        """Upper half of a pack's signature: what besides the scheme makes packs of one model differ."""
        if self.choices.calibration is None and not self.allocation_sha256:
            return 0
        facts = {key: value for key, value in self.facts().items() if key != "low_bit_sources"}
        return (zlib.crc32(json.dumps(facts, sort_keys=True).encode()) & 0xFFFF) << 16

    def facts(self) -> dict[str, Any]:
        """For the provenance of a pack."""
        calibration = self.choices.calibration
        return {
            "tiers": self.counts,
            "tier_map_sha256": self.map_sha256,
            "tier_reasons": dict(sorted(Counter(why for _, why in self.tiers.values()).items())),
            "allocation_sha256": self.allocation_sha256,
            "calibration_sha256": "" if calibration is None else calibration.digest,
            "quantizer": "gptq" if self.choices.gptq else "nearest",
            "crosscheck": "none",
            "low_bit_sources": list(self.stamps),
        }


def allocation_of(path: Path) -> dict[str, Tier]:
    """Tier of every matrix of a GGUF by the bits of its type; reads the header only."""
    with GgufFile.open(path) as model:
        return {
            name: "uniform4" if tier_of(info.type) == "int4" else "int8"
            for name, info in model.tensors.items()
            if len(info.shape) >= 2
        }


def map_lines(tiers: Mapping[str, tuple[Tier, str]]) -> list[str]:
    """A line for each weight: name, TAB, ``int8`` or ``int4``."""
    return [f"{name}\t{'int8' if tier == 'int8' else 'int4'}" for name, (tier, _) in sorted(tiers.items())]


def tier_plan(
    model: GgufFile, architecture: Architecture, scheme: Scheme, choices: PackChoices, model_sha256: str
) -> TierPlan:
    """Decide every weight.

    Raises:
        RefusedError: a weight to be stored in 4 bits has hardly more in the source, and nothing is forced.
        UsageError: choices a scheme without 4-bit weights has no use for, or GPTQ without Hessians.
        InvalidFileError: the allocation or the calibration is of another model.
    """
    calibration = choices.calibration
    asked = choices.allocation is not None or calibration is not None or choices.gptq
    if scheme.four_bit is None and asked:
        raise UsageError(
            f"scheme {scheme.name} stores every weight in 8 bits",
            do="--allocation, --calibration and --gptq are for --quant w4a8-g32-rot or nf4-mixed",
        )
    if calibration is not None:
        calibration.require_model(model_sha256)
    if choices.gptq and (calibration is None or not calibration.has_hessians):
        raise UsageError("--gptq needs Hessians", do="run: ork pack calibrate, then give --calibration")
    if choices.gptq and scheme.four_bit != "uniform4":
        raise UsageError(
            f"--gptq has no codes of scheme {scheme.name}", do="use it with --quant w4a8-g32-rot"
        )
    allocation, digest = _allocated(choices.allocation, architecture)
    tiers: dict[str, tuple[Tier, str]] = {}
    stamps: list[str] = []
    for linear in architecture.all_linears():
        tier, why = scheme.tier(linear.name, linear.K)
        if allocation is not None and why in ("scheme", "part of the model", "head"):
            wanted = allocation.get(linear.source or linear.name, "int8")
            if scheme.four_bit is not None and wanted != "int8":
                wanted = scheme.four_bit
            tier, why = wanted, "allocation"
        if tier != "int8":
            stamp = source_stamp(linear.name, model.tensors[linear.source].type, force=choices.force)
            if stamp["low_bit_source"]:
                stamps.append(f"{linear.name}: {stamp['source_type']}")
        tiers[linear.name] = tier, why
    return TierPlan(tiers, choices, tuple(stamps), digest)


def _allocated(path: Path | None, architecture: Architecture) -> tuple[dict[str, Tier] | None, str]:
    if path is None:
        return None, ""
    allocation = allocation_of(path)
    if HEAD_NAME not in allocation and EMBEDDING_NAME in allocation:
        allocation[HEAD_NAME] = allocation[EMBEDDING_NAME]
    missing = [linear.source for linear in architecture.all_linears() if linear.source not in allocation]
    if missing:
        raise InvalidFileError(
            f"{path.name} is of another model", why=f"it has no tensor {missing[0]}", do="name another file"
        )
    lines = "\n".join(f"{name}\t{tier}" for name, tier in sorted(allocation.items()))
    return allocation, hashlib.sha256(lines.encode()).hexdigest()


def type_counts(path: Path) -> dict[tuple[str, Tier], int]:
    """How many matrices of each type a GGUF has, and the tier they get."""
    with GgufFile.open(path) as model:
        return dict(
            Counter(
                (info.type.name, "int8" if effective_bits(info.type) >= LOW_BITS else "uniform4")
                for info in model.tensors.values()
                if len(info.shape) >= 2
            )
        )
