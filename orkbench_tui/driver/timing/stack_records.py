"""Records of whole models, packs and kernels: what was measured on boards of the open stack, and what was drawn.

As in ``records``, each draws its number again from its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orkbench_tui.driver.timing.records import Record

__all__ = ["STACK_RECORDS", "stack_record"]

_STUDY = "prefill utilisation study"
_LOG = "roadmap, dated log"


def _ratios(*wanted: tuple[str, str, str]) -> Callable[[Mapping[str, float]], Mapping[str, float]]:
    """``(name, above, below)``: one figure over another."""
    return lambda f: {name: f[above] / f[below] for name, above, below in wanted}


def _spread(figures: Mapping[str, float]) -> Mapping[str, float]:
    kernels = [figures[name] for name in ("stock", "with SRAM", "with SRAM and patch")]
    return {"spread": max(kernels) - min(kernels)}


STACK_RECORDS: tuple[Record, ...] = (
    Record(
        "INV-207",
        "35B mixture by the precision of its attention",
        {
            "f16 prefill": 38.4,
            "f16 decode": 5.26,
            "q8_0 prefill": 36.9,
            "q8_0 decode": 6.59,
            "Q4_K prefill": 26.8,
            "Q4_K decode": 7.42,
        },
        "tok/s",
        _LOG + " 2026-08-19",
        "prefill falls and decode rises with fewer bits; below 5 bits the NPU is not used at all",
        {"q8_0 over f16, prefill": 0.96, "q8_0 over f16, decode": 1.25, "Q4_K over q8_0, prefill": 0.73},
        _ratios(
            ("q8_0 over f16, prefill", "q8_0 prefill", "f16 prefill"),
            ("q8_0 over f16, decode", "q8_0 decode", "f16 decode"),
            ("Q4_K over q8_0, prefill", "Q4_K prefill", "q8_0 prefill"),
        ),
    ),
    Record(
        "INV-241",
        "grouped int8 over one scale per channel",
        {"M=1": 13.2, "M=128": 283, "retracted": 1.18, "submit us": 2900, "floor us": 167},
        "x",
        "roadmap tier 16, item 5",
        "open: a submit of 128 rows takes 17 times its floor, and nobody has said why; 1.18 was of a proxy chain",
        {"submit over floor": 17.4},
        _ratios(("submit over floor", "submit us", "floor us")),
    ),
    Record(
        "INV-247",
        "kernel warnings of one run over several domains, by kernel",
        {"stock": 30, "with SRAM": 30, "with SRAM and patch": 30, "one domain": 0},
        "lines",
        "roadmap tier 17, section 5V",
        "the vendor driver leaks by itself: the kernels built here are not the cause",
        {"spread": 0},
        _spread,
    ),
    Record(
        "INV-297",
        "matmuls back to back against a live prefill",
        {"core 0, alone": 77, "cpu7, alone": 20, "core 0, live": 40, "cpu7, live": 56},
        "% busy",
        _STUDY + ", root cause",
        "what the core loses between matmuls the processor works: preparing the next one, never overlapped",
        {"core lost": 37, "processor gained": 36},
        lambda f: {
            "core lost": f["core 0, alone"] - f["core 0, live"],
            "processor gained": f["cpu7, live"] - f["cpu7, alone"],
        },
    ),
    Record(
        "INV-324",
        "dense prefill of Qwen3-1.7B Q8_0, 512 tokens, NPU and CPU",
        {"CPU": 9.48, "NPU": 83.42},
        "tok/s",
        _LOG + " 2026-06-23",
        "dense prefill belongs on the NPU",
        {"gain": 8.8},
        _ratios(("gain", "NPU", "CPU")),
    ),
    Record(
        "INV-329",
        "experts of int4 chained on the NPU over one dispatch each",
        {"chain": 3.40, "experts, least": 3.40, "experts, most": 3.67, "NPU tok/s": 5.33, "CPU tok/s": 27.5},
        "x",
        "roadmap tier 5",
        "a real gain of the primitive, and not enough: whole models stay several times slower than the CPU",
        {"CPU over NPU": 5.2},
        _ratios(("CPU over NPU", "CPU tok/s", "NPU tok/s")),
    ),
    Record(
        "INV-344",
        "runs over several domains before one fails",
        {"stock": 2, "patched, at least": 5},
        "runs",
        "roadmap tier 17",
        "with imports recorded in their domain none of the runs made failed",
    ),
    Record(
        "INV-352",
        "dispatch in a layer of decoding on the NPU",
        {"dispatch": 48, "layer": 1819},
        "us",
        "roadmap NEXT, 2026-09-04",
        "dispatch is no wall of decoding",
        {"share %": 2.6},
        lambda f: {"share %": 100 * f["dispatch"] / f["layer"]},
    ),
    Record(
        "INV-355",
        "submits of one matmul, one by one and chained",
        {"one by one": 55, "chained": 5},
        "submits",
        _STUDY + ", what is left",
        "already in the figures of the study: nothing more to win there",
        {"fewer": 11},
        _ratios(("fewer", "one by one", "chained")),
    ),
    Record(
        "INV-356",
        "host parts of a 7B prefill beside the NPU's",
        {"quantize": 2822, "dequantize": 2143, "run": 32521},
        "ms",
        _STUDY + ", two caveats",
        "overlapping both behind the run gains 1.15 times at best",
        {"host over run %": 15, "ceiling x": 1.15},
        lambda f: {
            "host over run %": 100 * (f["quantize"] + f["dequantize"]) / f["run"],
            "ceiling x": (f["quantize"] + f["dequantize"] + f["run"]) / f["run"],
        },
    ),
    Record(
        "INV-363",
        "error of one matmul: groups of 32, rotated, int8 activations, against Q4_0",
        {
            "G=32 rotated W4A8": 0.09809,
            "Q4_0": 0.09144,
            "excess perplexity x": 1.84,
            "layers, least": 0.008,
            "layers, most": 0.041,
        },
        "relative",
        "roadmap tier 16",
        "the format to have; that it costs more in perplexity than in error is open, and is not depth: the error "
        "of 24 layers stays flat",
        {"over Q4_0": 1.07},
        _ratios(("over Q4_0", "G=32 rotated W4A8", "Q4_0")),
    ),
    Record(
        "INV-364",
        "buffers of a 27B weight by group, K = 17408",
        {"K": 17408, "fine": 32, "coarse": 256},
        "",
        "roadmap tier 17, item 4",
        "coarser groups hold the same weights in fewer buffers, at equal quality by its authors' word",
        {"buffers, fine": 544, "buffers, coarse": 68, "fewer": 8},
        lambda f: {
            "buffers, fine": f["K"] / f["fine"],
            "buffers, coarse": f["K"] / f["coarse"],
            "fewer": f["coarse"] / f["fine"],
        },
    ),
)

_BY_ID = {row.id: row for row in STACK_RECORDS}


def stack_record(id: str) -> Record:
    """The record of an inventory row; KeyError when there is none."""
    return _BY_ID[id]
