"""What was tried on a board and closed, so that nobody spends board time on it again.

A probe that could test one of these names it, and its user is told before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLOSED", "Hypothesis", "closed"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """``evidence`` is the measurement that closed it; ``unless`` names what would make it worth another look.

    ``instead`` is the finding that took its place, where there is one.
    """

    name: str
    claim: str
    evidence: str
    source: str
    unless: str = ""
    instead: str = ""


_SLOW_DECODE = "roadmap NEXT, 2026-09-04"

CLOSED: tuple[Hypothesis, ...] = (
    Hypothesis(
        "wide-k",
        "slow M=1 calls come from K beyond the slice threshold",
        "8.81 GB/s at down's shape",
        _SLOW_DECODE,
    ),
    Hypothesis(
        "no-full-k", "slow M=1 calls come from a missing full-K buffer", "8.28 GB/s without it", _SLOW_DECODE
    ),
    Hypothesis("other-submit", "handler and probe submit differently", "the same call", _SLOW_DECODE),
    Hypothesis(
        "tlb-thrash",
        "84 weights thrash the IOMMU's TLB",
        "9.75, 9.07, 8.83 GB/s for 6, 24, 48 weights",
        _SLOW_DECODE,
    ),
    Hypothesis(
        "imported-pages",
        "imported pages are slower than fresh ones",
        "6.2/3.0 against 6.3/3.1 GB/s",
        _SLOW_DECODE,
    ),
    Hypothesis(
        "memory-contention",
        "CPU threads take the memory",
        "7.48 against 7.43 GB/s with four contenders",
        _SLOW_DECODE,
    ),
    Hypothesis("fresh-buffers", "fresh buffers defeat a cache", "7.43 against 7.47 GB/s", _SLOW_DECODE),
    Hypothesis(
        "mode-thrash",
        "modes alternate every layer",
        "6.3/3.3 against 6.3/3.1 GB/s, 56 resets in 224",
        _SLOW_DECODE,
    ),
    Hypothesis(
        "dma-gap",
        "there is a DMA rate of 20 GB/s to win back",
        "the kernel's time agrees to 3 %, the wait is 0",
        _SLOW_DECODE,
    ),
    Hypothesis(
        "native-a",
        "the native layout of A is faster",
        "3192 against 2801 us on the closed runtime",
        "roadmap tier 1c-i",
    ),
    Hypothesis(
        "output-zero-copy",
        "results in place raise prefill",
        "143.11 against 142.85 tok/s",
        "roadmap tier 1c-i",
        "a GPU device type",
    ),
    Hypothesis(
        "resident-regcmd",
        "keeping the register program saves time",
        "3.3 of 158 us",
        "roadmap tier 2b",
        "the whole host path is kept with it (NEXT: 1.4 to 3.5 times)",
    ),
    Hypothesis("trim-sync", "syncing the result costs time at M=1", "a few KiB", "roadmap tier 2c"),
    Hypothesis(
        "poll-for-2d",
        "polling shortens decode submits",
        "tens of 150 us",
        "roadmap tier 2d",
        "operations below 130 us (tier 11)",
    ),
    Hypothesis(
        "async-decode",
        "overlap makes NPU decode win",
        "max(72, 141) ms is 7 tok/s, below 12.8",
        "roadmap tier 3b",
    ),
    Hypothesis(
        "process-affinity",
        "forcing the process to big cores helps",
        "-t 8 decode 9.3 to 2.3 tok/s",
        "roadmap tier 1d",
    ),
    Hypothesis(
        "ddr-ceiling",
        "1.5 times on three cores is the memory",
        "3.1 to 3.7 times without the barrier",
        "roadmap tier 6",
    ),
    Hypothesis(
        "self-loop",
        "a descriptor may point at itself and spin",
        "completes: 132 against 72 us",
        "roadmap tier 11, wall 3",
    ),
    Hypothesis(
        "live-patch",
        "a running chain can be redirected",
        "region stays zero; -22 beyond the count",
        "roadmap tier 11, wall 2",
    ),
    Hypothesis("io-uring", "io_uring can submit", "no command hook in the driver", "roadmap tier 11"),
    Hypothesis(
        "weight-stationary-dram",
        "weight-stationary tiling with sums in memory wins",
        "0.78 times",
        "roadmap tier 13",
    ),
    Hypothesis(
        "cross-core-weights", "cores share one weight load", "the buffer belongs to a core", "roadmap tier 13"
    ),
    Hypothesis(
        "weight-reuse",
        "reuse across rows pays",
        "2 to 5 % within 6.7 to 7.0 % of noise",
        "roadmap tier 13",
        "more than two runs a cell",
    ),
    Hypothesis("k-slicing", "slicing K for on-chip sums pays", "0.96, 0.65, 0.39 times", "roadmap tier 13"),
    Hypothesis(
        "omp-pinning",
        "pinning OpenMP raises prefill",
        "45.05 against 45.72 tok/s",
        "prefill utilisation study",
    ),
    Hypothesis(
        "pipeline-submit",
        "double-buffering the driver's own work",
        "ceiling 1.06 and 1.10",
        "prefill utilisation study",
    ),
    Hypothesis(
        "per-core-kernel",
        "the matmul program is the gap to the closed runtime",
        "77 % busy back to back",
        "prefill utilisation study",
        instead="nodes of the graph run one after the other: 40 % busy live; the lever is to overlap them",
    ),
    Hypothesis(
        "npu-governor",
        "the NPU's governor holds prefill back",
        "1000 MHz in both stacks",
        "prefill utilisation study",
    ),
    Hypothesis(
        "residence-graph-walk",
        "weights can be found for loading by walking the graph",
        "1 of some 400 was seen: the backend is shown one of 641 splits at a time",
        "roadmap tier 15",
        instead="the pack says where each weight lives, and loading runs no operation",
    ),
    Hypothesis(
        "residence-set-tensor",
        "a hook on setting tensors sees every weight",
        "it was called 0 times",
        "roadmap tier 15",
        instead="the pack says where each weight lives, and loading runs no operation",
    ),
    Hypothesis(
        "residence-one-token",
        "a warm-up of one token loads the weights",
        "0 loaded: one row runs on the CPU",
        "roadmap tier 15",
        instead="loading is over when a model is opened, and warm-ups are as wide as what is timed",
    ),
    Hypothesis(
        "error-depth",
        "errors of single matmuls compound over the layers",
        "0.008 to 0.041 over 24 layers, flat",
        "roadmap tier 16",
        "percentiles of the error in place of its mean",
    ),
    Hypothesis("expert-offload", "experts belong on the NPU", "5.33 against 27-28 tok/s", "roadmap tier 5"),
    Hypothesis(
        "whole-k-buffer",
        "prefill is flat because of the whole-K buffer of decode",
        "no change end to end with ORK_FULLK_DEC=0",
        "roadmap tier 1b",
    ),
    Hypothesis(
        "sram-doorbell",
        "a byte in on-chip SRAM must tell the end of a job",
        "the pattern is polled in ordinary memory, at 5 us a submit",
        "roadmap tier 11",
    ),
    Hypothesis(
        "task-callback",
        "a callback of the kernel between two tasks pays",
        "it saves only the way to user space, a part of the 5 to 22 % a round trip takes, and needs a kernel of its own",
        "roadmap tier 11",
        "programs of some 20 us with a step of the CPU between them",
    ),
    Hypothesis(
        "ws-transition",
        "a task of a chain costs 7 us, a ring of the doorbell each",
        "7 us held the stream of its weight; a chain is one submit, 4.38 us a task beside that stream",
        "roadmap tier 13",
    ),
    Hypothesis(
        "exp-offset",
        "the maximum of scores can be subtracted by the index offset of exp",
        "its bias needs a calibration nobody has; the softmax runs on the host",
        "roadmap tier 12e",
        "a calibration of the offset on a board, for fused attention of a prompt",
    ),
    Hypothesis(
        "sram-leak",
        "our kernel with SRAM is why addresses leak",
        "stock, SRAM and SRAM with a patch leave the same 30 warnings",
        "roadmap tier 17",
    ),
    Hypothesis(
        "core-split",
        "int4 on two cores and int8 on the third saves the resets",
        "not shown: the control of the probe came back coherent, and a static split costs a third of int4",
        "roadmap tier 18",
        "a control that reproduces the corruption; uniform packs need 2 resets instead of 160",
    ),
    Hypothesis(
        "gdn-offload", "the GDN scan belongs on the NPU", "1.9 to 4.8 times slower", "roadmap tier 14 B"
    ),
)

_BY_NAME = {hypothesis.name: hypothesis for hypothesis in CLOSED}


def closed(name: str) -> Hypothesis:
    """The hypothesis of that name; KeyError when there is none."""
    return _BY_NAME[name]
