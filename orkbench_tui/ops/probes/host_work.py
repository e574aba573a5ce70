"""Probes of the host's part: how much of it could hide behind the NPU, how fast NPU memory is filled."""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING

from orkbench_tui.driver.timing.submits import pipeline_ceiling
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, median_us

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PROBES"]

_FILL_BYTES = 8 << 20


def _published_ceilings(bench: Bench) -> Control:
    found = [pipeline_ceiling(11, 94, 11), pipeline_ceiling(11, 18, 2), pipeline_ceiling(0, 94, 0)]
    ok = abs(found[0] - 1.234) < 0.001 and abs(found[1] - 1.722) < 0.001 and found[2] == 1
    return Control(ok, "11/94/11 gives 1.23, 11/18/2 gives 1.72, no host work gives 1")


def _overlap(bench: Bench) -> Answer:
    import numpy as np

    npu, (m, k, n), parts = bench.npu, (128, 1024, 1024), 6
    b = int8(n, k, 1)
    floats = np.random.default_rng(2).standard_normal((m, k)).astype(np.float32)
    scales = np.ones(n, np.float32)

    def quantize() -> np.ndarray:
        return np.clip(np.rint(floats * 40), -127, 127).astype(np.int8)

    def dequantize(c: np.ndarray) -> np.ndarray:
        return np.asarray(c * scales)

    wanted = exact(quantize(), b)
    with loaded(npu, [b, b]) as weights:
        lanes = [npu.matmul([weight], m) for weight in weights]
        for lane in lanes:
            lane.a[:] = quantize()
        quant = median_us(quantize)
        run = median_us(lanes[0].run)
        dequant = median_us(lambda: dequantize(lanes[0].outputs[0]))

        def serial() -> None:
            for _ in range(parts):
                lanes[0].a[:] = quantize()
                lanes[0].run()
                dequantize(lanes[0].outputs[0])

        def pipelined() -> None:
            lanes[0].a[:] = quantize()
            for index in range(parts):
                worker = threading.Thread(target=lanes[index % 2].run)
                worker.start()
                if index:
                    dequantize(lanes[(index + 1) % 2].outputs[0])
                if index + 1 < parts:
                    lanes[(index + 1) % 2].a[:] = quantize()
                worker.join()
            dequantize(lanes[(parts - 1) % 2].outputs[0])

        one, two = median_us(serial, 3), median_us(pipelined, 3)
        right = all(bool((lane.outputs[0] == wanted).all()) for lane in lanes)
        for lane in lanes:
            lane.close()
    ceiling = pipeline_ceiling(quant, run, dequant)
    if not right:
        verdict, why = Verdict.FAIL, "a result is wrong"
    elif not bench.on_board:
        verdict, why = (
            Verdict.INCONCLUSIVE,
            "this machine computes the NPU's part itself, so nothing can hide behind it",
        )
    else:
        share = (one / two - 1) / (ceiling - 1) if ceiling > 1.01 else 1.0
        verdict, why = (Verdict.PASS if share > 0.7 else Verdict.FAIL), f"{share:.0%} of what could be won"
    label = bench.clock
    rows = ((f"{m}x{k}x{n}", quant, run, dequant, (quant + dequant) / run, one / two, ceiling),)
    columns = ("MxKxN", f"quant us ({label})", f"run us ({label})", f"dequant us ({label})")
    columns_more = (f"(q+d)/run ({label})", f"speed-up ({label})", f"ceiling ({label})")
    return Answer(verdict, why, (), (*columns, *columns_more), rows)


def _known_copy(bench: Bench) -> Control:
    """The clock must see bytes: four times as many take longer."""
    import numpy as np

    source = np.ones(_FILL_BYTES, np.uint8)
    target = np.zeros(_FILL_BYTES, np.uint8)
    quarter = _FILL_BYTES // 4
    small = median_us(lambda: np.copyto(target[:quarter], source[:quarter]), 9)
    large = median_us(lambda: np.copyto(target, source), 9)
    return Control(large > 1.5 * small, f"8 MiB take {large:.0f} us, 2 MiB {small:.0f} us ({bench.clock})")


def _fill(bench: Bench) -> Answer:
    import numpy as np

    source = np.random.default_rng(3).integers(0, 255, _FILL_BYTES, dtype=np.uint8)
    plain = np.zeros(_FILL_BYTES, np.uint8)
    rates = {"ordinary memory": _FILL_BYTES / 1e3 / median_us(lambda: np.copyto(plain, source))}
    kept = True
    for name, cached in (("cacheable", True), ("write-combined", False)):
        room = bench.npu.dma_array((_FILL_BYTES,), np.uint8, cached=cached)
        times = []
        for _ in range(5):
            started = time.perf_counter_ns()
            np.copyto(room, source)
            times.append((time.perf_counter_ns() - started) / 1e3)
        rates[name] = _FILL_BYTES / 1e3 / statistics.median(times)
        kept = kept and bool((room == source).all())
        bench.npu.free_array(room)
    ratio = rates["cacheable"] / rates["write-combined"]
    if not kept:
        verdict, why = Verdict.FAIL, "memory does not hold what was written"
    elif not bench.on_board:
        verdict, why = Verdict.INCONCLUSIVE, "simulated buffers are ordinary memory: none is write-combined"
    else:
        verdict = Verdict.PASS if ratio > 3 else Verdict.FAIL
        why = f"cacheable memory fills {ratio:.1f} times as fast, published 8.3"
    figures = (
        Figure("cacheable, cleaned", 10.0, "GB/s", "published"),
        Figure("write-combined", 1.2, "GB/s", "published"),
    )
    rows = tuple((name, rate) for name, rate in rates.items())
    return Answer(verdict, why, figures, ("memory", f"GB/s ({bench.clock})"), rows)


PROBES = (
    Probe(
        name="overlap-ceiling",
        question="How much could be won by hiding quantizing and dequantizing behind the NPU?",
        formula="ceiling = (quant + run + dequant) / max(run, quant + dequant); two buffers in turn",
        rule="pass when results are exact and more than 70 % of the possible gain is reached; on a board alone",
        positive="the published phases must give the published ceilings, and no host work none",
        control=_published_ceilings,
        ask=_overlap,
        rows=("INV-298", "INV-299", "RES-79"),
        closed=("pipeline-submit",),
    ),
    Probe(
        name="fill",
        question="How fast is NPU memory filled?",
        formula="bytes / time of a copy of 8 MiB into cacheable and write-combined NPU memory",
        rule="pass when memory holds what was written and cacheable is 3 times as fast; on a board alone",
        positive="8 MiB must take longer than 2 MiB",
        control=_known_copy,
        ask=_fill,
        rows=("RES-33",),
    ),
)
