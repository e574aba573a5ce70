"""What it costs to hand work to the NPU and to hear of its end."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.programs import Shape, hardware_ns, program_ns, rows_per_program
from orkbench_tui.driver.timing.transfers import copy_in_ns, copy_out_ns

__all__ = [
    "SubmitSplit",
    "async_decode_ns",
    "blocking_call_ns",
    "core_scaling",
    "decode_batch_ns",
    "dispatch_floor_ns",
    "doorbell_call_ns",
    "doorbell_speedup",
    "overlap_wall_ns",
    "pipeline_ceiling",
    "polled_call_ns",
    "reset_ns",
    "serial_blocking_ns",
    "stream_scaling",
    "submit_split",
    "tile_count",
]


@dataclass(frozen=True, slots=True)
class SubmitSplit:
    """Parts of one M=1 submit, nanoseconds."""

    prepare: float
    wait: float
    write_out: float

    @property
    def total(self) -> float:
        return self.prepare + self.wait + self.write_out

    @property
    def shares(self) -> tuple[float, float, float]:
        return self.prepare / self.total, self.wait / self.total, self.write_out / self.total


def submit_split() -> SubmitSplit:
    """The published M=1 submit of 2048x2048 on three cores."""
    return SubmitSplit(value("submit_prepare"), value("submit_wait"), value("submit_write_out"))


def doorbell_call_ns(shape: Shape, soc: Soc = RK3588) -> float:
    """One matmul of one program submitted without waiting and polled until its result is there."""
    return value("nonblock_submit") + value("poll_end") + program_ns(shape, soc=soc)


def serial_blocking_ns(shape: Shape, soc: Soc = RK3588) -> float:
    """The same matmul in a row of blocking submits: an interrupt wakes the caller each time."""
    return doorbell_call_ns(shape, soc) + value("interrupt_wake")


def blocking_call_ns(shape: Shape, cores: int = 1, soc: Soc = RK3588) -> float:
    """One call of the driver that waits: submit floor and the NPU's time; copies are not in it."""
    return value("submit_floor") + hardware_ns(shape, cores, soc)


def core_scaling(shape: Shape, cores: int = 3, soc: Soc = RK3588) -> float:
    """How much faster ``cores`` cores are than one for a whole call, its copies included."""
    call = value("nonblock_submit") + value("poll_end") + value("interrupt_wake")
    copies = copy_in_ns(shape.M * shape.row_bytes) + copy_out_ns(shape.result_bytes)
    alone, together = (hardware_ns(shape, count, soc) for count in (1, cores))
    return (call + copies + alone) / (call + copies + together)


def polled_call_ns(shape: Shape, cores: int, soc: Soc = RK3588) -> float:
    """A whole matmul over ``cores`` cores, woken by interrupt, without the register program's making."""
    return value("nonblock_submit") + value("interrupt_wake") + hardware_ns(shape, cores, soc)


def tile_count(shape: Shape, soc: Soc = RK3588) -> int:
    """Programs one core takes for the rows of a shape whose weights are double-buffered."""
    return -(-shape.M // max(1, rows_per_program(shape.K, shape.bits, soc, groups=2)))


def stream_scaling(shape: Shape, cores: int = 3, soc: Soc = RK3588) -> float:
    """Independent tasks pulled by ``cores`` cores against the same tasks on one."""
    host = value("nonblock_submit") + value("poll_end") + value("interrupt_wake")
    shared = min(value("weight_rate"), value("shared_rate") / cores)
    return cores * (host + program_ns(shape, soc=soc)) / (host + program_ns(shape, rate=shared, soc=soc))


def doorbell_speedup(compute_ns: float) -> float:
    """(130 us + C) / (5 us + C): what not waiting in the kernel gains for a compute time C."""
    return (value("blocking_overhead") + compute_ns) / (value("nonblock_submit") + compute_ns)


def overlap_wall_ns(npu_ns: float, cpu_ns: float) -> float:
    """CPU work done while the NPU runs costs nothing until it is the longer of the two."""
    return max(npu_ns, cpu_ns)


def pipeline_ceiling(quant: float, run: float, dequant: float) -> float:
    """Best speed-up of double buffering the host's parts behind ``run``; any one unit of time."""
    host = quant + dequant
    return (host + run) / max(run, host)


def decode_batch_ns(tasks: int, weight_bytes: int) -> float:
    """``tasks`` independent M=1 matmuls handed over in one batch; the host's half is paid once."""
    reference = 3 << 20
    return value("decode_call_host") + tasks * value("decode_call_job") * weight_bytes / reference


def async_decode_ns(npu_ns: float, cpu_ns: float) -> float:
    """Bound of a decode token whose NPU and CPU halves overlap perfectly."""
    return max(npu_ns, cpu_ns)


def dispatch_floor_ns(programs: int, floor: str) -> float:
    """``programs`` times the named floor: why small wins do not add up."""
    return programs * value(floor)


def reset_ns(count: int = 1) -> float:
    return count * value("reset")
