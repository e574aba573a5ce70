"""When the open stack's authors found what: the dated entries of their roadmap, in our words, with commits.

Commits are of their repositories (the driver where nothing else is said), for looking a finding up.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TIMELINE", "Entry", "entries_about"]


@dataclass(frozen=True, slots=True)
class Entry:
    """``date`` is ISO 8601, ``tier`` the part of the roadmap it belongs to."""

    date: str
    tier: str
    text: str
    commits: tuple[str, ...] = ()


_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("2026-06-13", "header", "the roadmap is begun, from a comparison with the closed runtime", ""),
    (
        "2026-06-13",
        "tier 1a",
        "workers ran on little cores; pinned, three cores scale 1.92 in place of 1.11",
        "34b539e",
    ),
    (
        "2026-06-13",
        "tier 1b",
        "flat prefill was CPU threads waiting for each other: 4 threads, 155 tok/s",
        "",
    ),
    ("2026-06-13", "tier 1d", "pinning the whole process ruins decoding with 8 threads: ruled out", ""),
    ("2026-06-13", "tier 1c", "output in place fixed: coherence, not a register", "3fad74a 39d5369"),
    ("2026-06-13", "tier 1c-ii", "whole-K programs: one core 1.8 times, prefill 156 to 178 tok/s", "c1bb9cc"),
    ("2026-06-13", "tier 2", "decode submits closed: 98 % of one is the kernel and the NPU", ""),
    ("2026-06-13", "tier 3", "a resident layer and overlapped decoding are not viable: 7 tok/s at best", ""),
    ("2026-06-19", "tier 4b", "int4 takes several rows in one program, exact up to 32", ""),
    (
        "2026-06-23",
        "tier 5",
        "experts grouped on the NPU lose 60 to 80 times; dense prefill wins 8.8 times",
        "",
    ),
    ("2026-06-24", "tier 5b", "experts chained: 0.28 to 0.97 tok/s", "1bfeed3 3f5ae01"),
    (
        "2026-06-24",
        "tier 5c",
        "repacking vectorized and fused: 0.97 to 3.13 tok/s, 7.2 times under the CPU",
        "2b0ee20 b520ee7 b5bc5ce8b",
    ),
    (
        "2026-06-24",
        "tier 6",
        "one submit for three cores wedges the board; a submit for each is right",
        "dc4038b 6d7bc2c",
    ),
    (
        "2026-06-24",
        "tier 6",
        "chains pulled by the cores in turn: 3 times; the barrier's 1.3 is given up",
        "",
    ),
    (
        "2026-06-24",
        "tier 4",
        "int4: repacking fixed, streams built, rotation shown on the NPU",
        "2b0ee20 64c2ec4 1654064",
    ),
    (
        "2026-06-26",
        "tier 8",
        "mixed int8 and NF4 with importances: perplexity 11.33",
        "dc782b2 93364b7 d656955 2c38a27 f78bc04",
    ),
    (
        "2026-06-26",
        "tier 9",
        "filling memory: 10 GB/s where it is cacheable, 4-bit inflated without floats",
        "b53c59b 570cb68",
    ),
    ("2026-06-26", "tier 5", "one expert's matmul alone is faster on the NPU at every shape", "570cb68"),
    (
        "2026-06-26",
        "tier 5",
        "experts in packs; 4 GiB of addresses are a wall near 1909 experts",
        "c89cf8654 6b0d568",
    ),
    ("2026-06-26", "tier 5", "routing is skewed: Gini 0.44 and 0.65; a strided top-k had looked uniform", ""),
    ("2026-07-30", "tier 13", "weight-stationary dataflow breaks even: a weight is 76 times the buffer", ""),
    (
        "2026-08-19",
        "tier 14",
        "experts on the CPU, shipped: 36.9 tok/s, 1.59 times; attention fixed; no scan there",
        "",
    ),
    (
        "2026-08-24",
        "tier 15",
        "placement in the pack, in canonical order: the same layout in every run",
        "7d002965f",
    ),
    (
        "2026-08-24",
        "tier 17",
        "the leak is the vendor driver's: three kernels leave the same 30 warnings",
        "",
    ),
    ("2026-08-30", "tier 14", "a dropped job of any type makes its domain dirty", "5751e06"),
    (
        "2026-09-04",
        "NEXT",
        "slow decoding was host work: eight other causes closed, precompiled calls 1.4 to 3.5 times",
        "",
    ),
)

TIMELINE: tuple[Entry, ...] = tuple(
    Entry(date, tier, text, tuple(commits.split())) for date, tier, text, commits in _ROWS
)


def entries_about(word: str) -> tuple[Entry, ...]:
    """Entries that name ``word`` in date, tier, text or commits; all for an empty one."""
    wanted = word.casefold()
    return tuple(
        entry
        for entry in TIMELINE
        if wanted in " ".join((entry.date, entry.tier, entry.text, *entry.commits)).casefold()
    )
