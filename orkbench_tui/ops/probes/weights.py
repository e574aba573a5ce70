"""Probes of weights: keeping them in a core, and tiling around them."""

from __future__ import annotations

from orkbench_tui.driver.matmul.reuse import WeightReuse, weights_stay
from orkbench_tui.driver.matmul.weight_stationary import Accumulate, best_tiling, speedup
from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, npu_ns

__all__ = ["PROBES"]


def _capacity_has_two_sides(bench: Bench) -> Control:
    """The rule lets a shape in and keeps one out, before any program is made."""
    soc, k = bench.npu.soc, 2048
    inside, outside = weights_stay(soc, k, 64, 4), weights_stay(soc, k, 96, 4)
    try:
        _reuse_run(bench, 256, k, 96 * bench.npu.soc.cores, WeightReuse(4, columns=96))
        refused = False
    except RefusedError as error:
        refused = "GRD-12" in error.line()
    return Control(inside and not outside and refused, "64 columns fit four banks, 96 do not and are refused")


def _reuse_run(bench: Bench, m: int, k: int, n: int, reuse: WeightReuse | None) -> tuple[int, int, int]:
    """(wrong elements, NPU ns, programs) of one matmul on core 0."""
    npu, a, b = bench.npu, int8(m, k, 1), int8(n, k, 2)
    with loaded(npu, [b]) as weights:
        matmul = npu.matmul(weights, m, reuse=reuse)
        matmul.a[:] = a
        matmul.run_on(0)
        spent = npu_ns(npu, lambda: matmul.run_on(0))
        wrong = int((matmul.outputs[0] != exact(a, b)).sum())
        tasks = matmul.tasks
        matmul.close()
    return wrong, spent, tasks


def _reuse(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []
    bad = 0
    for m, k, n in ((256, 2048, 192), (256, 1024, 512), (128, 4096, 64)):
        plain_wrong, plain, plain_tasks = _reuse_run(bench, m, k, n, None)
        for banks in (4, 11):
            try:
                wrong, spent, tasks = _reuse_run(bench, m, k, n, WeightReuse(banks))
            except RefusedError as error:
                rows.append((f"{m}x{k}x{n}", banks, "refused", error.why[:40], plain / 1e3, None))
                continue
            bad += wrong + plain_wrong
            gain = 100 * (plain - spent) / plain if plain else None
            rows.append(
                (f"{m}x{k}x{n}", banks, wrong, f"{plain_tasks} to {tasks} programs", spent / 1e3, gain)
            )
    verdict = Verdict.FAIL if bad else Verdict.PASS
    why = (
        f"{bad} elements wrong"
        if bad
        else "exact wherever K x columns fits the banks; a gain is within noise"
    )
    label = bench.npu_time
    return Answer(
        verdict,
        why,
        (),
        ("MxKxN", "weight banks", "wrong", "cut", f"us ({label})", f"gain % ({label})"),
        tuple(rows),
    )


def _model_knows_its_golden_values(bench: Bench) -> Control:
    tiles = best_tiling(228, 3584, 1216, 4.4, Accumulate.CHIP).tiles
    most = best_tiling(1024, 3584, 9472, 4.4, Accumulate.CHIP).tiles
    return Control(
        (tiles, most) == (686, 20706), f"published 686 and 20706 tiles, computed {tiles} and {most}"
    )


def _stationary(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []
    for tile_us in (0.0, 4.0, 4.4):
        for n in (1216, 3584, 9472):
            chip, _ = speedup(228, 3584, n, tile_us, Accumulate.CHIP)
            dram, _ = speedup(228, 3584, n, tile_us, Accumulate.DRAM)
            rows.append((tile_us, n, chip, dram))
    floor = [row for row in rows if row[0] == 4.4]
    even = all(0.97 <= float(row[2] or 0) <= 1.04 for row in floor)
    loses = all(float(row[3] or 1) < 0.81 for row in floor)
    verdict = Verdict.PASS if even and loses else Verdict.FAIL
    why = "break-even with sums on the chip, a loss with sums in memory, as published"
    columns = ("us/tile", "N", "sums on chip (predicted)", "sums in memory (predicted)")
    return Answer(
        verdict,
        why if verdict is Verdict.PASS else "differs from what was published",
        (),
        columns,
        tuple(rows),
    )


PROBES = (
    Probe(
        name="weight-reuse",
        question="Are results right when a core keeps its weights over row tiles?",
        formula="right exactly when K x columns <= weight banks x 32 KiB; full-range random data, every element",
        rule="pass when every shape that fits is exact and what does not fit is refused",
        positive="64 columns of K=2048 fit four banks, 96 do not and must be refused",
        control=_capacity_has_two_sides,
        ask=_reuse,
        rows=("INV-171", "INV-176", "INV-177"),
        closed=("weight-reuse",),
    ),
    Probe(
        name="weight-stationary",
        question="Would tiling around resident weights win?",
        formula="time = max(traffic / 11 GB/s, tiles x us); over the flow of 36-row tiles",
        rule="pass when the model gives the published break-even (0.97 to 1.04) and loss (below 0.81) at 4.4 us",
        positive="the published tile counts 686 and 20706 must come out",
        control=_model_knows_its_golden_values,
        ask=_stationary,
        rows=("INV-180", "RES-52"),
        closed=("weight-stationary-dram", "cross-core-weights", "k-slicing"),
    ),
)
