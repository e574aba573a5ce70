"""The published constants of the timing model, each with its source.

``standing`` says what a constant is worth: ``published`` stands as such in the source, ``derived`` follows
from published figures by the arithmetic its note gives, ``assumed`` is nobody's measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orkbench_tui.driver.timing.labels import checked_standing

__all__ = ["CONSTANTS", "Constant", "Standing", "value"]

Standing = Literal["published", "derived", "assumed"]


@dataclass(frozen=True, slots=True)
class Constant:
    """One figure; ``id`` is its row among the published results, "" where it has none."""

    name: str
    value: float
    unit: str
    standing: Standing
    source: str
    id: str = ""

    def __post_init__(self) -> None:
        checked_standing(self.standing)


_ROADMAP = "ork-driver roadmap, "


CONSTANTS: tuple[Constant, ...] = (
    Constant(
        "program_floor", 4_380.0, "ns", "published", _ROADMAP + "tier 13, chain_marginal_probe", "RES-51"
    ),
    Constant(
        "empty_program", 1_000.0, "ns", "published", _ROADMAP + "tier 11, ring of 2000 tasks", "INV-141"
    ),
    Constant("weight_rate", 10.8, "bytes/ns", "published", _ROADMAP + "tier 13, one core's stream", "RES-51"),
    Constant("shared_rate", 19.87, "bytes/ns", "published", _ROADMAP + "NEXT, six weights at once", "RES-69"),
    Constant(
        "dram_rate", 21.9, "bytes/ns", "published", _ROADMAP + "forward-looking, LPDDR4X ceiling", "INV-306"
    ),
    Constant("int8_macs", 1_024.0, "macs/ns", "published", "vendor figure: 2 TOPS int8 a core at 1 GHz"),
    Constant(
        "mac_efficiency",
        0.86,
        "",
        "derived",
        "512x2048x2048 in 2573 us on the closed runtime, less one submit floor, at 1024 MACs a cycle",
        "RES-07",
    ),
    Constant("submit_floor", 132_000.0, "ns", "published", _ROADMAP + "tier 11, mc_prof", "RES-40"),
    Constant(
        "blocking_overhead", 130_000.0, "ns", "published", _ROADMAP + "tier 11, per-op overhead", "INV-137"
    ),
    Constant("nonblock_submit", 5_000.0, "ns", "published", _ROADMAP + "tier 11, NONBLOCK return", "RES-40"),
    Constant("spin_floor", 16_000.0, "ns", "published", _ROADMAP + "NEXT, a polled task's floor", "RES-72"),
    Constant(
        "poll_end",
        3_000.0,
        "ns",
        "derived",
        "doorbell_prof 1x512x512: 36.2 us less NONBLOCK return, program floor and weight stream",
        "RES-41",
    ),
    Constant(
        "interrupt_wake",
        42_200.0,
        "ns",
        "derived",
        "doorbell_prof 1x512x512: 78.4 us blocking less 36.2 us polled",
        "RES-41",
    ),
    Constant("submit_prepare", 3_300.0, "ns", "published", _ROADMAP + "tier 2a, register program", "RES-11"),
    Constant(
        "submit_wait", 154_000.0, "ns", "published", _ROADMAP + "tier 2a, ioctl, interrupt, sync", "RES-11"
    ),
    Constant("submit_write_out", 900.0, "ns", "published", _ROADMAP + "tier 2a, write-out", "RES-11"),
    Constant(
        "expert_floor",
        365_000.0,
        "ns",
        "published",
        _ROADMAP + "tier 5, submit in the MoE handler",
        "INV-069",
    ),
    Constant(
        "expert_program",
        18_000.0,
        "ns",
        "published",
        _ROADMAP + "tier 5, floor of an expert program",
        "INV-059",
    ),
    Constant("reset", 105_000_000.0, "ns", "published", _ROADMAP + "tier 18, ACT_RESET", "RES-39"),
    Constant(
        "mode_keep_warm", 350_000.0, "ns", "derived", "mode layer: a kept transition costs 0.2 to 0.5 ms"
    ),
    Constant(
        "domain_first_touch",
        2_225_000.0,
        "ns",
        "derived",
        "tier 18: twelve switches took 26.7 ms; later switches are not charged",
        "RES-65",
    ),
    Constant(
        "decode_call_host",
        255_700.0,
        "ns",
        "published",
        _ROADMAP + "NEXT, begin half of an M=1 call",
        "INV-274",
    ),
    Constant(
        "decode_call_job", 113_800.0, "ns", "published", _ROADMAP + "NEXT, a 3 MiB job on the NPU", "RES-71"
    ),
    Constant(
        "fill_cached",
        10.0,
        "bytes/ns",
        "published",
        _ROADMAP + "tier 9a, cacheable fill with clean",
        "RES-33",
    ),
    Constant(
        "fill_uncached", 1.2, "bytes/ns", "published", _ROADMAP + "tier 9a, write-combined fill", "RES-33"
    ),
    Constant(
        "tile_rate",
        0.76,
        "bytes/ns",
        "derived",
        "preparing a weight takes up to 26 times the matmul at M <= 128: 26 at one row on three cores",
        "INV-102",
    ),
    Constant(
        "mapped_cold", 1.4, "x", "published", _ROADMAP + "tier 9, disk note: mapped pages, cold", "INV-101"
    ),
    Constant("read_cold", 2.2, "x", "published", _ROADMAP + "tier 9, disk note: pread, cold", "INV-101"),
    Constant("disk_cold", 0.5, "bytes/ns", "published", _ROADMAP + "tier 9, NVMe cold ceiling", "INV-161"),
    Constant(
        "copy_in",
        1.32,
        "bytes/ns",
        "derived",
        "512x2048 int8 into NPU memory: 4763 us before and 3967 us after input zero-copy",
        "RES-08",
    ),
    Constant(
        "copy_out",
        5.8,
        "bytes/ns",
        "derived",
        "512x2048 int32 out of NPU memory: 3967 us less the 3242 us that remain with output zero-copy",
        "RES-08",
    ),
    Constant(
        "serial_macs",
        393.0,
        "macs/ns",
        "derived",
        "overlap_probe's run column on three cores (94 and 18 ms), less one stream of the weight",
        "RES-79",
    ),
    Constant(
        "activation_quant",
        1.36,
        "ns/element",
        "derived",
        "7B prefill: t_actq 2822 ms, tokens from t_run 32521 ms at the run rate above",
        "RES-80",
    ),
    Constant("dequant", 0.84, "ns/element", "derived", "7B prefill: t_deq 2143 ms, same tokens", "RES-80"),
    Constant(
        "cpu_attention",
        57.0,
        "macs/ns",
        "assumed",
        "three quarters of the float32 peak of four A76 at 2.4 GHz",
    ),
    Constant(
        "cpu_int8_macs",
        150.0,
        "macs/ns",
        "assumed",
        "half of the dot product peak of four A76 at 2.4 GHz, two of 16 multiply-accumulates a cycle each",
    ),
    Constant(
        "between_matmuls",
        3_400.0,
        "ns/layer-channel",
        "derived",
        "what remains of pp512 45.3 tok/s of the 7B when everything above is taken off",
        "RES-77",
    ),
    Constant(
        "cpu_decode",
        9.4,
        "bytes/ns",
        "published",
        _ROADMAP + "NEXT, effective weight rate of the CPU",
        "RES-75",
    ),
    Constant(
        "one_core_decode", 8.0, "bytes/ns", "published", _ROADMAP + "forward-looking, one A76", "INV-306"
    ),
    Constant("overlap_share", 0.95, "", "published", "second roadmap document: double buffering", "RES-79"),
)

_VALUES = {constant.name: constant.value for constant in CONSTANTS}


def value(name: str) -> float:
    """The value of a constant, in the unit its row gives."""
    return _VALUES[name]
