"""Quantization schemes a pack can have: data, so that a new one is a row and not a branch."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.errors import UsageError

__all__ = ["DEFAULT_SCHEME", "ROTATION_MAX", "SCHEMES", "Scheme", "scheme_named"]

# Wider blocks gain nothing more: at most 0.2 % of perplexity either way (docs/quality.md).
ROTATION_MAX = 128
# Signature: the character of the weight bits, and this bit when weights are stored rotated.
_ROTATED = 1 << 9


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the matmul weights of a pack are stored and multiplied.

    ``rotated``: rows of weights (when packed) and of activations (at run time) go through a Walsh-Hadamard
    transform in blocks of the largest power of two that divides K, up to ``ROTATION_MAX``, so that outliers cost less.
    """

    name: str
    signature: int
    rotated: bool
    summary: str

    def rotation(self, K: int) -> int:
        """The block to rotate rows of ``K`` values by, 0 for none. A block of 1 would change nothing."""
        block = min(K & -K, ROTATION_MAX) if self.rotated else 0
        return 0 if block == 1 else block


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("w8a8-rot", ord("8") | _ROTATED, True, "int8 per output channel and token, rotated along K"),
        Scheme("w8a8", ord("8"), False, "int8 per output channel and token"),
    )
}
DEFAULT_SCHEME = "w8a8-rot"


def scheme_named(name: str) -> Scheme:
    """UsageError with the known names where there is none of that name."""
    if name not in SCHEMES:
        raise UsageError(f"no scheme {name!r}", do=f"known: {', '.join(SCHEMES)}")
    return SCHEMES[name]
