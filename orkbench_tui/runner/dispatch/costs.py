"""What an operation is predicted to take on each side of a board, in nanoseconds, from published constants."""

from __future__ import annotations

from orkbench_tui.driver.attention_limits import KEY_CONTRACTION, LEAST_KEYS, most_keys
from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.driver.timing.attention import RESIDENT_POINTS, attention_gain, cpu_attention_ns
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.programs import Shape, hardware_ns
from orkbench_tui.native.scan_halves import takes_halves
from orkbench_tui.native.scan_steps import ScanShape
from orkbench_tui.native.tiles import padded
from orkbench_tui.runner.dispatch.unit import AttentionShape, Unit
from orkbench_tui.runner.npu_attention import room_for

__all__ = ["DispatchCosts", "attention_crossover"]

_CACHE_BYTES = 2
"""Of a number of the cache: half precision is what it holds unless a setting says otherwise."""


class DispatchCosts:
    """Costs on one chip. Both sides quantize their input, so that is in neither."""

    def __init__(self, soc: Soc = RK3588) -> None:
        self._soc = soc

    def npu_ns(self, unit: Unit) -> float | None:
        """One blocking call: its floor, the cores' work, cache maintenance and bringing sums to float32.

        None where the NPU path does not compute this.
        """
        if unit.scan is not None:
            return self._npu_scan_ns(unit.M, unit.scan) if takes_halves(unit.scan) else None
        if unit.attention is not None:
            return self._npu_attention_ns(unit.M, unit.context, unit.attention)
        if not unit.is_matmul:
            return None
        shapes = [Shape(unit.M, padded(unit.K), padded(n)) for n in unit.N]
        moved = unit.M * padded(unit.K) + sum(shape.result_bytes for shape in shapes)
        return (
            value("submit_floor")
            + sum(hardware_ns(shape, self._soc.cores, self._soc) for shape in shapes)
            + moved / value("fill_cached")
            + sum(unit.M * n for n in unit.N) * value("dequant")
        )

    def cpu_ns(self, unit: Unit) -> float | None:
        """Four big cores: weights streamed or multiplied, whichever takes longer; attention by its length.

        None for what is too little to have been published.
        """
        if unit.is_matmul:
            weights = unit.K * sum(unit.N)
            return max(weights / value("cpu_decode"), unit.M * weights / value("cpu_int8_macs"))
        if unit.scan is not None:
            return unit.M * (_wide_macs(unit.scan) + _inside_macs(unit.scan)) / value("cpu_attention")
        if unit.context:
            computed = cpu_attention_ns(1, unit.width, unit.M, max(0, unit.context - unit.M))
            if unit.attention is None:
                return computed
            read = 2 * unit.attention.kv_heads * unit.attention.head_dim * unit.context * _CACHE_BYTES
            return max(computed, read / value("cpu_decode"))
        return None

    def _npu_scan_ns(self, M: int, scan: ScanShape) -> float:
        """Two runs, a job for each chunk and group dealt over the cores; the processor has the rest, one after the other."""
        chunks, width = -(-M // scan.chunk), scan.group_width
        cores = self._soc.cores
        total = M * _inside_macs(scan) / value("cpu_attention")
        for rows, k in ((scan.state_size, scan.chunk), (scan.chunk, scan.state_size)):
            shape = Shape(rows, k, width, bits=16)
            rounds = -(-chunks * scan.groups // cores)
            total += value("submit_floor") + rounds * hardware_ns(shape, 1, self._soc)
            moved = 2 * k * (width + rows) + shape.result_bytes
            total += chunks * scan.groups * moved / value("fill_cached")
        return total

    def _npu_attention_ns(self, M: int, context: int, shape: AttentionShape) -> float | None:
        """Two polled runs a head, over all keys there is room for; None where that is not computed."""
        if M > 1 or shape.why_not or not LEAST_KEYS <= context <= self.most_keys:
            return None
        room = room_for(context)
        runs = (Shape(1, KEY_CONTRACTION, padded(context)), Shape(1, room, padded(shape.head_dim)))
        fixed = value("nonblock_submit") + value("poll_end")
        return shape.heads * sum(fixed + hardware_ns(run, 1, self._soc) for run in runs)

    @property
    def most_keys(self) -> int:
        """Keys the NPU attends to at most."""
        return most_keys(self._soc)

    def attention_gain(self, unit: Unit, *, resident: bool) -> float | None:
        """The published CPU time over NPU time of one row's attention; None for several rows, which nobody published.

        Over scalar code on the CPU, for 32 heads of 128; longer contexts count as the longest that was measured.
        """
        longest = RESIDENT_POINTS[-1][0]
        return attention_gain(min(unit.context, longest), resident=resident) if unit.M == 1 else None


def _wide_macs(scan: ScanShape) -> int:
    """Multiply-adds of a row with the state: read and written."""
    return 2 * scan.inner * scan.state_size


def _inside_macs(scan: ScanShape) -> int:
    """Of a row with those of its chunk before it, on average."""
    return (scan.inner + scan.groups * scan.state_size) * scan.chunk // 2


def attention_crossover(*, resident: bool) -> int:
    """The context length from which one row's attention would be faster on the NPU than on the CPU."""
    longest = RESIDENT_POINTS[-1][0]
    lengths = range(LEAST_KEYS, longest + 1)
    return next(length for length in lengths if attention_gain(length, resident=resident) >= 1.0)
