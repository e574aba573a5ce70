"""Probes of imports: what the first one of a domain does, how many a chain walks, how large one may be."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from orkbench_tui.driver import uapi
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.run_paths import RunPath, path_mode
from orkbench_tui.driver.task_rules import ChainTask
from orkbench_tui.driver.task_set import TaskSet
from orkbench_tui.errors import NoMemoryError, OrkError
from orkbench_tui.ops.files import Access
from orkbench_tui.ops.probes.declaration import Answer, Bench, Control, Figure, Probe, Verdict
from orkbench_tui.ops.probes.work import exact, int8, loaded
from orkbench_tui.ops.telemetry.dma_bufs import parse_bufinfo
from orkbench_tui.ops.telemetry.memory import parse_meminfo

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.matmul.weights import Weight
    from orkbench_tui.driver.memory import Buffer

__all__ = ["PROBES", "highest_that_works", "linked_past_the_guard"]

_ROUNDS = 5
_K, _N, _N_SIM = 18944, 3584, 256
_FEWEST, _MOST = 2, 24
_SIZES_MIB = (16, 20, 24, 32, 48, 64)
_PIECES = (256 << 20, 64 << 20, 16 << 20)
_BUFINFO = "/sys/kernel/debug/dma_buf/bufinfo"


# -- the first import of a domain -----------------------------------------------------------------------


def _first_and_last(bench: Bench, b: np.ndarray, *, domain: int) -> tuple[int, int]:
    """First and last result of one row of ones by an imported weight, over all cores."""
    import numpy as np

    weight = bench.npu.load(INT8, "probe.first", b, domain=domain, imported=True)
    matmul = bench.npu.matmul([weight], 1)
    matmul.a[:] = np.ones((1, b.shape[1]), np.int8)
    matmul.run()
    seen = int(matmul.outputs[0][0, 0]), int(matmul.outputs[0][0, -1])
    matmul.close()
    bench.npu.free(weight)
    return seen


def _last_column_counts(bench: Bench) -> Control:
    """A weight that is wrong in its last columns alone must not pass by its first one."""
    import numpy as np

    b = np.ones((64, 512), np.int8)
    b[-8:] = 0
    first, last = _first_and_last(bench, b, domain=1)
    return Control(
        (first, last) == (512, 0), f"with its last columns cleared C[0] is {first} and C[last] {last}"
    )


def _import_first(bench: Bench) -> Answer:
    import numpy as np

    n = _N if bench.on_board else _N_SIM
    rows: list[tuple[str | float | int | None, ...]] = []
    for round_ in range(_ROUNDS):
        b = np.ones((n, _K), np.int8)
        first, last = _first_and_last(bench, b, domain=2 + round_)
        rows.append((round_ + 1, 2 + round_, first, last))
    right = sum(row[2] == row[3] == _K for row in rows)
    verdict = Verdict.PASS if right == _ROUNDS else Verdict.FAIL
    why = f"{right} of {_ROUNDS} rounds have C[0] = C[last] = {_K}"
    figures = (Figure("C[last] seen without an anchor", 14336, "", "published"),)
    return Answer(verdict, why, figures, ("round", "domain", "C[0]", "C[last]"), tuple(rows))


# -- how many a chain walks -----------------------------------------------------------------------------


def highest_that_works(works: Callable[[int], bool], low: int, high: int) -> int:
    """The largest count of ``low`` to ``high`` that works, by halving; ``low - 1`` where none does.

    Right where everything below one that works does too.
    """
    best, above = low - 1, high + 1
    while above - best > 1:
        middle = (best + above) // 2
        if works(middle):
            best = middle
        else:
            above = middle
    return best


def linked_past_the_guard(bench: Bench, weights: Sequence[Weight], a: np.ndarray) -> list[np.ndarray]:
    """One row by each weight in one linked submit on core 0, however many mappings that walks (GRD-07).

    Raises:
        UnhealthyError: it never completed; the NPU was reset.
    """
    context = bench.npu.context
    sets = [TaskSet(context, [ChainTask(weight, 1, a=a)]) for weight in weights]
    linked = LinkedPrograms(context.memory, context.programs, [body for one in sets for body in one.bodies])
    try:
        with context.gate.inside(path_mode(RunPath.CHAIN, INT8)), context.domains.use(0):
            for one in sets:
                one.refresh()
                one.clean_results(all_of_them=True)
            context.submitter.run_on(0, linked.job)
            for one in sets:
                one.fetch_results()
        return [one.tasks[0].output.copy() for one in sets]
    finally:
        linked.release()
        for one in sets:
            one.free()


def _chain_is_right(bench: Bench, count: int, *, imported: bool) -> bool:
    a, parts = int8(1, 512, 1), [int8(32, 512, 2 + index) for index in range(count)]
    with ExitStack() as stack:
        weights = stack.enter_context(loaded(bench.npu, parts, imported=imported))
        try:
            results = linked_past_the_guard(bench, weights, a)
        except OrkError:
            return False
        return all(bool((result == exact(a, b)).all()) for result, b in zip(results, parts, strict=True))


def _native_chains_have_no_such_limit(bench: Bench) -> Control:
    right = _chain_is_right(bench, _MOST, imported=False)
    return Control(right, f"a chain over {_MOST} native weights is {'right' if right else 'wrong'}")


def _count(bench: Bench) -> Answer:
    rows: list[tuple[str | float | int | None, ...]] = []

    def works(count: int) -> bool:
        right = _chain_is_right(bench, count, imported=True)
        rows.append((count, "exact" if right else "fails"))
        return right

    most = highest_that_works(works, _FEWEST, _MOST)
    verdict = Verdict.PASS if 6 <= most < 19 else Verdict.FAIL
    why = f"{most} mappings work and {most + 1} do not; published: 6 do, 19 do not"
    figures = (
        Figure("mappings of a chain that work", 6, "", "published"),
        Figure("mappings of a chain that fail", 19, "", "published"),
    )
    return Answer(verdict, why, figures, ("mappings", "chain"), tuple(rows))


# -- how large one may be -------------------------------------------------------------------------------


def _board_memory(bench: Bench) -> tuple[float | None, int | None]:
    """Free CMA in MiB and dma-bufs of all programs; None where the board does not say."""
    if bench.files is None:
        return None, None
    reading = bench.files.read("/proc/meminfo")
    cma = parse_meminfo(reading.text()).cma_free_bytes if reading.access is Access.PRESENT else None
    shared = bench.files.read(_BUFINFO)
    bufs = parse_bufinfo(shared.text()) if shared.access is Access.PRESENT else None
    return None if cma is None else cma / (1 << 20), None if bufs is None else bufs.objects


def _one_import(bench: Bench, size: int, domain: int) -> tuple[str, float]:
    started = time.perf_counter_ns()
    try:
        buffer = bench.npu.importer().allocate_past_the_limit(size, domain)
    except OrkError as error:
        return error.line()[:40], (time.perf_counter_ns() - started) / 1e3
    spent = (time.perf_counter_ns() - started) / 1e3
    bench.npu.memory.free(buffer)
    return "imported", spent


def _filled(bench: Bench, domain: int) -> list[Buffer]:
    """Native buffers in all of a domain but the last one that came, which is given back."""
    memory = bench.npu.memory
    held: list[Buffer] = []
    for size in _PIECES:
        with contextlib.suppress(NoMemoryError):
            while True:
                held.append(memory.allocate(size, uapi.MemFlag.NON_CONTIGUOUS, domain))
    if held:
        memory.free(held.pop())
    return held


def _small_ones_come(bench: Bench) -> Control:
    found, _ = _one_import(bench, 1 << 20, 1)
    return Control(found == "imported", f"an import of 1 MiB: {found}")


def _sizes(bench: Bench) -> Answer:
    npu = bench.npu
    rows: list[tuple[str | float | int | None, ...]] = []
    largest = {"empty": 0, "nearly full": 0}
    held: list[Buffer] = []
    for state, domain in (("empty", 1), ("nearly full", 2)):
        if state == "nearly full":
            held = _filled(bench, domain)
        for size in _SIZES_MIB:
            found, spent = _one_import(bench, size << 20, domain)
            cma, bufs = _board_memory(bench)
            rows.append((state, size, found, spent, cma, bufs))
            if found == "imported":
                largest[state] = max(largest[state], size)
    for buffer in held:
        npu.memory.free(buffer)
    verdict = Verdict.PASS if 16 <= largest["empty"] < 64 else Verdict.FAIL
    why = f"{largest['empty']} MiB come into an empty domain, {largest['nearly full']} into one nearly full"
    figures = (
        Figure("largest import that works", 16, "MiB", "published"),
        Figure("largest import that fails", 64, "MiB", "published"),
    )
    columns = ("domain", "MiB", "found", f"us ({bench.clock})", "CMA free MiB", "dma-bufs")
    return Answer(verdict, why, figures, columns, tuple(rows))


PROBES = (
    Probe(
        name="import-first",
        question="Are all columns right where an import is the first weight of a domain?",
        formula=f"ones by ones, K = {_K}: C[0] and C[last] must both be {_K}; five fresh domains, all cores",
        rule="pass when both are right in every round; C[0] alone proves nothing",
        positive="a weight that is wrong in its last columns alone must show in C[last] and not in C[0]",
        control=_last_column_counts,
        ask=_import_first,
        rows=("INV-110", "RES-36"),
    ),
    Probe(
        name="import-count",
        question="How many imports may a chain walk, guard aside?",
        formula=f"chains of {_FEWEST} to {_MOST} programs, an imported weight each, by halving",
        rule="pass when the limit lies where it was published, from 6 to 18",
        positive=f"a chain over {_MOST} native weights must be right, so that what fails are imports",
        control=_native_chains_have_no_such_limit,
        ask=_count,
        rows=("INV-111", "RES-35"),
        harm="submits chains that never complete: each ends in a time-out and a reset of the NPU",
    ),
    Probe(
        name="import-size",
        question="How large may one import be, guard aside, and what does it take?",
        formula="imports of 16 to 64 MiB into an empty domain and into one that is nearly full",
        rule="pass when 16 MiB come into an empty domain and 64 do not",
        positive="an import of 1 MiB must come",
        control=_small_ones_come,
        ask=_sizes,
        rows=("INV-112", "RES-35"),
        harm="takes 4 GiB of memory for a moment and asks for imports of a size that was seen to hang a load",
    ),
)
