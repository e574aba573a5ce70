"""The rules of dispatch in the order they are asked: each answers for the units it knows, or passes them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orkbench_tui.driver.attention_limits import LEAST_KEYS
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.native.scan_halves import HALF_DEPTH, HALF_WIDTH, takes_halves
from orkbench_tui.native.tiles import padded
from orkbench_tui.plural import counted
from orkbench_tui.runner.dispatch.costs import DispatchCosts, attention_crossover
from orkbench_tui.runner.dispatch.unit import Op, Place, Unit

__all__ = ["LEAST_NPU_ROWS", "LOW_BIT", "RULES", "Facts", "Verdict"]

LEAST_NPU_ROWS = 2
"""One row is read off the weights faster than a submit takes."""

LOW_BIT = "low-bit"
"""The override that keeps weights of fewer than five bits off the NPU."""

_LEAST_K = 256
_LEAST_SCAN_HEADS = 64
_FEWEST_BITS = 5
_TIE = 0.10

_UNKNOWN = 2.0
"""Nobody published what the CPU's int8 matmuls reach; the rate assumed may be off by this factor."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules may look at besides the unit.

    ``npu``: one takes part. ``npu_us`` and ``cpu_us`` are the predictions, ``busy`` whether other
    programs work the NPU right now.
    """

    npu: bool
    overrides: Mapping[str, Place]
    costs: DispatchCosts
    npu_us: float | None
    cpu_us: float | None
    busy: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Verdict:
    place: Place
    why: str


Rule = Callable[[Unit, Facts], Verdict | None]


def _no_npu(unit: Unit, facts: Facts) -> Verdict | None:
    return None if facts.npu else Verdict(Place.CPU, "float32 runs on the CPU alone; no NPU takes part")


def _override(unit: Unit, facts: Facts) -> Verdict | None:
    place = facts.overrides.get(unit.op)
    if place is None:
        return None
    return Verdict(place, f"the setting dispatch says {unit.op}={place}")


def _attention(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.op is not Op.ATTENTION:
        return None
    if facts.overrides.get(unit.op) is Place.NPU:
        return _asked_attention(unit, facts.costs.most_keys)
    kept = "keys and values are kept by the CPU, exact to their type"
    gain = facts.costs.attention_gain(unit, resident=True)
    start = attention_crossover(resident=True)
    if gain is None:
        return Verdict(
            Place.CPU, f"{kept}; it runs beside what the NPU has of another part of the prompt, if anything"
        )
    if unit.context < start:
        return Verdict(Place.CPU, f"{counted(unit.context, 'token')}: below {start} the NPU would be slower")
    published = f"the {gain:.1f} times faster that is published is over scalar code, for 32 heads of 128"
    if facts.npu_us is None or facts.cpu_us is None:
        return Verdict(Place.CPU, f"{kept}; {published}")
    ratio = facts.npu_us / facts.cpu_us
    there = f"{ratio:.1f} times slower" if ratio > 1 else f"{1 / ratio:.1f} times faster"
    return Verdict(
        Place.CPU,
        f"{kept}; as int8 on the NPU (dispatch attention=npu) it would be {there} (predicted) and off by 0.5 %; {published}",
    )


def _asked_attention(unit: Unit, most: int) -> Verdict:
    if unit.M > 1:
        return Verdict(Place.CPU, "only single tokens attend on the NPU; a prompt's rows are many")
    if unit.attention is not None and unit.attention.why_not:
        return Verdict(Place.CPU, f"the setting dispatch says attention=npu, but {unit.attention.why_not}")
    if not LEAST_KEYS <= unit.context <= most:
        return Verdict(
            Place.CPU, f"{unit.context} tokens: the NPU attends to {LEAST_KEYS} up to {most} (GRD-15)"
        )
    return Verdict(Place.NPU, "the setting dispatch says attention=npu: int8 codes that stay there")


def _between(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.is_matmul:
        return None
    if unit.scan is not None:
        return None
    return Verdict(Place.CPU, "no matmul: one pass over rows the CPU has at hand")


def _one_row(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.M >= LEAST_NPU_ROWS:
        return None
    if unit.scan is not None:
        return Verdict(Place.CPU, "one row: two submits a layer would cost more than reading its state once")
    last = "only the last token goes through the head; " if unit.op is Op.HEAD else ""
    npu, cpu = (figure(f"RES-75 {way}").value for way in ("route 2", "CPU decode"))
    # A prediction for one matmul alone does not know what waiting for all of them came to.
    against = facts.npu_us is not None and facts.cpu_us is not None and facts.npu_us < facts.cpu_us
    weight = ", which counts more than the prediction for this one alone" if against else ""
    return Verdict(
        Place.CPU,
        f"{last}one row: every matmul would wait for a submit of its own, and decoding that way reached "
        f"{npu:g} tok/s where the CPU did {cpu:.1f} (published){weight}",
    )


def _scan_tiles(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.scan is None or takes_halves(unit.scan):
        return None
    return Verdict(
        Place.CPU,
        f"heads of {unit.scan.head_dim} values and states of {unit.scan.state_size} are no whole tiles of "
        f"{HALF_WIDTH} and {HALF_DEPTH}",
    )


def _scan(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.scan is None:
        return None
    if unit.scan.heads < _LEAST_SCAN_HEADS:
        return Verdict(
            Place.CPU,
            f"{unit.scan.heads} heads: chunks as fp16 matmuls are published to pay from {_LEAST_SCAN_HEADS} on, and "
            "would round where this does not",
        )
    if facts.npu_us is None or facts.cpu_us is None or facts.npu_us >= facts.cpu_us:
        return Verdict(
            Place.CPU, "the products of its chunks are too small to pay for two submits (predicted)"
        )
    return Verdict(
        Place.NPU,
        f"{unit.scan.heads} heads: the wide products of its chunks in fp16, published to pay from "
        f"{_LEAST_SCAN_HEADS} on; {facts.cpu_us / facts.npu_us:.1f} times faster there (predicted)",
    )


def _experts(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.op is not Op.EXPERTS:
        return None
    npu, cpu = (figure(f"RES-21 {way} experts").value for way in ("NPU", "CPU"))
    return Verdict(
        Place.CPU,
        "few rows go to each expert, and a submit for each costs more than it saves: published prefill with experts "
        f"on the NPU reached {npu:g} tok/s, on the CPU {cpu:g}",
    )


def _short_k(unit: Unit, facts: Facts) -> Verdict | None:
    if unit.K >= _LEAST_K:
        return None
    return Verdict(Place.CPU, f"K={unit.K}: below {_LEAST_K} the int8 schedule gives zeros (GRD-14)")


def _padding(unit: Unit, facts: Facts) -> Verdict | None:
    work = unit.K * sum(unit.N)
    done = padded(unit.K) * sum(padded(n) for n in unit.N)
    if done <= 2 * work:
        return None
    return Verdict(
        Place.CPU,
        f"K={unit.K} and N={'+'.join(map(str, unit.N))} fill tiles of 32 so badly that {done / work:.1f} "
        "times the work would be done",
    )


def _low_bit(unit: Unit, facts: Facts) -> Verdict | None:
    bits = unit.source.bits
    if bits is None or bits >= _FEWEST_BITS or facts.overrides.get(LOW_BIT) is not Place.CPU:
        return None
    return Verdict(
        Place.CPU,
        f"the model file holds {unit.source.name}, {bits} bits: the setting dispatch keeps low-bit sources here",
    )


def _cost(unit: Unit, facts: Facts) -> Verdict | None:
    npu, cpu = (None if us is None else us * 1e3 for us in (facts.npu_us, facts.cpu_us))
    if npu is None or cpu is None:
        return None
    if npu < cpu * (1 - _TIE):
        return Verdict(Place.NPU, f"{cpu / npu:.1f} times faster there (predicted)")
    if npu <= cpu * _UNKNOWN:
        if facts.busy():
            return Verdict(Place.CPU, f"{_near(npu, cpu)}, and another program works the NPU")
        return Verdict(Place.NPU, f"{_near(npu, cpu)}; the NPU is free and leaves the CPU to other work")
    floor = value("submit_floor")
    reason = (
        f"a submit alone is {floor / 1e3:.0f} us of it"
        if floor > npu / 3
        else "too little work for the cores"
    )
    return Verdict(Place.CPU, f"{npu / cpu:.1f} times faster here (predicted): {reason}")


def _near(npu: float, cpu: float) -> str:
    if npu <= cpu * (1 + _TIE):
        return "about as fast on both (predicted)"
    return f"{npu / cpu:.1f} times slower there (predicted), within the doubt about the CPU's rate"


RULES: tuple[tuple[str, Rule], ...] = (
    ("no-npu", _no_npu),
    ("attention", _attention),
    ("between", _between),
    ("one-row", _one_row),
    ("experts", _experts),
    ("scan-tiles", _scan_tiles),
    ("override", _override),
    ("scan", _scan),
    ("low-bit", _low_bit),
    ("short-k", _short_k),
    ("padding", _padding),
    ("cost", _cost),
)
"""Overrides come after what this engine has one way for, and before what is a matter of judgement."""
