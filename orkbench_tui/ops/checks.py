"""Known-answer checks of the NPU: a matmul of any number format, run in any way, compared in every element."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkbench_tui.errors import UnhealthyError, UsageError
from orkbench_tui.host_memory import require_memory
from orkbench_tui.ops.matmul_reference import CHECKED_DTYPES, Comparison, compare, operands

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.chain import ChainTask
    from orkbench_tui.driver.matmul.formats import MatmulFormat
    from orkbench_tui.driver.matmul.weights import Weight
    from orkbench_tui.driver.npu import Npu
    from orkbench_tui.driver.regcmd.programs import OutputConversion

__all__ = ["CHECKED_DTYPES", "MAX_CHECK_BYTES", "MAX_CHECK_WORK", "PATHS", "MatmulCheck", "exact_matmul"]

MAX_CHECK_BYTES = 1 << 30
"""Operands and result of a checked matmul, in this machine's memory."""

MAX_CHECK_WORK = 1 << 40
"""Multiplications of a checked matmul: about a minute of this machine's processor."""

_LIMITS = {"M": 65536, "K": 65536, "N": 262144}
_DOORBELL_ROWS = 64
_COLUMN_PARTS = 4
_FULL_K = 512


@dataclass(frozen=True, slots=True)
class MatmulCheck:
    """Outcome of one matmul.

    ``wrong`` counts elements outside what the format may give, None when nothing was compared. ``bound``
    says what was allowed and ``worst`` is the largest error in parts of it; both only where results may
    differ from exact ones. ``hw_ns`` is what the kernel reported, None where it reports nothing.
    ``failure_file`` names what was left of a wrong run, "" where nothing was.
    """

    m: int
    k: int
    n: int
    wrong: int | None
    submits: int
    tasks: int
    hw_ns: int | None
    dtype: str = "int8"
    path: str = "stream"
    resets: int = 0
    bound: str | None = None
    worst: float | None = None
    failure_file: str = ""


@dataclass(frozen=True, slots=True)
class _Job:
    npu: Npu
    format: MatmulFormat
    a: np.ndarray
    b: np.ndarray
    convert: OutputConversion | None
    core: int | None


