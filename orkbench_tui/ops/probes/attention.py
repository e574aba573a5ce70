"""Probes of attention: keys and values that stay in tiles, and from which context the NPU wins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from orkbench_tui.driver.timing.attention import attention_gain, cpu_attention_ns
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, npu_ns

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.resident_kv import ResidentKv

__all__ = ["PROBES"]

_HEAD = 128


def _one_changed_key_is_seen(bench: Bench) -> Control:
    keys, query = int8(64, _HEAD, 1), int8(1, _HEAD, 2)
    kv = _filled(bench, keys, keys, 64)
    before = _scores(bench, kv, query)
    kv.append(int8(1, _HEAD, 3)[0], keys[0], position=5)
    after = _scores(bench, kv, query)
    kv.free()
    changed = (before != after).nonzero()[0].tolist()
    return Control(changed == [5], f"writing key 5 again changes scores {changed}")


def _filled(bench: Bench, keys: np.ndarray, values: np.ndarray, room: int) -> ResidentKv:
    kv = bench.npu.resident_kv(_HEAD, room)
    for key, value in zip(keys, values, strict=True):
        kv.append(key, value)
    return kv


def _scores(bench: Bench, kv: ResidentKv, query: np.ndarray) -> np.ndarray:
    matmul = bench.npu.matmul([kv.keys], 1)
    matmul.a[:] = 0
    matmul.a[0, :_HEAD] = query[0]
    matmul.run_on(0)
    found: np.ndarray = matmul.outputs[0][0, : kv.length].copy()
    matmul.close()
    return found


def _append(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []
    worst = 0
    for length in (64, 512, 2048):
        keys, values, query = int8(length, _HEAD, 4), int8(length, _HEAD, 5), int8(1, _HEAD, 6)
        started = time.perf_counter_ns()
        kv = _filled(bench, keys, values, length)
        each = (time.perf_counter_ns() - started) / 1e3 / length
        difference = int(abs(_scores(bench, kv, query) - exact(query, keys)[0]).max())
        weights = int8(1, length, 7)
        matmul = bench.npu.matmul([kv.values], 1)
        matmul.a[:] = weights
        matmul.run_on(0)
        difference = max(difference, int(abs(matmul.outputs[0] - exact(weights, values.T.copy())).max()))
        matmul.close()
        kv.free()
        worst = max(worst, difference)
        rows.append((length, difference, each))
    verdict = Verdict.FAIL if worst else Verdict.PASS
    why = f"differs by up to {worst}" if worst else "the same as keys and values packed at once, bit for bit"
    return Answer(verdict, why, (), ("L", "max difference", f"us/append ({bench.clock})"), tuple(rows))


def _crossover(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []
    worst = 0.0
    for length in (256, 512, 1024, 2048):
        keys, query = int8(length, _HEAD, 8), int8(1, _HEAD, 9)
        kv = _filled(bench, keys, keys, length)
        found: list[np.ndarray] = []
        spent = npu_ns(bench.npu, lambda x=kv, q=query, f=found: f.append(_scores(bench, x, q)))  # type: ignore[misc]
        wanted = exact(query, keys)[0].astype(float)
        worst = max(worst, float(abs(found[0] - wanted).max() / abs(wanted).max()))
        kv.free()
        cpu = cpu_attention_ns(1, _HEAD, 1, length - 1) / 2
        streamed, resident = (attention_gain(length, resident=kind) for kind in (False, True))
        rows.append((length, spent / 1e3, cpu / 1e3, streamed, resident))
    verdict = Verdict.PASS if worst < 0.08 else Verdict.FAIL
    why = f"relative error {worst:.3g}; published tie at L = 512, 2.6 at 1024, 4.2 at 2048 with keys streamed"
    columns = ("L", f"QK on the NPU us ({bench.npu_time})", "QK on four A76 us (predicted)")
    return Answer(
        verdict,
        why,
        (),
        (*columns, "CPU/NPU streamed (published)", "CPU/NPU resident (published)"),
        tuple(rows),
    )


PROBES = (
    Probe(
        name="kv-append",
        question="Does appending one key and value leave what packing all at once would?",
        formula="largest difference of scores and weighted values against an exact product, L 64 to 2048",
        rule="pass when there is none",
        positive="writing one key again must change its score and no other",
        control=_one_changed_key_is_seen,
        ask=_append,
        rows=("INV-165", "INV-166", "RES-47"),
    ),
    Probe(
        name="attention-crossover",
        question="From which context on does decode attention belong on the NPU?",
        formula="time on the CPU over time on the NPU by context length; the published points between lines",
        rule="pass when the relative error stays below 0.08; where the lines cross is for a board to say",
        positive="writing one key again must change its score and no other",
        control=_one_changed_key_is_seen,
        ask=_crossover,
        rows=("INV-159", "INV-160", "RES-46"),
    ),
)
