"""Quantization schemes a pack can have: data, so that a new one is a row and not a branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.models.architecture import HEAD_NAME

__all__ = ["DEFAULT_SCHEME", "ROTATION_MAX", "SCHEMES", "Scheme", "Tier", "rotation_of", "scheme_named"]

Tier = Literal["int8", "uniform4", "nf4"]

# Wider blocks gain nothing more: at most 0.2 % of perplexity either way (docs/quality.md).
ROTATION_MAX = 128
# Signature: the character of the weight bits, then bits for what differs between schemes of those bits.
_MIXED = 1 << 8
_ROTATED = 1 << 9
_INFLATED = 1 << 10
_CODEBOOK = 1 << 11
_TILE = 32


def rotation_of(K: int) -> int:
    """The block rows of ``K`` values are rotated by; 0 where it would be 1 and change nothing."""
    block = min(K & -K, ROTATION_MAX)
    return 0 if block == 1 else block


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the matmul weights of a pack are stored and multiplied; all are multiplied as int8.

    ``rotated``: rows of weights (when packed) and of activations (at run time) go through a Walsh-Hadamard
    transform in blocks of the largest power of two that divides K, up to ``ROTATION_MAX``, so that outliers cost less.
    ``four_bit`` is the tier of the weights whose names hold one of ``parts`` (all layers' where empty), in
    groups of ``group`` along K. The head is int8 in every scheme: it is one large weight, and every token passes it.
    """

    name: str
    signature: int
    rotated: bool
    summary: str
    four_bit: Tier | None = None
    group: int = 0
    parts: tuple[str, ...] = ()

    def rotation(self, K: int) -> int:
        """The block to rotate rows of ``K`` values by, 0 for none."""
        return rotation_of(K) if self.rotated else 0

    def tier(self, name: str, K: int) -> tuple[Tier, str]:
        """What the weight is stored as, and the reason for it."""
        if self.four_bit is None:
            return "int8", "scheme"
        if K % _TILE or K % (self.group or _TILE):
            return "int8", "shape"
        if name == HEAD_NAME:
            return "int8", "head"
        if self.parts and not any(part in name for part in self.parts):
            return "int8", "part of the model"
        return self.four_bit, "scheme"


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("w8a8-rot", ord("8") | _ROTATED, True, "int8 per output channel and token, rotated along K"),
        Scheme("w8a8", ord("8"), False, "int8 per output channel and token"),
        Scheme(
            "w4a8-g32-rot",
            ord("4") | _ROTATED | _INFLATED,
            True,
            "4 bits in groups of 32, multiplied as int8, rotated along K; head int8",
            "uniform4",
            32,
        ),
        Scheme(
            "nf4-mixed",
            ord("4") | _MIXED | _ROTATED | _INFLATED | _CODEBOOK,
            True,
            "feed-forward in the NF4 codebook in groups of 32, the rest int8, all rotated along K",
            "nf4",
            32,
            (".ffn_",),
        ),
    )
}
DEFAULT_SCHEME = "w8a8-rot"


def scheme_named(name: str) -> Scheme:
    """UsageError with the known names where there is none of that name."""
    if name not in SCHEMES:
        raise UsageError(f"no scheme {name!r}", do=f"known: {', '.join(SCHEMES)}")
    return SCHEMES[name]
