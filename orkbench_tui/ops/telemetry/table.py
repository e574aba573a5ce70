"""Samples as rows of a table (CSV): one column a figure, unit in the name, empty for what is not known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["csv_rows"]


def csv_rows(samples: Iterable[Sample]) -> Iterator[str]:
    """Head and rows without line ends. Columns are those the first sample has; later ones keep to them."""
    names: list[str] = []
    for sample in samples:
        figures = _figures(sample)
        if not names:
            names = list(figures)
            yield _row(names)
        yield _row(["" if (value := figures.get(name)) is None else _text(value) for name in names])


def _row(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _text(value: float | int | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _figures(sample: Sample) -> dict[str, float | int | str | None]:
    memory, resets, dma = sample.memory, sample.resets, sample.dma_bufs
    swap_used = (
        memory.swap_total_bytes - memory.swap_free_bytes
        if memory and memory.swap_total_bytes is not None and memory.swap_free_bytes is not None
        else None
    )
    return {
        "time": datetime.fromtimestamp(sample.unix_s, UTC).isoformat(timespec="milliseconds"),
        "unix_s": sample.unix_s,
        **{f"npu{core.index}_load_pct": core.load_pct for core in sample.npu.cores},
        **{f"npu{core.index}_irq_per_s": core.irq_per_s for core in sample.npu.cores},
        **{f"npu{core.index}_hw_busy_pct": core.hw_busy_pct for core in sample.npu.cores},
        "npu_hz": sample.npu.clock.hz,
        "ddr_hz": sample.ddr.hz if sample.ddr else None,
        **{f"cpu{core.index}_busy_pct": core.busy_pct for core in sample.cores},
        "memory_available_bytes": memory.available_bytes if memory else None,
        "memory_cached_bytes": memory.cached_bytes if memory else None,
        "cma_free_bytes": memory.cma_free_bytes if memory else None,
        "swap_used_bytes": swap_used,
        "dma_buf_objects": dma.objects if dma else None,
        "dma_buf_bytes": dma.bytes if dma else None,
        "sram_used_bytes": sample.sram.used_bytes if sample.sram else None,
        **{f"{item.zone}_celsius": item.celsius for item in sample.temperatures},
        "capped": len(sample.caps) if sample.cooling else None,
        "resets": resets.value if resets else None,
        "job_timeouts": sample.log.facts.hangs if resets else None,
        "tasks_blocked": sample.blocked_tasks,
    }
