"""Probes of handing work over: where a submit's time goes, cores, not waiting, the CPU in the NPU's shadow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.timing import submits
from orkbench_tui.driver.timing.programs import Shape
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, median_us, npu_ns

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PROBES"]

_DOORBELL_SHAPES = ((1, 512, 512), (1, 2048, 2048), (64, 512, 512), (64, 2048, 2048), (64, 4096, 4096))


def _larger_takes_longer(bench: Bench) -> Control:
    """The kernel's time follows the work: without that no split of it means anything."""
    npu = bench.npu
    with loaded(npu, [int8(512, 512, 1), int8(2048, 2048, 2)]) as weights:
        times = []
        for weight in weights:
            matmul = npu.matmul([weight], 1)
            matmul.a[:] = 1
            matmul.run_on(0)
            times.append(npu_ns(npu, lambda m=matmul: m.run_on(0)))  # type: ignore[misc]
            matmul.close()
    seen = f"16 times the weights take {times[1]} against {times[0]} ns ({bench.npu_time})"
    return Control(times[1] > 4 * times[0] > 0, seen)


def _split(bench: Bench) -> Answer:
    npu, (m, k, n) = bench.npu, (1, 2048, 2048)
    a, b = int8(m, k, 3), int8(n, k, 4)
    with loaded(npu, [b]) as weights:
        matmul = npu.matmul(weights, m)

        def prepare() -> None:
            matmul.a[:] = a

        prepare_us = median_us(prepare)
        wait_us = median_us(matmul.run)
        taken: list[np.ndarray] = []

        def write_out() -> None:
            taken[:] = [matmul.outputs[0].copy()]

        out_us = median_us(write_out)
        hw_us = npu_ns(npu, matmul.run) / 1e3
        right = bool((taken[0] == exact(a, b)).all())
        matmul.close()
    total = prepare_us + wait_us + out_us
    published = submits.submit_split()
    rows = tuple(
        (name, us, us / total, share)
        for name, us, share in zip(
            ("prepare", "submit and wait", "write-out"),
            (prepare_us, wait_us, out_us),
            published.shares,
            strict=True,
        )
    )
    waiting = wait_us / total
    if not right:
        verdict, why = Verdict.FAIL, "the result is wrong"
    elif not bench.on_board:
        verdict, why = (
            Verdict.INCONCLUSIVE,
            "this machine computes the NPU's part itself: shares are not a board's",
        )
    else:
        verdict = Verdict.PASS if waiting > 0.9 else Verdict.FAIL
        why = f"{waiting:.0%} of the call is the submit, published 97 %"
    return Answer(
        verdict,
        why,
        (
            Figure("call", total, "us", bench.clock),
            Figure("NPU time of all cores", hw_us, "us", bench.npu_time),
            Figure("call", published.total / 1e3, "us", "published"),
        ),
        ("part", f"us ({bench.clock})", f"share ({bench.clock})", "share (published)"),
        rows,
    )


def _scaling(bench: Bench) -> Answer:
    npu, cores = bench.npu, bench.npu.soc.cores
    rows: list[tuple[str | float | int | None, ...]] = []
    taken, right = [0] * cores, True
    for m in (1, 128):
        k = n = 2048
        a, b = int8(m, k, 5), int8(n, k, 6)
        with loaded(npu, [b]) as weights:
            matmul = npu.matmul(weights, m)
            matmul.a[:] = a
            one_us = median_us(lambda x=matmul: x.run_on(0), 3)  # type: ignore[misc]
            before = npu.counters
            all_us = median_us(matmul.run, 7)
            used = npu.counters.since(before).core_submits
            taken = [total + count for total, count in zip(taken, used, strict=False)]
            right = right and bool((matmul.outputs[0] == exact(a, b)).all())
            matmul.close()
        predicted = submits.core_scaling(Shape(m, k, n), cores, npu.soc)
        rows.append((f"{m}x{k}x{n}", one_us, all_us, one_us / all_us, predicted))
    # A core that is done takes the next part, so a single run may leave one out.
    spread = all(taken)
    if not right or not spread:
        why = "a result is wrong" if not right else "work did not reach every core"
        verdict = Verdict.FAIL
    elif not bench.on_board:
        verdict, why = (
            Verdict.PASS,
            f"all {cores} cores took part, results exact; the ratio is this machine's",
        )
    else:
        gain = float(rows[0][3] or 0)
        verdict = Verdict.PASS if gain > 1.3 else Verdict.FAIL
        why = f"{gain:.2f} times at M=1, published 1.76"
    published = tuple(
        Figure(f"{key}", figure(f"RES-05 {key}").value, "x", "published") for key in ("3 cores, M=1",)
    )
    return Answer(
        verdict,
        why,
        published,
        (
            "shape",
            f"1 core us ({bench.clock})",
            f"all us ({bench.clock})",
            f"ratio ({bench.clock})",
            "ratio (predicted)",
        ),
        tuple(rows),
    )


