"""The timing model against the published figures: what it says, how far off it is, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from orkbench_tui.driver.matmul.weight_stationary import Accumulate, best_tiling, row_tile_flow_bytes
from orkbench_tui.driver.timing import attention, models, programs, submits, transfers
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.not_predicted import NOT_PREDICTED
from orkbench_tui.driver.timing.programs import Shape
from orkbench_tui.driver.timing.published import PUBLISHED, Figure
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS

__all__ = ["TOLERANCE", "Comparison", "comparisons"]

TOLERANCE = 0.10
"""A prediction farther off than this needs its reason in the table."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published figure beside the model's.

    ``predicted`` is None where the model has nothing to say, and ``why`` tells the reason. ``calibrated``:
    a constant of the model was read off this very figure, so that agreement proves nothing.
    """

    figure: Figure
    predicted: float | None
    calibrated: bool
    why: str

    @property
    def deviation(self) -> float | None:
        """(predicted - published) / published."""
        if self.predicted is None:
            return None
        return self.predicted / self.figure.value - 1

    @property
    def within(self) -> bool | None:
        return None if self.deviation is None else abs(self.deviation) <= TOLERANCE


@dataclass(frozen=True, slots=True)
class _Claim:
    predict: Callable[[], float]
    calibrated: bool = False
    why: str = ""


_SEVEN, _SMALL, _TINY = (REFERENCE_MODELS[name] for name in ("qwen2.5-7b", "qwen3-1.7b", "qwen3-0.6b"))
_SQUARE, _THIN = Shape(512, 2048, 2048), Shape(1, 2048, 2048)

_ROW_64 = (
    "64 rows of 512x512 cost 92 us more than one row there, and 37 us more at 2048x2048: "
    "no term that grows with the work fits both"
)


def _shape(text: str) -> Shape:
    M, K, N = map(int, text.split("x"))
    return Shape(M, K, N)


def _single_core_us(*, copied: bool) -> float:
    tiles = submits.tile_count(_SQUARE)
    npu = tiles * value("submit_floor") + programs.hardware_ns(_SQUARE)
    copies = transfers.copy_out_ns(_SQUARE.result_bytes)
    if copied:
        copies += transfers.copy_in_ns(_SQUARE.M * _SQUARE.row_bytes)
    return (npu + copies) / 1e3


def _host_over_run() -> float:
    parts = models.prefill(_SEVEN, 512)
    return 100 * (parts.quantize + parts.dequantize) / parts.run


def _stationary(tile_us: float, where: Accumulate) -> float:
    M, K, N = 228, 3584, 3584
    # The published model's own memory rate, which both sides share.
    return row_tile_flow_bytes(M, K, N) / 11e9 / best_tiling(M, K, N, tile_us, where).seconds


def _us(predict: Callable[[Shape], float], shape: Shape) -> Callable[[], float]:
    return lambda: predict(shape) / 1e3


def _doorbell() -> Iterator[tuple[str, _Claim]]:
    for text in ("1x512x512", "1x2048x2048", "64x512x512", "64x2048x2048", "64x4096x4096"):
        shape, why = _shape(text), _ROW_64 if text == "64x512x512" else ""
        own = text == "1x512x512"
        yield f"RES-41 doorbell {text}", _Claim(_us(submits.doorbell_call_ns, shape), own, why)
        yield f"RES-41 blocking {text}", _Claim(_us(submits.serial_blocking_ns, shape), own, why)


def _overlap() -> Iterator[tuple[str, _Claim]]:
    alone = ((1, 2720, 221), (4, 2744, 881), (16, 2750, 3526), (64, 2743, 14108))
    for reps, npu, cpu in alone:
        name = f"RES-42 wall, {reps} rep{'s' if reps > 1 else ''}"
        yield name, _Claim(partial(submits.overlap_wall_ns, npu, cpu))


def _bandwidth() -> Iterator[tuple[str, _Claim]]:
    size = 1024 * 3072
    for prefix in ("", "down "):
        for tasks in (1, 2, 3, 6):
            rate = tasks * size / submits.decode_batch_ns(tasks, size)
            yield f"RES-69 {prefix}S={tasks}", _Claim(partial(float, rate))


def _attention() -> Iterator[tuple[str, _Claim]]:
    for id, resident in (("RES-46", False), ("RES-47", True)):
        for context in (512, 1024, 2048):
            claim = _Claim(partial(attention.attention_gain, context, resident=resident), True)
            yield f"{id} L={context}", claim


def _utilisation() -> Iterator[tuple[str, _Claim]]:
    why = (
        "the study does not say how it cut rows; the model counts the least traffic its rules allow "
        "and the shared memory rate of six streams"
    )
    for core in range(3):
        yield f"RES-76 core {core}", _Claim(lambda: 100 * models.prefill(_SEVEN, 512).npu_busy, why=why)


_CLAIMS: dict[str, _Claim] = {
    "RES-02 prefill": _Claim(lambda: models.prefill(_SMALL, 512).tokens_per_s),
    "RES-02 decode": _Claim(
        lambda: models.decode(_SMALL).best_tokens_per_s,
        why="at the memory's ceiling of 21.9 GB/s; at the effective 9.4 it would be 5.5",
    ),
    "RES-04 whole K": _Claim(lambda: models.prefill(_SMALL, 512).tokens_per_s),
    "RES-05 3 cores, M=1": _Claim(lambda: submits.core_scaling(_THIN)),
    "RES-06 3 cores, after": _Claim(
        lambda: submits.core_scaling(_SQUARE),
        why="measured before whole-K programs, when the host also added up two slices of K",
    ),
    "RES-07 closed runtime": _Claim(
        lambda: (value("submit_floor") + _SQUARE.macs / (1024 * value("mac_efficiency"))) / 1e3, True
    ),
    "RES-08 copied": _Claim(lambda: _single_core_us(copied=True)),
    "RES-08 input in place": _Claim(lambda: _single_core_us(copied=False)),
    "RES-11 prepare": _Claim(lambda: submits.submit_split().prepare / 1e3, True),
    "RES-11 ioctl and wait": _Claim(
        lambda: (submits.polled_call_ns(_THIN, 3) - value("submit_prepare")) / 1e3,
        why="4 MiB of weights in 154 us would be 27 GB/s, above the memory's ceiling of 21.9",
    ),
    "RES-11 write-out": _Claim(lambda: submits.submit_split().write_out / 1e3, True),
    "RES-12 NPU": _Claim(lambda: models.npu_decode_ns(_SMALL) / 1e6),
    "RES-27 floor": _Claim(
        lambda: submits.stream_scaling(Shape(1, 512, 512)),
        why="the tool's shape is not published; 1x512x512 is taken, whose streams share the memory's rate",
    ),
    "RES-33 write-combined": _Claim(lambda: 1 / transfers.fill_ns(1, cached=False), True),
    "RES-33 cacheable": _Claim(lambda: 1 / transfers.fill_ns(1), True),
    "RES-39 reset": _Claim(lambda: submits.reset_ns() / 1e6, True),
    "RES-40 blocking floor": _Claim(lambda: value("submit_floor") / 1e3, True),
    "RES-40 NONBLOCK return": _Claim(lambda: value("nonblock_submit") / 1e3, True),
    "RES-51 floor of a task": _Claim(lambda: value("program_floor") / 1e3, True),
    "RES-51 weight stream": _Claim(lambda: value("weight_rate"), True),
    "RES-52 on chip at 4.4 us, N=3584": _Claim(lambda: _stationary(4.4, Accumulate.CHIP)),
    "RES-52 on chip at 4.0 us, N=3584": _Claim(lambda: _stationary(4.0, Accumulate.CHIP)),
    "RES-52 in DRAM at no cost": _Claim(lambda: _stationary(0.0, Accumulate.DRAM)),
    "RES-64 resets": _Claim(lambda: 146.1 + submits.reset_ns(160) / 1e9, why="from the run without resets"),
    "RES-64 resets, again": _Claim(
        lambda: 146.1 + submits.reset_ns(160) / 1e9, why="from the run without resets"
    ),
    "RES-65 12 domain switches": _Claim(lambda: transfers.domain_ns(12) / 1e6, True),
    "RES-75 CPU decode": _Claim(
        lambda: models.decode(_TINY, context=512).tokens_per_s,
        why="at the CPU's effective weight rate of 9.4 GB/s",
    ),
    "RES-77 pp512": _Claim(lambda: models.prefill(_SEVEN, 512).tokens_per_s, True),
    "RES-77 pp256": _Claim(lambda: models.prefill(_SEVEN, 256).tokens_per_s),
    "RES-79 FFN 512x3584x18944": _Claim(
        lambda: value("overlap_share") * submits.pipeline_ceiling(11, 94, 11), why="95 % of the ceiling"
    ),
    "RES-79 attention 512x3584x3584": _Claim(
        lambda: value("overlap_share") * submits.pipeline_ceiling(11, 18, 2), why="95 % of the ceiling"
    ),
    "RES-79 run 512x3584x18944": _Claim(lambda: models.matmul_run_ns(Shape(512, 3584, 18944)) / 1e6, True),
    "RES-79 run 512x3584x3584": _Claim(lambda: models.matmul_run_ns(Shape(512, 3584, 3584)) / 1e6, True),
    "RES-80 host over run": _Claim(_host_over_run, True),
    **dict(_doorbell()),
    **dict(_overlap()),
    **dict(_bandwidth()),
    **dict(_attention()),
    **dict(_utilisation()),
}


def comparisons() -> tuple[Comparison, ...]:
    """Every published figure, in order of its row, beside what the model says."""
    return tuple(_compared(row) for row in PUBLISHED)


def _compared(row: Figure) -> Comparison:
    claim = _CLAIMS.get(row.key)
    if claim is None:
        return Comparison(row, None, False, NOT_PREDICTED[row.id])
    return Comparison(row, claim.predict(), claim.calibrated, claim.why)
