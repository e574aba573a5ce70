"""What was measured on a board beside the rows of the results, and the numbers its authors drew from it.

Each record carries its figures and draws the number again, so that a figure that was copied wrong shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["RECORDS", "Record", "record"]

_Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Record:
    """``figures`` are in ``unit``; ``said`` is what the source draws from them, and ``draw`` draws the same here.

    ``id`` is the row of the project's inventory.
    """

    id: str
    name: str
    figures: _Figures
    unit: str
    source: str
    verdict: str
    said: _Figures = field(default_factory=dict)
    draw: Callable[[_Figures], _Figures] = lambda figures: {}

    @property
    def drawn(self) -> _Figures:
        return self.draw(self.figures)


def _gains(*pairs: tuple[str, str, str]) -> Callable[[_Figures], _Figures]:
    """``(name, before, after)``: how many times less time ``after`` takes."""
    return lambda f: {name: f[before] / f[after] for name, before, after in pairs}


_PHASES = ("submit", "accumulate", "copy")


def _phases(figures: _Figures) -> _Figures:
    return {name: 100 * figures[name] / figures["call"] for name in _PHASES}


def _ablation(figures: _Figures) -> _Figures:
    saved = figures["resets"] - figures["no resets"]
    return {
        "saved s": saved,
        "saved %": 100 * saved / figures["resets"],
        "no clear s": figures["no clear"] - figures["resets"],
        "inside the resets s": figures["transitions"] * 0.105,
    }


def _unexplained(figures: _Figures) -> _Figures:
    submits = figures["K"] / figures["group"] * figures["layers"]
    return {
        "submits a matmul": figures["K"] / figures["group"],
        "submits": submits,
        "their floor s": submits * figures["floor us"] / 1e6,
        "slower, first": figures["NPU, first"] / figures["CPU"],
        "slower": figures["NPU"] / figures["CPU"],
    }


_NEXT = "roadmap NEXT, 2026-09-04"

RECORDS: tuple[Record, ...] = (
    Record(
        "INV-004",
        "one call of 512x2048x2048 on one core, four submits",
        {"call": 8620, "submit": 5491, "accumulate": 1793, "copy": 862},
        "us",
        "roadmap tier 1c, mc_prof",
        "two slices of K double the host's sums: whole-K programs took them away",
        {"submit": 64, "accumulate": 21, "copy": 10},
        _phases,
    ),
    Record(
        "INV-016",
        "the open stack against the closed one, before the work began",
        {"prefill": 3.2, "decode": 1.24, "cores, M=1": 1.76, "cores, M=512": 1.06},
        "x",
        "roadmap, header and tier 1",
        "prefill: large M does not spread over the cores; decode: about 100 us a matmul",
        {"three cores bring % at M=512": 6},
        lambda f: {"three cores bring % at M=512": 100 * (f["cores, M=512"] - 1)},
    ),
    Record(
        "INV-023",
        "one 2048x2048 matmul of one row, open over closed",
        {"time": 1.02},
        "x",
        "roadmap tier 2",
        "parity: nothing is left to trim in the submit itself",
    ),
    Record(
        "INV-072",
        "submits of the closed runtime, captured: core masks it uses, the mask it never uses, tasks linked in one",
        {"core 0": 1, "core 1": 2, "core 2": 4, "all cores": 7, "fewest tasks": 3, "most tasks": 6},
        "",
        "roadmap tier 6, librkllmrt multi-core capture",
        "one core a submit, in turns: a submit over several cores is not how it is driven",
    ),
    Record(
        "INV-101",
        "weights off the disk, against a warm page cache",
        {"mapped, cold": 1.4, "read, cold": 2.2, "mapped, warm": 1.005, "NVMe GB/s": 0.5},
        "x",
        "roadmap tier 9, disk note",
        "matters only where the model is larger than memory and the page is cold",
    ),
    Record(
        "INV-138",
        "share of the 132 us floor in a submit",
        {"1x512x512": 91, "1x4096x11008": 22, "128x2048x2048": 18, "256x4096x4096": 5, "ceiling x": 1.08},
        "%",
        "roadmap tier 11, mc_prof",
        "the layers that matter are bound by weights and work, not by the round trip",
    ),
    Record(
        "INV-259",
        "27B of mixed tiers, three interleaved runs an arm, 63 tokens scored",
        {"resets": 161.2, "no clear": 163.2, "no resets": 146.1, "transitions": 160},
        "s",
        "roadmap tier 18",
        "the reset is what keeps results right: without it the perplexity is 3442988.92 instead of 10.4421",
        {"saved s": 15.1, "saved %": 9.4, "no clear s": 2.0, "inside the resets s": 16.8},
        _ablation,
    ),
    Record(
        "INV-263",
        "domain switches of a whole 27B run, groups of 512",
        {"switches": 12, "steady switches": 0, "ms": 26.7, "run s": 220.9},
        "",
        "roadmap tier 18, ORK_DOM_PROFILE",
        "each domain is entered once: switching explains nothing of the run's time",
        {"share %": 0.012},
        lambda f: {"share %": 100 * f["ms"] / 1e3 / f["run s"]},
    ),
    Record(
        "INV-264",
        "27B, 63 tokens scored, and the submits its groups add",
        {
            "NPU, first": 220.9,
            "NPU": 161,
            "CPU": 18.0,
            "K": 17408,
            "group": 512,
            "layers": 64,
            "floor us": 167,
        },
        "s",
        "roadmap tier 18",
        "open: neither resets nor domains nor the floor of the added submits explain it",
        {"submits a matmul": 34, "submits": 2176, "their floor s": 0.4, "slower, first": 12.3, "slower": 8.9},
        _unexplained,
    ),
    Record(
        "INV-275",
        "hardware time of one job at 3072x1024, by the kernel",
        {"probe": 150.9, "handler": 146.2, "wait": 0.0},
        "us",
        _NEXT,
        "the same hardware time in both: the difference between the two is host work",
        {"apart %": 3},
        lambda f: {"apart %": 100 * (f["probe"] / f["handler"] - 1)},
    ),
    Record(
        "INV-276",
        "the caller of a doorbell on the big cores for the length of the call",
        {
            "begin, any core": 654.7,
            "begin, big core": 350.3,
            "down, any core": 1032,
            "down, big core": 820,
            "layer, any core": 2079,
            "layer, big core": 1884,
        },
        "us",
        _NEXT,
        "worth 1.13 times in decode (4.93 to 5.58 tok/s)",
        {"begin": 1.87, "down": 1.26, "layer": 1.10},
        _gains(
            ("begin", "begin, any core", "begin, big core"),
            ("down", "down, any core", "down, big core"),
            ("layer", "layer, any core", "layer, big core"),
        ),
    ),
    Record(
        "INV-277",
        "the same around the doorbell of a chain",
        {
            "gate and up, before": 1005,
            "gate and up, after": 1091,
            "decode, before": 5.58,
            "decode, after": 5.45,
        },
        "us, tok/s",
        _NEXT,
        "worse, so chains are left where they are",
        {"decode lost %": 2.3},
        lambda f: {"decode lost %": 100 * (1 - f["decode, after"] / f["decode, before"])},
    ),
    Record(
        "INV-279",
        "FFN layer of qwen3-0.6b, built each time and precompiled",
        {
            "gate and up": 858,
            "gate and up, compiled": 647,
            "down": 743,
            "down, compiled": 410,
            "silu": 44,
            "silu, with mirrors": 67,
            "layer": 1673,
            "layer, compiled": 1139,
        },
        "us",
        _NEXT,
        "results must be copied out of uncached memory at once: read one by one they cost 311 us",
        {"gate and up": 1.33, "down": 1.81, "layer": 1.47},
        _gains(
            ("gate and up", "gate and up", "gate and up, compiled"),
            ("down", "down", "down, compiled"),
            ("layer", "layer", "layer, compiled"),
        ),
    ),
    Record(
        "INV-288",
        "decode by route: CPU, FFN on the NPU (2), all matmuls on the NPU one by one (1)",
        {"0.6B CPU": 16.56, "0.6B route 2": 7.5, "0.8B route 1": 3.40, "0.8B route 1, any core": 3.13},
        "tok/s",
        _NEXT,
        "0.6B belongs on the CPU; 0.8B is the one model measured whose decode belongs on the NPU, by route 1",
        {"0.6B CPU over route 2": 2.2, "0.8B big core": 1.09},
        lambda f: {
            "0.6B CPU over route 2": f["0.6B CPU"] / f["0.6B route 2"],
            "0.8B big core": f["0.8B route 1"] / f["0.8B route 1, any core"],
        },
    ),
)

_BY_ID = {row.id: row for row in RECORDS}


def record(id: str) -> Record:
    """The record of an inventory row; KeyError when there is none."""
    return _BY_ID[id]
