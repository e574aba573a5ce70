"""Weight rate of each hop of a decoder's feed-forward: gate and up together, then down."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orkbench_tui.errors import InvalidFileError

__all__ = ["Hop", "feed_forward_hops", "hop_lines", "parse_hops"]

_LINE = re.compile(r"(gate\+up|down) +([0-9]{1,12}) bytes +([0-9]{1,9}(?:\.[0-9]{1,3})?) us", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hop:
    """Bytes of int8 weights one hop streams, and its time."""

    name: str
    weight_bytes: int
    us: float

    @property
    def gb_per_s(self) -> float:
        return self.weight_bytes / self.us / 1e3


def feed_forward_hops(K: int, Nff: int, Kd: int, *, gate_up_us: float, down_us: float) -> tuple[Hop, Hop]:
    """Hops of a layer of width K and inner width Nff whose down projection gives Kd.

    Raises:
        ValueError: a size or time that is not positive.
    """
    if min(K, Nff, Kd, gate_up_us, down_us) <= 0:
        raise ValueError("sizes and times are positive")
    return Hop("gate+up", 2 * K * Nff, gate_up_us), Hop("down", Nff * Kd, down_us)


def hop_lines(hops: tuple[Hop, ...]) -> str:
    """One line a hop, which ``parse_hops`` reads again."""
    return "".join(
        f"{hop.name:<8} {hop.weight_bytes} bytes {hop.us:.3f} us {hop.gb_per_s:.2f} GB/s\n" for hop in hops
    )


def parse_hops(text: str) -> tuple[Hop, ...]:
    """Hops of ``hop_lines``; lines of other kinds are passed over.

    Raises:
        InvalidFileError: a hop that took no time, or none at all.
    """
    found = [Hop(m[1], int(m[2]), float(m[3])) for line in text.splitlines() if (m := _LINE.match(line))]
    if not found or any(hop.us <= 0 for hop in found):
        raise InvalidFileError("a profile of hops", why="a hop without a time" if found else "no hop in it")
    return tuple(found)