def _wrong_is_seen(bench: Bench) -> Control:
    """A changed activation must change the result: else a stale one would pass for right."""
    npu, a, b = bench.npu, int8(1, 512, 7), int8(512, 512, 8)
    with loaded(npu, [b]) as weights, npu.doorbell() as bell:
        bell.build([ChainTask(weights[0], 1, a=a)])
        bell.begin()
        bell.end()
        found = bool((bell.outputs[0] == exact(a, b)).all())
        other = bool((bell.outputs[0] == exact(-a - 1, b)).all())
    return Control(found and not other, "the right product matches, that of other activations does not")


def _doorbell(bench: Bench) -> Answer:
    npu = bench.npu
    rows: list[tuple[str | float | int | None, ...]] = []
    right = True
    for m, k, n in _DOORBELL_SHAPES:
        a, b = int8(m, k, 9), int8(n, k, 10)
        wanted = exact(a, b)
        with loaded(npu, [b]) as weights:
            matmul = npu.matmul(weights, m)
            matmul.a[:] = a
            waited = median_us(lambda x=matmul: x.run_on(0), 3)  # type: ignore[misc]
            first = bool((matmul.outputs[0] == wanted).all())
            matmul.close()
            times, second = [], True
            for _ in range(3):
                with npu.doorbell() as bell:
                    bell.build([ChainTask(weights[0], m, a=a)])
                    started = time.perf_counter_ns()
                    bell.begin()
                    bell.end()
                    times.append((time.perf_counter_ns() - started) / 1e3)
                    second = second and bool((bell.outputs[0] == wanted).all())
        right = right and first and second
        shape, name = Shape(m, k, n), f"{m}x{k}x{n}"
        rows.append(
            (
                name,
                waited,
                sorted(times)[1],
                submits.serial_blocking_ns(shape, npu.soc) / 1e3,
                submits.doorbell_call_ns(shape, npu.soc) / 1e3,
                figure(f"RES-41 blocking {name}").value,
                figure(f"RES-41 doorbell {name}").value,
            )
        )
    if not right:
        verdict, why = Verdict.FAIL, "a result is wrong"
    elif not bench.on_board:
        verdict, why = Verdict.PASS, "both ways exact at all five shapes; times are this machine's"
    else:
        gain = float(rows[0][1] or 0) / float(rows[0][2] or 1)
        verdict = Verdict.PASS if gain > 1.2 else Verdict.FAIL
        why = f"{gain:.2f} times at 1x512x512, published 2.17"
    columns: tuple[str, ...] = ("MxKxN", f"blocking us ({bench.clock})", f"doorbell us ({bench.clock})")
    columns += (
        "blocking (predicted)",
        "doorbell (predicted)",
        "blocking (published)",
        "doorbell (published)",
    )
    return Answer(verdict, why, (), columns, tuple(rows))


