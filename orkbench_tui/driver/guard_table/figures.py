"""What a figure or a verdict stands on."""

from __future__ import annotations

from orkbench_tui.driver.guard_table.guard import Guard, Reaction

__all__ = ["ROWS"]

ROWS = (
    Guard(
        "GRD-36",
        "benchmarks",
        Reaction.REFUSE,
        "a warm-up of one token before timing",
        "one row runs on the CPU, so no weight is loaded",
        "warm up with a prompt",
        "roadmap tier 15",
        how="weights are loaded when a model is opened, and the warm-up is the whole case that is timed afterwards",
        stands_in="orkbench_tui.runner.bench.measure:measure",
    ),
    Guard(
        "GRD-37",
        "statistics",
        Reaction.REFUSE,
        "a comparison of fewer than 3 interleaved runs, or inside the noise",
        "not a result",
        "the verdict is noise or insufficient",
        "roadmap tier 18",
        how="the verdict is insufficient or noise",
        stands_in="orkbench_tui.runner.bench.statistics:compare",
    ),
    Guard(
        "GRD-38",
        "provenance",
        Reaction.REFUSE,
        "a headline from a changed tree, an unpinned build or with nothing loaded",
        "cannot be repeated",
        "mark it not comparable",
        "prefill utilisation study",
        how="such a row of the bench carries its reasons and is not comparable",
        stands_in="orkbench_tui.runner.bench.provenance:provenance_reasons",
    ),
    Guard(
        "GRD-39",
        "probes",
        Reaction.REFUSE,
        "a negative result of a probe whose positive control stayed clean",
        "proves nothing",
        "the verdict is INCONCLUSIVE",
        "roadmap tier 18",
        how="the control is tried first, and where it fails the question is not asked",
        stands_in="orkbench_tui.ops.probes.asking:ask",
    ),
    Guard(
        "GRD-40",
        "statistics",
        Reaction.REFUSE,
        "comparing two versions of code that did not run",
        "proves nothing",
        "both arms must have reached it",
        "roadmap tier 19",
        how="where settings of the NPU are compared and an arm submitted nothing to it, the verdict is insufficient",
        stands_in="orkbench_tui.runner.bench.arms:unreached",
    ),
    Guard(
        "GRD-57",
        "ledger",
        Reaction.WARN,
        "testing a closed hypothesis again",
        "board time spent on a known answer",
        "show the evidence; go on with a reason",
        "roadmap, decode investigation",
        enforced_in="orkbench_tui.ops.probes.asking:closed_warnings",
    ),
    Guard(
        "GRD-58",
        "checks",
        Reaction.REFUSE,
        "checking only the first element of a result",
        "corruption often spares it",
        "check first, last and a sample, or all",
        "roadmap tier 10",
        how="ork npu matmul --check compares every element",
        stands_in="orkbench_tui.ops.matmul_reference:compare",
    ),
)
