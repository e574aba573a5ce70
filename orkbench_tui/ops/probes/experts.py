"""Probes of experts: their small matmuls on the NPU and the CPU, ways to pack them, and where a refill's time goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.experts.groups import group_by_expert
from orkbench_tui.driver.experts.pool import ExpertPool
from orkbench_tui.driver.experts.products import Ways, expert_products
from orkbench_tui.driver.task_rules import FULL_K_GRANULE, FULL_K_LIMIT
from orkbench_tui.driver.timing.phases import phases
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.submits import dispatch_floor_ns
from orkbench_tui.native.expert_steps import NibbleRows, Routing, nibble_products
from orkbench_tui.native.library import available_threads, portable_kernels
from orkbench_tui.native.row_packing import tiles_from_rows
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import inflate_tiles, pack_tiles, quantize_weights
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded, median_us, npu_ns

__all__ = ["PROBES"]

# Gate and up, down, and the wider model's gate and up: (K, N, rows).
_SHAPES = ((2048, 768, (8, 32, 128)), (768, 2048, (8, 32)), (4096, 1408, (8,)))
_REPEAT = 2
_STREAMED = 3
Row = tuple[str | float | int | None, ...]


def _experts_differ(bench: Bench) -> Control:
    """The chain must tell experts apart: a stale weight would be as fast."""
    npu, a, parts = bench.npu, int8(4, 512, 3), [int8(64, 512, 4), int8(64, 512, 5)]
    with loaded(npu, parts) as weights:
        chain = npu.chain([ChainTask(weight, 4, a=a) for weight in weights])
        chain.run()
        good = all(bool((o == exact(a, p)).all()) for o, p in zip(chain.outputs, parts, strict=True))
        same = bool((chain.outputs[0] == chain.outputs[1]).all())
        chain.close()
    return Control(good and not same, "two experts give two results, both exact")


def _npu_rows(bench: Bench, k: int, n: int, m: int) -> tuple[list[float | None], bool]:
    """(µs an expert as matmul on all cores, as chain on one, streamed over the cores; all exact)."""
    npu, a = bench.npu, int8(m, k, 7)
    parts = [int8(n, k, seed) for seed in range(6, 6 + _STREAMED)]
    right = True
    with loaded(npu, parts) as weights, ExitStack() as stack:
        matmul = npu.matmul([weights[0]], m)
        stack.callback(matmul.close)
        matmul.a[:] = a
        found: list[float | None] = [median_us(matmul.run, _REPEAT), npu_ns(npu, matmul.run) / 1e3]
        right = bool((matmul.outputs[0] == exact(a, parts[0])).all())
        if k % FULL_K_GRANULE or k > FULL_K_LIMIT:
            return [*found, None, None], right
        chains = [npu.chain([ChainTask(weight, m, a=a)]) for weight in weights]
        for chain in chains:
            stack.callback(chain.close)
        found.append(median_us(chains[0].run, _REPEAT))
        found.append(median_us(npu.round_robin(chains).run, _REPEAT) / _STREAMED)
        for chain, part in zip(chains, parts, strict=True):
            right = right and bool((chain.outputs[0] == exact(a, part)).all())
    return found, right


def _cpu_rows(k: int, n: int, m: int) -> tuple[list[float | None], bool]:
    """(µs from int8 tiles on one thread and on all, from NF4 on one and on all; both give the same bits)."""
    rng = np.random.default_rng(8)
    levels = np.arange(-128, 128, 17).astype(np.int8)
    weight = NibbleRows(
        rng.integers(0, 256, (n, k // 2), dtype=np.uint8),
        levels,
        np.ones(n, np.float32),
        rng.integers(-127, 128, (n, k // 32)).astype(np.int8),
    )
    tiles = inflate_tiles(weight.nibbles, levels, weight.multipliers)
    codes = Codes(np.maximum(int8(m, k, 9), -127), np.ones(m, np.float32))
    routing = Routing.of(m, 1, 1)
    routing.offsets[:] = (0, m)
    wide, narrow = Steps(), Steps()
    outputs = [np.zeros((m, n), np.float32) for _ in range(2)]
    wide.matmul(codes, tiles, weight.scales, outputs[0])
    nibble_products(narrow, codes, [weight], outputs[1], routing)
    found: list[float | None] = [
        median_us(lambda steps=steps, threads=threads: steps.run(m, 0, threads), _REPEAT)  # type: ignore[misc]
        for steps in (wide, narrow)
        for threads in (1, available_threads())
    ]
    return found, outputs[0].tobytes() == outputs[1].tobytes()


def _gemm(bench: Bench) -> Answer:
    rows: list[Row] = []
    right = True
    for k, n, heights in _SHAPES:
        for m in heights:
            npu, on_npu = _npu_rows(bench, k, n, m)
            cpu, on_cpu = _cpu_rows(k, n, m)
            right = right and on_npu and on_cpu
            rows.append((f"{m}x{k}x{n}", *npu, *cpu))
    figures = (
        Figure("4 M expert programs", dispatch_floor_ns(4_000_000, "expert_program") / 1e9, "s", "predicted"),
        Figure("18 k expert submits", dispatch_floor_ns(18_000, "expert_floor") / 1e9, "s", "predicted"),
        *(
            Figure(f"prefill, {label}", figure(f"RES-21 {label}").value, "tok/s", "published")
            for label in ("NPU experts", "CPU experts")
        ),
    )
    clock = bench.clock
    columns = (
        "MxKxN",
        f"NPU matmul us ({clock})",
        f"NPU cores us ({bench.npu_time})",
        f"NPU chain us ({clock})",
        f"NPU stream us ({clock})",
        *(
            f"CPU {form}, {threads} us (host)"
            for form in ("int8", "4-bit")
            for threads in ("1 thread", "all")
        ),
    )
    why = "exact; single wins do not add up, see the floors" if right else "a result is wrong"
    return Answer(Verdict.PASS if right else Verdict.FAIL, why, figures, columns, tuple(rows))


def _weights(n: int = 96, k: int = 512) -> NDArray[np.float32]:
    w = np.random.default_rng(11).standard_normal((n, k)).astype(np.float32)
    w[3, ::5] *= 50
    return w


def _variants(w: NDArray[np.float32]) -> dict[str, Callable[[], NDArray[np.int8]]]:
    """Ways from float32 [N, K] to tiles, of which the first is the plain one in two passes."""

    def two_passes() -> NDArray[np.int8]:
        codes = Codes(np.zeros(w.shape, np.int8), np.zeros(len(w), np.float32))
        steps = Steps()
        steps.quantize(w, codes)
        steps.run(len(w))
        return pack_tiles(codes.values)

    def by_row() -> NDArray[np.int8]:
        def read(row: int, out: NDArray[np.float32]) -> None:
            out[:] = w[row]

        return tiles_from_rows(read, *w.shape)[0]

    def portable() -> NDArray[np.int8]:
        with portable_kernels():
            return quantize_weights(w)[0]

    return {
        "quantize, then tile": two_passes,
        "one pass": lambda: quantize_weights(w)[0],
        "one pass, one thread": lambda: quantize_weights(w, threads=1)[0],
        "one pass, portable": portable,
        "row by row": by_row,
    }


def _mismatches(found: NDArray[np.int8], right: NDArray[np.int8]) -> int:
    return int((found != right).sum()) if found.shape == right.shape else max(found.size, right.size)


def _one_byte_shows(bench: Bench) -> Control:
    right = quantize_weights(_weights())[0]
    wrong = right.copy()
    wrong[777] ^= 1
    seen = _mismatches(wrong, right), _mismatches(right, right)
    return Control(seen == (1, 0), f"one byte changed: {seen[0]} found; none: {seen[1]}")


def _packing(bench: Bench) -> Answer:
    w = _weights()
    n, k = w.shape
    variants = _variants(w)
    right = next(iter(variants.values()))()
    rows: list[Row] = [
        (name, _mismatches(make(), right), median_us(make, 3)) for name, make in variants.items()
    ]
    weight = bench.npu.load_int8("probe.packed", right, k, n)
    held = weight.tiles
    there = right.size if held is None else _mismatches(held, right)
    bench.npu.free(weight)
    rows.append(("in NPU memory", there, None))
    bad = sum(int(row[1] or 0) for row in rows)
    why = f"{bad} bytes differ" if bad else f"{len(rows)} ways, {right.size} bytes each, none differs"
    return Answer(
        Verdict.FAIL if bad else Verdict.PASS, why, (), ("way", "bytes that differ", "us (host)"), tuple(rows)
    )


def _refill(bench: Bench) -> Answer:
    """Experts through a pool of fewer places: the time of each phase, added up over all of them."""
    k, n, experts, rows = 512, 256, 6, 24
    npu, rng = bench.npu, np.random.default_rng(12)
    floats = rng.standard_normal((experts, n, k)).astype(np.float32)
    stored = floats.astype(np.float16)
    spent = dict.fromkeys(("dequantize", "quantize and tile", "copy and submit"), 0.0)

    def tiles_of(expert: int) -> NDArray[np.int8]:
        started = time.perf_counter_ns()
        values = stored[expert].astype(np.float32)
        between = time.perf_counter_ns()
        tiles = quantize_weights(values)[0]
        spent["dequantize"] += (between - started) / 1e3
        spent["quantize and tile"] += (time.perf_counter_ns() - between) / 1e3
        return tiles

    codes = int8(rows, k, 13)
    ids = np.stack([rng.permutation(experts)[:2] for _ in range(rows)])
    groups = group_by_expert(ids, experts)
    with ExpertPool(npu, 4, k, n, tiles_of) as pool:
        started = time.perf_counter_ns()
        got = expert_products(npu, pool, codes, groups, Ways.CHAIN)
        whole = (time.perf_counter_ns() - started) / 1e3
    spent["copy and submit"] = whole - sum(spent.values())
    right = True
    for expert in groups.active:
        matrix = quantize_weights(stored[expert].astype(np.float32))[0]
        flat = matrix.reshape(n // 32, k // 32, 32, 32).transpose(0, 2, 1, 3).reshape(n, k)
        right = right and bool((got[groups.choices(expert)] == exact(codes[groups.rows(expert)], flat)).all())
    found = phases(spent)
    published = tuple(
        Figure(f"published share, {label}", figure(f"RES-16 phase {label}").value, "%", "published")
        for label in ("repack", "submit")
    )
    table: tuple[Row, ...] = tuple((phase.name, phase.us, 100 * phase.share) for phase in found)
    why = "exact; shares are of this machine's clock" if right else "a result is wrong"
    columns = ("phase", f"us ({bench.clock})", "% of the time")
    return Answer(Verdict.PASS if right else Verdict.FAIL, why, published, columns, table)


PROBES = (
    Probe(
        name="expert-gemm",
        question="Is an expert's small matmul worth a trip to the NPU?",
        formula="time of M rows by K x N as matmul, chain and stream on the NPU, and from int8 and 4 bits on the CPU; "
        "programs x floor for a whole forward",
        rule="pass when results are exact; speed alone decides nothing, see the floors",
        positive="two experts must give two results",
        control=_experts_differ,
        ask=_gemm,
        rows=("INV-059", "INV-060", "INV-069"),
        closed=("expert-offload",),
    ),
    Probe(
        name="pack-variants",
        question="Do all ways of packing a float weight give the same bytes?",
        formula="bytes that differ between each way's tiles and those of quantizing first and tiling afterwards",
        rule="pass when none differs anywhere, in NPU memory too",
        positive="one byte changed must be found, and no other",
        control=_one_byte_shows,
        ask=_packing,
        rows=("INV-050",),
    ),
    Probe(
        name="expert-phases",
        question="Where does the time go when experts pass through a pool on the NPU?",
        formula="time of dequantizing, of quantizing and tiling, and of the rest, as shares of the whole",
        rule="pass when results are exact; shares are for reading",
        positive="two experts must give two results",
        control=_experts_differ,
        ask=_refill,
        rows=("INV-047",),
        closed=("expert-offload",),
    ),
)
