"""What the name of a kernel says of it: version, vendor base, and the marks a builder put behind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.ops.kernel.features import Found

__all__ = ["MARKS", "KernelVariant", "contradictions", "kernel_variant"]

MARKS: dict[str, str] = {"sram": "sram", "fence": "fence"}
"""Mark in a release's name, and the feature it stands for among those the disk tells."""

_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,4}))?(?:-(.*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """``base`` is what the vendor calls it, such as ``vendor-rk35xx``; ``local`` is the rest of the name."""

    release: str
    version: tuple[int, int, int]
    base: str
    local: tuple[str, ...]

    @property
    def features(self) -> frozenset[str]:
        """Features its name promises."""
        return frozenset(MARKS[mark] for mark in self.local if mark in MARKS)

    @property
    def stock(self) -> bool:
        """Nothing was put behind the vendor's name."""
        return not self.local


def kernel_variant(release: str) -> KernelVariant | None:
    """The parts of ``uname -r``; None for a text that is no release.

    ``6.1.115-vendor-rk35xx-sram`` is version 6.1.115 of ``vendor-rk35xx`` with the mark ``sram``. A base ends with
    the first word that names a chip or a flavour's number.
    """
    found = _RELEASE.fullmatch(release.strip())
    if found is None:
        return None
    major, minor, patch, rest = found.groups()
    words = [word for word in (rest or "").split("-") if word]
    end = next((at + 1 for at, word in enumerate(words) if re.search(r"rk\d|rockchip|\d", word)), len(words))
    return KernelVariant(
        release.strip(), (int(major), int(minor), int(patch or 0)), "-".join(words[:end]), tuple(words[end:])
    )


def contradictions(variant: KernelVariant, found: Sequence[Found]) -> tuple[str, ...]:
    """Where a name promises what the kernel's own files deny, or keeps quiet about what they show."""
    told = {item.feature.name: item for item in found}
    lines = []
    for feature in MARKS.values():
        item = told.get(feature)
        if item is None or item.present is None or item.present == (feature in variant.features):
            continue
        promised = "names" if feature in variant.features else "does not name"
        lines.append(f"{variant.release} {promised} {feature}, but: {item.evidence}")
    return tuple(lines)
