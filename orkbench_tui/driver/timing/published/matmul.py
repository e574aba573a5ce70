"""Published figures of matmuls, submits and cores."""

from __future__ import annotations

from orkbench_tui.driver.timing.published.figure import STUDY, Figure, rows

__all__ = ["FIGURES"]

_SHAPES = ("1x512x512", "1x2048x2048", "64x512x512", "64x2048x2048", "64x4096x4096")

FIGURES: tuple[Figure, ...] = (
    *rows(
        "RES-05",
        "tier 1",
        "2048x2048, before the affinity fix",
        "x",
        {"3 cores, M=1": 1.76, "3 cores, M=512": 1.06},
    ),
    *rows(
        "RES-06",
        "tier 1a",
        "mc_prof, M=512, K in two slices",
        "x",
        {"3 cores, before": 1.11, "3 cores, after": 1.92},
    ),
    *rows(
        "RES-07",
        "tier 1c",
        "512x2048x2048, one core",
        "us",
        {"K in two slices": 8427, "closed runtime": 2573},
    ),
    *rows(
        "RES-08",
        "tier 1c-i, 1c-ii",
        "512x2048x2048, one core, whole K",
        "us",
        {"copied": 4763, "input in place": 3967},
    ),
    *rows("RES-09", "tier 1c-i", "closed runtime, prefill shape", "us", {"native A": 3192, "normal A": 2801}),
    *rows("RES-10", "tier 1c-i", "Qwen3-1.7B pp512", "tok/s", {"copied": 143.11, "DMA buffer type": 142.85}),
    *rows(
        "RES-11",
        "tier 2a",
        "1x2048x2048, three cores",
        "us",
        {"prepare": 3.3, "ioctl and wait": 154, "write-out": 0.9},
    ),
    *rows("RES-26", "tier 6", "fan-out with a barrier, three cores", "x", {"least": 1.1, "most": 1.5}),
    *rows("RES-27", "tier 6", "round-robin stream, three cores", "x", {"floor": 3.1, "mid": 3.7, "big": 3.4}),
    *rows("RES-33", "tier 9a", "fill of NPU memory", "GB/s", {"write-combined": 1.2, "cacheable": 10}),
    *rows(
        "RES-34", "tier 9b", "int4 to int8 without float32", "x", {"uniform, least": 2.2, "NF4, least": 3.6}
    ),
    *rows("RES-39", "mode layer, tier 18", "ACT_RESET", "ms", {"reset": 105}),
    *rows("RES-40", "tier 11", "mc_prof", "us", {"blocking floor": 132, "NONBLOCK return": 5}),
    *rows(
        "RES-41",
        "tier 11",
        "doorbell_prof 20, serial, blocking",
        "us/op",
        {f"blocking {s}": v for s, v in zip(_SHAPES, (78.4, 429.9, 166.5, 463.1, 2753.1), strict=True)},
    ),
    *rows(
        "RES-41",
        "tier 11",
        "doorbell_prof 20, serial, not waiting",
        "us/op",
        {f"doorbell {s}": v for s, v in zip(_SHAPES, (36.2, 408.9, 128.8, 445.8, 2749.4), strict=True)},
    ),
    *rows(
        "RES-42",
        "tier 11",
        "overlap_prof: NPU alone 2720, 2744, 2750, 2743 us, CPU alone 221, 881, 3526, 14108 us",
        "us",
        {"wall, 1 rep": 2720, "wall, 4 reps": 2744, "wall, 16 reps": 3530, "wall, 64 reps": 14112},
    ),
    *rows("RES-43", "tier 11", "descriptor that points at itself", "us", {"self-loop": 132, "baseline": 72}),
    *rows("RES-44", "tier 11", "halt written into program 8 of 16", "outputs", {"present": 9}),
    *rows("RES-48", "tier 13", "weight reuse", "%", {"N=512": 15, "N=2048": 26.4, "N=8192": 33.3}),
    *rows(
        "RES-49",
        "tier 13",
        "reuse with 11 banks; noise 6.7-7.0 %",
        "%",
        {"M=256": 5.0, "M=512": 3.8, "M=1024": 3.8},
    ),
    *rows("RES-51", "tier 13", "chain of 32, M=1, K=512, N 32..1024", "us", {"floor of a task": 4.38}),
    *rows("RES-51", "tier 13", "chain of 32, M=1, K=512, N 32..1024", "GB/s", {"weight stream": 10.8}),
    *rows(
        "RES-52",
        "tier 13",
        "weight-stationary model against the fold, K=3584",
        "x",
        {"on chip at 4.4 us, N=3584": 0.99, "on chip at 4.0 us, N=3584": 1.09, "in DRAM at no cost": 1.04},
    ),
    *rows(
        "RES-53",
        "tier 13",
        "K slices, NPU time alone",
        "x",
        {"2 slices": 0.96, "4 slices": 0.65, "8 slices": 0.39},
    ),
    *rows("RES-54", "tier 14", "element-wise rows of one program", "rows", {"int16": 8176, "ceiling": 8188}),
    *rows(
        "RES-69",
        "NEXT",
        "decode_bw_probe 1024x3072, M=1",
        "GB/s",
        {"S=1": 8.62, "S=2": 12.74, "S=3": 15.05, "S=6": 19.87},
    ),
    *rows(
        "RES-69",
        "NEXT",
        "decode_bw_probe 3072x1024, M=1",
        "GB/s",
        {"down S=1": 8.81, "down S=2": 12.65, "down S=3": 15.08, "down S=6": 20.17},
    ),
    *rows("RES-70", "NEXT", "FFN decode handler", "GB/s", {"gate and up": 7.2, "down": 3.5}),
    *rows("RES-71", "NEXT", "kernel's time of one job, 3072x1024", "us", {"probe": 150.9, "handler": 146.2}),
    *rows("RES-72", "NEXT", "begin half of a doorbell call", "us", {"any core": 654.7, "big core": 350.3}),
    *rows(
        "RES-73",
        "NEXT",
        "precompiled call",
        "ms",
        {
            "down, before": 0.460,
            "down, after": 0.321,
            "gate or up, before": 0.450,
            "gate or up, after": 0.322,
            "q, k, v or o, before": 0.377,
            "q, k, v or o, after": 0.108,
        },
    ),
    *rows("RES-74", "NEXT", "FFN layer, qwen3-0.6b", "us", {"built each time": 1673, "precompiled": 1139}),
    *rows(
        "RES-79",
        "overlap-ceiling probe",
        "quant 11, run 94, dequant 11 ms",
        "x",
        {"FFN 512x3584x18944": 1.20},
        document=STUDY,
    ),
    *rows(
        "RES-79",
        "overlap-ceiling probe",
        "quant 11, run 18, dequant 2 ms",
        "x",
        {"attention 512x3584x3584": 1.64},
        document=STUDY,
    ),
    *rows(
        "RES-79",
        "overlap-ceiling probe",
        "run column, three cores",
        "ms",
        {"run 512x3584x18944": 94, "run 512x3584x3584": 18},
        document=STUDY,
    ),
    *rows(
        "RES-81",
        "what is left",
        "mc_prof: ioctl share of a submit",
        "%",
        {"ioctl": 94.5, "synth": 0.4},
        document=STUDY,
    ),
    *rows(
        "RES-81", "what is left", "pipeline ceiling", "x", {"FFN": 1.06, "attention": 1.10}, document=STUDY
    ),
)
