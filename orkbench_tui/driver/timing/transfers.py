"""Moving bytes: into NPU memory, off the disk, over to the other side."""

from __future__ import annotations

from orkbench_tui.driver.timing.constants import value

__all__ = ["copy_in_ns", "copy_out_ns", "domain_ns", "fill_ns", "load_ns"]


def fill_ns(size: int, *, cached: bool = True) -> float:
    """Writing ``size`` bytes into NPU memory, cleaning included; write-combined when not ``cached``."""
    return size / value("fill_cached" if cached else "fill_uncached")


def copy_in_ns(size: int) -> float:
    """Activations of ``size`` bytes into the tiles the NPU reads."""
    return size / value("copy_in")


def copy_out_ns(size: int) -> float:
    """Results of ``size`` bytes out of NPU memory."""
    return size / value("copy_out")


def load_ns(
    pack_bytes: int,
    *,
    domains: int = 1,
    warm: bool = False,
    mapped: bool = True,
    disk_rate: float | None = None,
) -> float:
    """Weights of a pack into NPU memory.

    Args:
        domains: address windows the pack takes; each is made on its first visit.
        warm: the pack lies in the page cache, which is as good as memory.
        mapped: cold pages come by mapping the file, not by reading it: less slow on a disk that keeps up.
        disk_rate: bytes/ns of the disk; the published NVMe's where left out.
    """
    filling = fill_ns(pack_bytes)
    if not warm:
        slower = value("mapped_cold" if mapped else "read_cold")
        filling = max(pack_bytes / (disk_rate or value("disk_cold")), slower * filling)
    return filling + domain_ns(domains)


def domain_ns(first_visits: int) -> float:
    """Domains met for the first time; later switches cost nothing that was measured."""
    return first_visits * value("domain_first_touch")
