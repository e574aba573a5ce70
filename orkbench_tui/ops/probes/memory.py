"""Probes of address windows: how much may be imported, what a change of domain costs."""

from __future__ import annotations

import time

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.importer import MAX_CHAIN_MAPPINGS, MAX_IMPORT_BYTES
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.timing.transfers import domain_ns
from orkbench_tui.errors import OrkError, RefusedError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded

__all__ = ["PROBES"]

_SIZES_MIB = (1, 4, 16, 17, 32, 64)


def _a_guard_speaks(bench: Bench) -> Control:
    """An import beyond every published limit must not reach the kernel."""
    try:
        bench.npu.importer().allocate(2 * MAX_IMPORT_BYTES)
    except RefusedError as error:
        return Control("GRD-08" in error.line(), error.line()[:120])
    return Control(False, "an import of 32 MiB was not refused")


def _ceilings(bench: Bench) -> Answer:
    npu, rows = bench.npu, []
    importer = npu.importer()
    largest = 0
    for size in _SIZES_MIB:
        started = time.perf_counter_ns()
        try:
            npu.memory.free(importer.allocate(size << 20))
            found, largest = "imported", size
        except OrkError as error:
            found = error.line()[:48]
        rows.append(("import", f"{size} MiB", found, (time.perf_counter_ns() - started) / 1e3))
    most, right = 0, True
    a = int8(1, 512, 1)
    for count in range(2, MAX_CHAIN_MAPPINGS + 4):
        parts = [int8(32, 512, 2 + index) for index in range(count)]
        with loaded(npu, parts, imported=True) as weights:
            started = time.perf_counter_ns()
            try:
                chain = npu.chain([ChainTask(weight, 1, a=a) for weight in weights])
                chain.run()
                pairs = zip(chain.outputs, parts, strict=True)
                right = right and all(bool((output == exact(a, part)).all()) for output, part in pairs)
                chain.close()
                found, most = "exact" if right else "wrong", count
            except OrkError as error:
                found = error.line()[:48]
            rows.append(("chain", f"{count} mappings", found, (time.perf_counter_ns() - started) / 1e3))
    held = largest == MAX_IMPORT_BYTES >> 20 and most == MAX_CHAIN_MAPPINGS
    if not right:
        verdict, why = Verdict.FAIL, "a chain over imports is wrong"
    else:
        verdict = Verdict.PASS if held else Verdict.FAIL
        why = f"up to {largest} MiB an import and {most} mappings a chain; beyond, the driver refuses (GRD-07, GRD-08)"
    figures = (
        Figure("largest import that works", 16, "MiB", "published"),
        Figure("largest import that fails", 64, "MiB", "published"),
        Figure("mappings of a chain that work", 6, "", "published"),
        Figure("mappings of a chain that fail", 19, "", "published"),
    )
    return Answer(verdict, why, figures, ("what", "size", "found", f"us ({bench.clock})"), tuple(rows))


def _two_domains_differ(bench: Bench) -> Control:
    npu, b = bench.npu, int8(64, 512, 3)
    first, second = npu.load(INT8, "probe.d0", b), npu.load(INT8, "probe.d1", b, domain=1)
    here = (first.domain, second.domain, first.buffers[0].domain, second.buffers[0].domain)
    for weight in (first, second):
        npu.free(weight)
    return Control(here == (0, 1, 0, 1), "two copies of a weight lie in domains 0 and 1")


def _switches(bench: Bench) -> Answer:
    npu, a, b = bench.npu, int8(1, 512, 4), int8(64, 512, 5)
    wanted = exact(a, b)
    weights = [npu.load(INT8, f"probe.{domain}", b, domain=domain) for domain in (0, 1, 2)]
    before = npu.domain_switching.counters
    rows: list[tuple[str | float | int | None, ...]] = []
    right = True
    for round_ in range(4):
        for weight in weights:
            matmul = npu.matmul([weight], 1)
            matmul.a[:] = a
            started = time.perf_counter_ns()
            matmul.run_on(0)
            spent = (time.perf_counter_ns() - started) / 1e3
            right = right and bool((matmul.outputs[0] == wanted).all())
            matmul.close()
            rows.append((round_, weight.domain, spent))
    after = npu.domain_switching.counters
    for weight in weights:
        npu.free(weight)
    switched = after.total - before.total
    seconds = after.switch_s - before.switch_s
    verdict = Verdict.PASS if right and switched >= 11 else Verdict.FAIL
    why = f"{switched} switches, all results exact" if right else "a result in another domain is wrong"
    figures = (
        Figure("switches", switched, "", bench.clock),
        Figure("time of a switch", 1e6 * seconds / switched if switched else None, "us", bench.clock),
        Figure("first visit", domain_ns(1) / 1e6, "ms", "predicted"),
        Figure("12 switches of a 27B forward", 26.7, "ms", "published"),
    )
    return Answer(verdict, why, figures, ("round", "domain", f"call us ({bench.clock})"), tuple(rows))


PROBES = (
    Probe(
        name="import-ceilings",
        question="How large may an import be, and how many may a chain walk?",
        formula="sizes 1 to 64 MiB one by one; chains over 2 to 8 imported weights",
        rule="pass when exactly the driver's limits hold: 16 MiB, 5 mappings, results exact",
        positive="an import of 32 MiB must be refused before the kernel sees it",
        control=_a_guard_speaks,
        ask=_ceilings,
        rows=("RES-35",),
    ),
    Probe(
        name="domain-switch",
        question="What does going to another address window cost?",
        formula="time of a call whose weight lies in another domain than the one before, three domains in turn",
        rule="pass when results are exact in every domain and every change was counted",
        positive="two copies of a weight must lie in the domains asked for",
        control=_two_domains_differ,
        ask=_switches,
        rows=("RES-65",),
    ),
)
