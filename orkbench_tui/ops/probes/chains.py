"""Probes of chains: what linking saves, what a task in one costs, which shapes link, how weights stream."""

from __future__ import annotations

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.timing import submits
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.errors import OrkError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, linear_fit, loaded, median_us, npu_ns

__all__ = ["PROBES"]


def _wrong_task_is_seen(bench: Bench) -> Control:
    """Two tasks with different weights give two results, and each matches its own alone."""
    npu, a, parts = bench.npu, int8(1, 512, 1), [int8(64, 512, 2), int8(64, 512, 3)]
    with loaded(npu, parts) as weights:
        chain = npu.chain([ChainTask(weight, 1, a=a) for weight in weights])
        chain.run()
        match = [[bool((output == exact(a, part)).all()) for part in parts] for output in chain.outputs]
        chain.close()
    return Control(
        match == [[True, False], [False, True]], "each of two results matches its own weights alone"
    )


def _bench(bench: Bench) -> Answer:
    npu, count = bench.npu, 8
    rows: list[tuple[str | float | int | None, ...]] = []
    right, linked = True, True
    for name, (m, k, n) in {"floor": (1, 512, 64), "mid": (8, 1024, 512), "big": (32, 2048, 1024)}.items():
        a, parts = int8(m, k, 4), [int8(n, k, 5 + i) for i in range(count)]
        with loaded(npu, parts) as weights:
            chain = npu.chain([ChainTask(weight, m, a=a) for weight in weights])
            before = npu.counters
            chain.run()
            linked = linked and npu.counters.since(before).submits == 1
            together = median_us(chain.run, 3)
            hw = npu_ns(npu, chain.run) / 1e3
            single = [npu.matmul([weight], m) for weight in weights]
            for matmul in single:
                matmul.a[:] = a
            apart = median_us(lambda each=single: [x.run_on(0) for x in each], 3)  # type: ignore[misc]
            right = right and all(
                bool((output == exact(a, part)).all())
                for output, part in zip(chain.outputs, parts, strict=True)
            )
            for matmul in single:
                matmul.close()
            chain.close()
        rows.append((name, f"{m}x{k}x{n}", together, together / count, apart, apart / together, hw))
    if not right or not linked:
        verdict, why = Verdict.FAIL, "a result is wrong" if not right else "a chain took more than one submit"
    elif not bench.on_board:
        verdict, why = Verdict.PASS, f"{count} matmuls in one submit, all exact; times are this machine's"
    else:
        gain = float(rows[0][5] or 0)
        verdict, why = (Verdict.PASS if gain > 1.5 else Verdict.FAIL), f"{gain:.1f} times at the floor"
    columns: tuple[str, ...] = ("set", "MxKxN", f"us/chain ({bench.clock})", f"us/matmul ({bench.clock})")
    columns += (f"apart us ({bench.clock})", f"amortisation ({bench.clock})", f"NPU us ({bench.npu_time})")
    return Answer(verdict, why, (), columns, tuple(rows))


def _fit_finds_a_known_line(bench: Bench) -> Control:
    sizes = [512.0 * n for n in (32, 64, 128, 256, 512, 1024)]
    floor, slope, _ = linear_fit(sizes, [4380 + size / 10.8 for size in sizes])
    flat, bent, _ = linear_fit(sizes, [9000 + size / 5.4 for size in sizes])
    ok = abs(floor - 4380) < 1 and abs(1 / slope - 10.8) < 0.01 and flat > 8000 and 1 / bent < 6
    return Control(
        ok, f"4380 ns and 10.8 GB/s (published) give {floor:.0f} and {1 / slope:.2f}; other lines give others"
    )