def _widened(a: np.ndarray, granule: int) -> np.ndarray:
    """``a`` with K padded with zeros to a multiple of ``granule``."""
    import numpy as np

    rows, k = a.shape
    wide = np.zeros((rows, -(-k // granule) * granule), dtype=a.dtype)
    wide[:, :k] = a
    return wide


@contextlib.contextmanager
def _loaded(job: _Job, parts: Sequence[np.ndarray]) -> Iterator[list[Weight]]:
    """Weights for the block. After a failure of the NPU they are kept: a lost job may still read them."""
    weights = []
    try:
        for index, part in enumerate(parts):
            name = "B" if len(parts) == 1 else f"B, part {index + 1}"
            weights.append(job.npu.load(job.format, name, part))
        yield weights
    except UnhealthyError:
        weights.clear()
        raise
    finally:
        for weight in weights:
            job.npu.free(weight)


def _run_matmul(job: _Job, core: int | None) -> np.ndarray:
    with _loaded(job, [job.b]) as weights:
        matmul = job.npu.matmul(weights, len(job.a), job.convert)
        matmul.a[:] = _widened(job.a, job.format.precision.k_granule)
        matmul.run() if core is None else matmul.run_on(core)
        c = matmul.outputs[0][:, : len(job.b)].copy()
        matmul.close()
        return c


def _spread(job: _Job) -> np.ndarray:
    return _run_matmul(job, job.core)


def _blocking(job: _Job) -> np.ndarray:
    return _run_matmul(job, job.core or 0)


def _chained(job: _Job, rows_per_task: int, run: Callable[..., list[np.ndarray]]) -> np.ndarray:
    """Cut into tasks of equal rows and a part of the columns; ``run`` computes them in one submit."""
    import numpy as np

    from orkbench_tui.driver.chain import ChainTask

    granule = _FULL_K if job.format.precision.input_bits == 8 else job.format.precision.k_granule
    a, b = _widened(job.a, granule), _widened(job.b, granule)
    width = -(-len(b) // _COLUMN_PARTS)
    columns = range(0, len(b), width)
    count = -(-len(a) // rows_per_task)
    height = -(-len(a) // count)
    padded = np.zeros((count * height, a.shape[1]), dtype=a.dtype)
    padded[: len(a)] = a
    rows = range(0, len(padded), height)
    parts = [padded[row : row + height] for row in rows]
    with _loaded(job, [b[column : column + width] for column in columns]) as weights:
        tasks = [
            ChainTask(weight, height, a=part, convert=job.convert) for part in parts for weight in weights
        ]
        results = iter(run(job, tasks))
    c = np.empty((len(padded), len(b)), dtype=job.format.total)
    for row in rows:
        for column in columns:
            target = c[row : row + height, column : column + width]
            target[:] = next(results)[:, : target.shape[1]]
    return c[: len(a)]


def _chain(job: _Job) -> np.ndarray:
    def run(job: _Job, tasks: list[ChainTask]) -> list[np.ndarray]:
        chain = job.npu.chain(tasks, core=job.core or 0)
        chain.run()
        outputs = [output.copy() for output in chain.outputs]
        chain.close()
        return outputs

    return _chained(job, len(job.a), run)


def _doorbell(job: _Job) -> np.ndarray:
    def run(job: _Job, tasks: list[ChainTask]) -> list[np.ndarray]:
        with job.npu.doorbell(core=job.core or 0) as doorbell:
            doorbell.build(tasks)
            doorbell.begin()
            doorbell.end()
            return list(doorbell.outputs)

    return _chained(job, _DOORBELL_ROWS, run)


def _compiled(job: _Job) -> np.ndarray:
    if len(job.a) != 1 or job.format.name != "int8":
        raise UsageError(
            f"compiled {job.format.name} of {len(job.a)} rows", why="allowed: int8, M = 1, K up to 4096"
        )
    with _loaded(job, [_widened(job.b, _FULL_K)]) as weights:
        program = job.npu.compile(weights, _widened(job.a, _FULL_K), core=job.core or 0)
        program.run()
        c = program.outputs[0][:, : len(job.b)].copy()
        program.close()
        return c


def _sliced(job: _Job) -> np.ndarray:
    if job.format.name != "int8" or job.core is not None:
        raise UsageError(
            f"sliced {job.format.name}{'' if job.core is None else f' on core {job.core}'}",
            why="allowed: int8, on all cores",
        )
    weight = job.npu.load_sliced("B", job.b)
    matmul = job.npu.sliced_matmul(weight, len(job.a))
    c = matmul.run(job.a)
    matmul.close()
    job.npu.free(weight)
    return c


_RUNS: dict[str, Callable[[_Job], np.ndarray]] = {
    "blocking": _blocking,
    "chain": _chain,
    "stream": _spread,
    "doorbell": _doorbell,
    "compiled": _compiled,
    "sliced": _sliced,
}
PATHS = tuple(_RUNS)
"""Ways to submit: one core, waited for · several tasks linked in one submit · all cores, each pulling ·
not waited for, watched through memory · compiled once, one row · any shape cut into linked tasks over
all cores."""

_UNTIMED = ("doorbell", "compiled")


def _require_size(m: int, k: int, n: int) -> None:
    for name, value in (("M", m), ("K", k), ("N", n)):
        if not 1 <= value <= _LIMITS[name]:
            raise UsageError(f"{name} = {value}", why=f"allowed: 1 to {_LIMITS[name]}")
    size = 2 * (m * k + k * n) + 4 * m * n
    if size > MAX_CHECK_BYTES:
        raise UsageError(
            f"{m}x{k} by {k}x{n}",
            why=f"operands and result take {size} bytes, allowed: up to {MAX_CHECK_BYTES}",
            do="check a smaller shape",
        )
    if m * k * n > MAX_CHECK_WORK:
        raise UsageError(
            f"{m}x{k} by {k}x{n}",
            why=f"{m * k * n} multiplications, allowed: up to {MAX_CHECK_WORK}",
            do="check a smaller shape",
        )
    # Operands: drawn, tiled, on both sides of a simulated buffer. Result: its buffers, a copy, the exact product.
    needed = 4 * 2 * (m * k + k * n) + 24 * m * n
    require_memory(f"a checked matmul {m}x{k} by {k}x{n}", needed, "check a smaller shape")


def exact_matmul(
    npu: Npu,
    m: int,
    k: int,
    n: int,
    *,
    seed: int = 0,
    core: int | None = None,
    dtype: str = "int8",
    path: str = "stream",
    check: bool = True,
) -> MatmulCheck:
    """Run a seeded full-range matmul of one of ``CHECKED_DTYPES`` in one of ``PATHS`` and compare all of it.

    ``core`` names one core; without it ``stream`` uses all and the other paths core 0. Sizes the format
    does not take are padded with zeros.

    Raises:
        UsageError: an unknown dtype or path, a size outside the limits, or a path that cannot run it.
        OrkError: the NPU refused or failed.
    """
    from orkbench_tui.driver.matmul.formats import FORMATS

    for what, value, known in (("dtype", dtype, CHECKED_DTYPES), ("path", path, PATHS)):
        if value not in known:
            raise UsageError(f"{what} {value!r}", why=f"allowed: {', '.join(known)}")
    _require_size(m, k, n)
    a, b, convert = operands(dtype, m, k, n, seed)
    before = npu.counters
    c = _RUNS[path](_Job(npu, FORMATS[dtype], a, b, convert, core))
    used = npu.counters.since(before)
    found = compare(dtype, a, b, convert, c) if check else Comparison(None)
    kept = None
    if found.wrong:
        what = f"{m}x{k} by {k}x{n}, {dtype}, {path}: wrong results"
        kept = npu.failures.keep_recent(what, f"{found.wrong} of {m * n} elements are wrong")
    return MatmulCheck(
        m=m,
        k=k,
        n=n,
        wrong=found.wrong,
        submits=used.submits,
        tasks=used.tasks,
        hw_ns=None if path in _UNTIMED else used.hw_ns,
        dtype=dtype,
        path=path,
        resets=used.resets,
        bound=found.bound,
        worst=found.worst,
        failure_file=kept.name if kept else "",
    )