def _shadow(bench: Bench) -> Answer:
    import numpy as np

    npu, (m, k, n) = bench.npu, (64, 2048, 2048)
    a, b = int8(m, k, 11), int8(n, k, 12)
    wanted = exact(a, b)
    matrix, vector = np.ones((1024, 1024), np.float32), np.ones(1024, np.float32)

    def cpu(repeats: int) -> None:
        for _ in range(repeats):
            matrix.dot(vector)

    rows: list[tuple[str | float | int | None, ...]] = []
    right = True
    with loaded(npu, [b]) as weights:

        def run(repeats: int) -> tuple[float, bool]:
            with npu.doorbell() as bell:
                bell.build([ChainTask(weights[0], m, a=a)])
                started = time.perf_counter_ns()
                bell.begin()
                cpu(repeats)
                bell.end()
                spent = (time.perf_counter_ns() - started) / 1e3
                return spent, bool((bell.outputs[0] == wanted).all())

        run(0)
        for repeats in (1, 4, 16, 64):
            alone, first = run(0)
            work = median_us(lambda count=repeats: cpu(count), 3)  # type: ignore[misc]
            wall, second = run(repeats)
            right = right and first and second
            hidden = 100 * max(0.0, min(1.0, (alone + work - wall) / min(alone, work)))
            rows.append((repeats, alone, work, wall, submits.overlap_wall_ns(alone, work), hidden))
    if not right:
        verdict, why = Verdict.FAIL, "a result is wrong"
    elif not bench.on_board:
        verdict = Verdict.INCONCLUSIVE
        why = "this machine computes the NPU's part itself, so its processors are not free meanwhile"
    else:
        least = min(float(row[5] or 0) for row in rows)
        verdict, why = (Verdict.PASS if least > 90 else Verdict.FAIL), f"{least:.0f} % hidden, published 99.8"
    label = bench.clock
    columns = ("CPU reps", f"NPU alone us ({label})", f"CPU alone us ({label})", f"together us ({label})")
    return Answer(verdict, why, (), (*columns, "longer of the two", f"hidden % ({label})"), tuple(rows))


PROBES = (
    Probe(
        name="submit-split",
        question="Where does the time of one M=1 call go?",
        formula="prepare + submit and wait + write-out; shares of their sum, 2048x2048 on all cores",
        rule="pass when results are exact and more than 90 % is the submit; shares count on a board alone",
        positive="16 times the weights must take more than 4 times the kernel's time",
        control=_larger_takes_longer,
        ask=_split,
        rows=("INV-019", "RES-11", "RES-81"),
        closed=("resident-regcmd", "trim-sync", "poll-for-2d"),
    ),
    Probe(
        name="core-scaling",
        question="How much faster are all cores than one?",
        formula="time on core 0 / time on all cores, 2048x2048 at M=1 and M=128",
        rule="pass when results are exact and every core took part; on a board above 1.3 at M=1 as well",
        positive="16 times the weights must take more than 4 times the kernel's time",
        control=_larger_takes_longer,
        ask=_scaling,
        rows=("INV-079", "RES-05", "RES-06"),
        closed=("ddr-ceiling",),
    ),
    Probe(
        name="doorbell",
        question="What does a submit that does not wait gain?",
        formula="(130 us + C) / (5 us + C) for compute C; five shapes both ways",
        rule="pass when both ways are exact; on a board above 1.2 times at 1x512x512 as well",
        positive="the product of other activations must not match",
        control=_wrong_is_seen,
        ask=_doorbell,
        rows=("INV-134", "INV-136", "INV-137", "RES-41"),
        closed=("poll-for-2d",),
    ),
    Probe(
        name="cpu-shadow",
        question="Is CPU work free while the NPU runs?",
        formula="together = max(NPU alone, CPU alone); hidden = (sum - together) / shorter",
        rule="pass when results are exact and more than 90 % is hidden; on a board alone",
        positive="the product of other activations must not match",
        control=_wrong_is_seen,
        ask=_shadow,
        rows=("INV-152", "RES-42"),
        closed=("async-decode",),
    ),
)