def _marginal(bench: Bench) -> Answer:
    npu, count, k = bench.npu, 32, 512
    a = int8(1, k, 6)
    sizes, times = [], []
    for n in (32, 64, 128, 256, 512, 1024):
        with loaded(npu, [int8(n, k, 7)]) as weights:
            chain = npu.chain([ChainTask(weights[0], 1, a=a) for _ in range(count)])
            chain.run()
            times.append(npu_ns(npu, chain.run) / count)
            sizes.append(float(k * n))
            chain.close()
    floor, slope, fit = linear_fit(sizes, times)
    rate = 1 / slope if slope > 0 else float("inf")
    near = abs(floor / value("program_floor") - 1) <= 0.10 and abs(rate / value("weight_rate") - 1) <= 0.10
    if fit < 0.98:
        verdict, why = Verdict.INCONCLUSIVE, f"the points do not lie on a line (r2 {fit:.3f})"
    else:
        verdict = Verdict.PASS if near else Verdict.FAIL
        why = f"{floor / 1e3:.2f} us and {rate:.1f} GB/s ({bench.npu_time}), published 4.38 and 10.8"
    rows = tuple((int(size) // k, size, time / 1e3) for size, time in zip(sizes, times, strict=True))
    label = bench.npu_time
    return Answer(
        verdict,
        why,
        (
            Figure("floor of a task", floor / 1e3, "us", label),
            Figure("weight stream", rate, "GB/s", label),
            Figure("floor of a task", figure("RES-51 floor of a task").value, "us", "published"),
            Figure("weight stream", figure("RES-51 weight stream").value, "GB/s", "published"),
        ),
        ("N", "weight bytes", f"us/task ({label})"),
        rows,
    )


def _envelope_has_two_sides(bench: Bench) -> Control:
    inside, outside = _links(bench, 512), _links(bench, 768)
    return Control(inside == "exact" and outside == "refused", f"K=512 is {inside}, K=768 is {outside}")


def _links(bench: Bench, k: int) -> str:
    npu, a, b = bench.npu, int8(2, k, 8), int8(64, k, 9)
    with loaded(npu, [b]) as weights:
        try:
            chain = npu.chain([ChainTask(weights[0], 2, a=a) for _ in range(2)])
        except OrkError:
            return "refused"
        chain.run()
        right = all(bool((output == exact(a, b)).all()) for output in chain.outputs)
        chain.close()
    return "exact" if right else "wrong"


def _envelope(bench: Bench) -> Answer:
    rows = []
    broken = []
    for k in range(256, 4609, 256):
        found, legal = _links(bench, k), k % 512 == 0 and k <= 4096
        rows.append((k, found, "exact" if legal else "refused"))
        if found != rows[-1][2]:
            broken.append(k)
    verdict = Verdict.FAIL if broken else Verdict.PASS
    why = f"differs at K = {broken}" if broken else "K % 512 = 0 and K <= 4096, exactly"
    return Answer(verdict, why, (), ("K", "found", "rule"), tuple(rows))


def _bandwidth(bench: Bench) -> Answer:
    npu, (k, n) = bench.npu, (1024, 3072)
    a, size = int8(1, k, 10), k * n
    rows: list[tuple[str | float | int | None, ...]] = []
    counts, hardware = [], []
    right = True
    parts = [int8(n, k, 11 + i) for i in range(6)]
    with loaded(npu, parts) as weights:
        for tasks in range(1, 7):
            chain = npu.chain([ChainTask(weight, 1, a=a) for weight in weights[:tasks]])
            wall = median_us(chain.run, 3)
            hw = npu_ns(npu, chain.run) / 1e3
            right = right and bool((chain.outputs[-1] == exact(a, parts[tasks - 1])).all())
            chain.close()
            counts.append(float(tasks))
            hardware.append(hw)
            predicted = submits.decode_batch_ns(tasks, size) / 1e3
            key = f"RES-69 S={tasks}"
            published = figure(key).value if tasks in (1, 2, 3, 6) else None
            rate = tasks * size / 1e3
            rows.append((tasks, wall, rate / wall, rate / hw, rate / predicted, published))
    offset, slope, fit = linear_fit(counts, hardware)
    if not right:
        verdict, why = Verdict.FAIL, "a result is wrong"
    elif fit < 0.98:
        verdict, why = Verdict.INCONCLUSIVE, f"the NPU's time is not a line in S (r2 {fit:.3f})"
    else:
        verdict = Verdict.PASS
        why = f"the NPU takes {slope:.0f} us a task ({bench.npu_time}): more tasks share the host's part, the NPU is not faster"
    figures = (
        Figure("NPU time of a task", slope, "us", bench.npu_time),
        Figure("NPU rate", size / slope / 1e3 if slope > 0 else None, "GB/s", bench.npu_time),
        # What is left of rounding is no time.
        Figure("NPU time before the first", round(offset, 3) + 0.0, "us", bench.npu_time),
    )
    columns = ("S", f"us/batch ({bench.clock})", f"GB/s ({bench.clock})", f"NPU GB/s ({bench.npu_time})")
    return Answer(verdict, why, figures, (*columns, "GB/s (predicted)", "GB/s (published)"), tuple(rows))


PROBES = (
    Probe(
        name="chain-bench",
        question="What does linking matmuls into one submit save?",
        formula="amortisation = time of separate calls / time of the chain, 8 matmuls at three sizes",
        rule="pass when results are exact and a chain is one submit; on a board above 1.5 times at the floor",
        positive="each of two results must match its own weights alone",
        control=_wrong_task_is_seen,
        ask=_bench,
        rows=("INV-080", "RES-26"),
        closed=("ddr-ceiling",),
    ),
    Probe(
        name="chain-marginal",
        question="What does one more task in a chain cost?",
        formula="time of a task = floor + weight bytes / rate; 32 tasks, M=1, K=512, N 32 to 1024",
        rule="pass within 10 % of 4.38 us and 10.8 GB/s; inconclusive when the points are no line",
        positive="the fit must find a line that is known and tell another one from it",
        control=_fit_finds_a_known_line,
        ask=_marginal,
        rows=("INV-182", "RES-51"),
    ),
    Probe(
        name="chain-envelope",
        question="Which K may be chained?",
        formula="K % 512 = 0 and K <= 4096; K from 256 to 4608 in steps of 256, two tasks each",
        rule="pass when exactly these run and are right and all others are refused",
        positive="K=512 must run and K=768 must not",
        control=_envelope_has_two_sides,
        ask=_envelope,
        rows=("INV-183", "INV-078"),
    ),
    Probe(
        name="decode-bandwidth",
        question="How fast do weights stream with 1 to 6 single-row matmuls at once?",
        formula="S x K x N / time of the batch, 1024x3072",
        rule="pass when results are exact and the NPU's time is a line in S",
        positive="each of two results must match its own weights alone",
        control=_wrong_task_is_seen,
        ask=_bandwidth,
        rows=("INV-272", "RES-69"),
        closed=(
            "wide-k",
            "no-full-k",
            "other-submit",
            "tlb-thrash",
            "imported-pages",
            "memory-contention",
            "fresh-buffers",
            "mode-thrash",
            "dma-gap",
        ),
    ),
)
