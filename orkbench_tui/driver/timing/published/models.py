"""Published figures of whole models: prefill, decode, experts, attention, memory."""

from __future__ import annotations

from orkbench_tui.driver.timing.published.figure import STUDY, Figure, rows

__all__ = ["FIGURES"]

_QWEN = "Qwen3-1.7B w8a8, -t 4, pp512"
_MOE = "Qwen3.6-35B-A3B Q4_K, -t 4"
_SEVEN = "Qwen2.5-7B w8a8, fc0d618c8, loaded 168, 10 GiB in 4 domains, governors at maximum, -t 4, warm"

FIGURES: tuple[Figure, ...] = (
    *rows("RES-01", "tier 1b", "closed runtime, Qwen3-1.7B w8a8", "tok/s", {"prefill": 184, "decode": 11.71}),
    *rows("RES-02", "header", _QWEN, "tok/s", {"prefill": 178, "decode": 12.8}),
    *rows(
        "RES-03",
        "tier 1b",
        "Qwen3-1.7B, 8 and 4 threads",
        "tok/s",
        {"prefill, -t 8": 136, "prefill, -t 4": 155},
    ),
    *rows("RES-04", "tier 1c-ii", "Qwen3-1.7B, -t 4", "tok/s", {"K in slices": 156, "whole K": 178}),
    *rows(
        "RES-12",
        "tier 3b",
        "Qwen3-1.7B, all matmuls on the NPU",
        "ms/token",
        {"NPU": 72, "CPU": 141, "token": 213},
    ),
    *rows(
        "RES-16",
        "tier 5, 6",
        _MOE + ", pp128, experts on the NPU",
        "tok/s",
        {"grouped": 0.28, "chained": 0.97, "quantized faster": 2.90, "fused": 3.13},
    ),
    *rows("RES-16", "tier 5", _MOE + ", pp128, experts on the CPU", "tok/s", {"CPU": 22.59}),
    *rows(
        "RES-16",
        "tier 5b",
        _MOE + ", pp128, chained experts, time of a projection",
        "%",
        {"phase repack": 94, "phase submit": 6},
    ),
    *rows(
        "RES-16",
        "tier 5b",
        _MOE + ", pp128, chained experts, time of the repack",
        "%",
        {"repack quantize": 69, "repack dequantize": 12, "repack tile": 19},
    ),
    *rows(
        "RES-16",
        "tier 6",
        _MOE + ", pp128, repack vectorized",
        "%",
        {"repack before": 95, "repack after": 84},
    ),
    *rows("RES-16", "tier 5c", _MOE + ", pp128, repack vectorized", "x", {"repack gain": 4.4}),
    *rows("RES-17", "tier 5", _MOE, "tok/s", {"decode, NPU": 0.11, "decode, CPU": 6.3}),
    *rows(
        "RES-18",
        "tier 5",
        _MOE + ", pp128",
        "submits",
        {"a token": 147_000, "grouped": 18_000, "chained": 144},
    ),
    *rows("RES-19", "tier 5b", _MOE + ", pp128", "s", {"NPU chains alone": 9.5, "CPU prefill": 5.7}),
    *rows("RES-20", "tier 5, log", _MOE + ", shipped profile", "tok/s", {"pp512": 36.9, "native": 23.3}),
    *rows("RES-21", "tier 5", _MOE, "tok/s", {"NPU experts": 5.33, "CPU experts": 27.5}),
    *rows("RES-22", "tier 5", _MOE, "tok/s", {"NPU decode with cache": 3.86}),
    *rows("RES-23", "tier 5", "router skew", "gini", {"LFM2 32/4": 0.44, "Qwen3.6 256/8": 0.65}),
    *rows(
        "RES-24",
        "tier 5",
        "Qwen3.6, share of choices covered",
        "%",
        {"5 %": 33, "10 %": 48, "20 %": 67, "50 %": 92},
    ),
    *rows("RES-25", "tier 5", "LFM2.5-8B-A1B", "experts", {"in the pack": 2112, "loaded": 889, "wall": 1909}),
    *rows("RES-28", "log", "dense prefill", "tok/s", {"NPU": 83.42, "CPU": 9.48}),
    *rows(
        "RES-35", "tier 10", "imported mappings in a chain", "mappings", {"chain works": 6, "chain fails": 19}
    ),
    *rows("RES-35", "tier 10", "one import", "MiB", {"import works": 16, "import fails": 64}),
    *rows(
        "RES-36",
        "tier 10",
        "import before a native anchor",
        "C[last]",
        {"seen": 14336, "seen too": 16896, "right": 18944},
    ),
    *rows("RES-37", "tier 10", "7B, imports forced, pp128", "tok/s", {"prefill": 58.73}),
    *rows("RES-38", "mode layer", "SSM prefill", "tok/s", {"resets between": 20.7, "kept warm": 103.5}),
    *rows("RES-45", "tier 12a", "prefill attention, round-robin chains", "x", {"three cores": 2.5}),
    *rows(
        "RES-46",
        "tier 12b",
        "decode attention, CPU over NPU",
        "x",
        {"L=512": 1.0, "L=1024": 2.6, "L=2048": 4.2},
    ),
    *rows(
        "RES-47",
        "tier 12f",
        "resident keys and values, NH 32, HD 128",
        "x",
        {"L=512": 1.88, "L=1024": 3.40, "L=2048": 7.32},
    ),
    *rows("RES-50", "tier 13", "ork_bench 0.8B, 512 tokens", "tok/s", {"prefill": 173.57, "decode": 3.64}),
    *rows(
        "RES-55",
        "log",
        _MOE + ", attention precision",
        "tok/s",
        {"f16 pp512": 38.4, "q8_0 pp512": 36.9, "Q4_K pp512": 26.8},
    ),
    *rows("RES-57", "tier 15", "27B tiers", "domains", {"W4A4": 11, "W4A8 ra8": 13, "W4A8 G=512": 13}),
    *rows(
        "RES-58", "tier 15", "27B on a board of 31 GiB", "GiB", {"GGUF": 28.6, "pack": 12, "together": 40.8}
    ),
    *rows("RES-62", "tier 16", "grouped int8 over one scale", "x", {"M=1": 13.2, "M=128": 283}),
    *rows("RES-63", "tier 17", "kernel warnings of one run", "lines", {"before": 30, "after": 0}),
    *rows(
        "RES-64",
        "tier 18",
        "27B, n=3, 160 transitions in a forward",
        "s",
        {"resets": 161.2, "resets, again": 163.2, "no resets": 146.1},
    ),
    *rows("RES-65", "tier 18", "27B forward", "ms", {"12 domain switches": 26.7}),
    *rows("RES-66", "tier 18", "27B scoring", "s", {"NPU, first": 220.9, "NPU": 161, "CPU": 18.0}),
    *rows("RES-67", "tier 19", "int4 with wide K, runs of 400 rounds", "%", {"stalls": 2.0}),
    *rows(
        "RES-72", "NEXT", "qwen3-0.6b route 2", "tok/s", {"decode, any core": 4.93, "decode, big core": 5.58}
    ),
    *rows(
        "RES-74",
        "NEXT",
        "qwen3-0.6b route 2",
        "tok/s",
        {"decode, built each time": 6.30, "decode, precompiled": 7.23},
    ),
    *rows("RES-75", "NEXT", "qwen3-0.6b, P=512 G=48", "tok/s", {"CPU decode": 16.56, "route 2": 7.5}),
    *rows(
        "RES-76",
        "per-core utilisation",
        _SEVEN + ", pp512",
        "%",
        {"core 0": 38, "core 1": 40, "core 2": 41},
        document=STUDY,
    ),
    *rows(
        "RES-76",
        "per-core utilisation",
        "closed runtime 1.2.3, 7B",
        "%",
        {"rkllm core 0": 66, "rkllm core 1": 64, "rkllm core 2": 64},
        document=STUDY,
    ),
    *rows(
        "RES-76",
        "per-core utilisation",
        _SEVEN + ", pp512",
        "% of cpu",
        {"cpu4": 14, "cpu5": 20, "cpu6": 20, "cpu7": 56},
        document=STUDY,
    ),
    *rows(
        "RES-77",
        "pinned build",
        _SEVEN,
        "tok/s",
        {"pp512": 45.3, "pp256": 40.1, "decode": 0.9},
        document=STUDY,
    ),
    *rows(
        "RES-78",
        "trustworthy gap",
        "closed runtime 1.2.3, 7B",
        "tok/s",
        {"163 tokens": 72.1, "1390 tokens": 68.9, "decode": 4.06},
        document=STUDY,
    ),
    *rows(
        "RES-80", "two caveats", _SEVEN, "ms", {"t_actq": 2822, "t_deq": 2143, "t_run": 32521}, document=STUDY
    ),
    *rows("RES-80", "two caveats", _SEVEN, "%", {"host over run": 15}, document=STUDY),
)
