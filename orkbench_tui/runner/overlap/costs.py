"""What the steps of a prompt cost on a board, from published constants: predictions, in nanoseconds.

Two cost tables. ``published_costs`` are those of the published open stack: every matmul quantizes its own
input, and its results are copied out of NPU memory. ``in_place_costs`` are this driver's: operands and
results are used where they lie, and weights that share an input share its quantization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.driver.timing.attention import cpu_attention_ns
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.models import matmul_run_ns
from orkbench_tui.driver.timing.programs import KERNEL_GROUP, Shape, hardware_ns
from orkbench_tui.driver.timing.shapes import LinearShape, ModelShape
from orkbench_tui.runner.overlap.order import Room, StepFacts

__all__ = ["CostedStep", "PrefillCosts", "in_place_costs", "prompt_steps", "published_costs"]

_STUDY_TOKENS = 512
"""The prompt the residual of the published prefill was taken from."""


@dataclass(frozen=True, slots=True)
class PrefillCosts:
    """Nanoseconds for an element or row; rates in multiply-accumulates a nanosecond.

    ``between`` is for a row and channel of a layer: norms, rotations, gates and what else lies between
    matmuls. ``copied``: the driver copies operands and results. ``shared_input``: one quantization for all
    weights of a group. ``submit`` is what the NPU waits for at each call; ``sync`` is bytes/ns of cache
    maintenance, used where nothing is copied.
    """

    name: str
    quantize: float
    dequantize: float
    between: float
    submit: float
    sync: float
    copied: bool
    shared_input: bool
    soc: Soc = RK3588


@dataclass(frozen=True, slots=True)
class CostedStep:
    """``ns`` is how long the room is taken, ``cores`` how long each NPU core works in that time."""

    facts: StepFacts
    ns: float
    cores: tuple[float, ...]


def published_costs(soc: Soc = RK3588) -> PrefillCosts:
    """The open stack as published: the model whose pp512 of 45.3 tokens/s the timing model reproduces."""
    return PrefillCosts(
        name="published stack",
        quantize=value("activation_quant"),
        dequantize=value("dequant"),
        between=value("between_matmuls") / _STUDY_TOKENS,
        submit=0.0,
        sync=0.0,
        copied=True,
        shared_input=False,
        soc=soc,
    )


def in_place_costs(soc: Soc = RK3588) -> PrefillCosts:
    """This driver: no copies, one submit a core and group. The rates of CPU work are the published ones."""
    return PrefillCosts(
        name="this driver",
        quantize=value("activation_quant"),
        dequantize=value("dequant"),
        between=value("between_matmuls") / _STUDY_TOKENS,
        submit=value("submit_floor"),
        sync=value("fill_cached"),
        copied=False,
        shared_input=True,
        soc=soc,
    )


def prompt_steps(
    model: ModelShape, rows: int, before: int, costs: PrefillCosts, *, copies_on_cpu: bool
) -> list[CostedStep]:
    """The steps of ``rows`` tokens after ``before`` through all layers; the head's single row is left out.

    Args:
        copies_on_cpu: the driver's own work around a matmul is a step of the CPU's, else part of the
            NPU's, as it is where a call returns only when all of it is done.

    Raises:
        ValueError: a model that is not the five matmuls of a dense layer.
    """
    if len(model.linears) != 5 or any(linear.used for linear in model.linears):
        raise ValueError(f"{model.name} is not a dense model of five kinds of matmul")
    q, kv, out, wide, down = model.linears
    between = rows * model.embedding * costs.between / 4
    attention = cpu_attention_ns(1, model.attention_width, rows, before)
    steps: list[CostedStep] = []
    pending = 0.0
    facts = StepFacts(Room.CPU)
    for layer in range(model.layers):
        for group in ((q, kv), (out,), (wide,), (down,)):
            matmul = _matmul(group, rows, costs)
            quantized = rows * _inputs(group, costs) * costs.quantize
            copies = matmul.host if copies_on_cpu else 0.0
            steps.append(CostedStep(facts, pending + between + quantized, (0.0,) * costs.soc.cores))
            steps.append(CostedStep(StepFacts(Room.NPU), matmul.ns - copies, matmul.cores))
            outputs = rows * sum(linear.N * linear.count for linear in group)
            pending = copies + outputs * costs.dequantize
            facts = StepFacts(Room.CPU)
            if group == (q, kv):
                pending += attention
                facts = StepFacts(Room.CPU, layer, layer)
    steps.append(CostedStep(facts, pending, (0.0,) * costs.soc.cores))
    return steps


@dataclass(frozen=True, slots=True)
class _Matmul:
    """A group's call: ``ns`` of it, of which ``host`` is the driver's copying and set-up."""

    ns: float
    host: float
    cores: tuple[float, ...]


def _inputs(group: Sequence[LinearShape], costs: PrefillCosts) -> int:
    return group[0].K if costs.shared_input else sum(linear.K * linear.count for linear in group)


def _matmul(group: Sequence[LinearShape], rows: int, costs: PrefillCosts) -> _Matmul:
    soc = costs.soc
    cores = [0.0] * soc.cores
    run = size = 0.0
    for linear in group:
        shape = Shape(rows, linear.K, linear.N)
        busy = hardware_ns(shape, soc.cores, soc)
        for core, share in enumerate(_shares(linear.N, soc.cores)):
            cores[core] += linear.count * busy * share
        run += linear.count * matmul_run_ns(shape, soc)
        size += linear.count * shape.result_bytes
    slowest = max(cores)
    if costs.copied:
        return _Matmul(max(run, slowest), max(0.0, run - slowest), tuple(cores))
    size += rows * group[0].K
    return _Matmul(slowest + costs.submit + size / costs.sync, 0.0, tuple(cores))


def _shares(columns: int, cores: int) -> list[float]:
    """What each core has to do against the one with the most, columns being dealt in whole kernel groups."""
    groups = -(-columns // KERNEL_GROUP[8])
    dealt = [groups // cores + (core < groups % cores) for core in range(cores)]
    return [count / max(dealt) for count in dealt]
