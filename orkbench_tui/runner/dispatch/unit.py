"""What is dispatched: one operation of a model at a number of rows, and the place it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from orkbench_tui.native.scan_steps import ScanShape
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.npu_attention import why_not_on_npu
from orkbench_tui.runner.plan import (
    Attend,
    Cap,
    Gate,
    Mix,
    Norm,
    Operation,
    Project,
    Remember,
    Rotate,
    Scan,
    buffer_widths,
)
from orkbench_tui.runner.scan_states import scan_shape

__all__ = [
    "AttentionShape",
    "Decision",
    "Op",
    "Place",
    "Source",
    "Unit",
    "operation_unit",
    "project_op",
    "project_unit",
]


class Place(StrEnum):
    """Where an operation runs."""

    NPU = "npu"
    CPU = "cpu"


class Op(StrEnum):
    """Kinds of operation, by the names an override may use."""

    QKV = "qkv"
    ATTENTION_OUT = "attn-out"
    GATE_UP = "gate-up"
    DOWN = "down"
    HEAD = "head"
    EXPERTS = "experts"
    ATTENTION = "attention"
    NORM = "norm"
    ROTATION = "rotation"
    CACHE = "kv-append"
    GATE = "gate"
    CAP = "soft-cap"
    SCAN_IN = "scan-in"
    SCAN_OUT = "scan-out"
    SCAN = "scan"


_BY_TENSOR = {
    "attn_q": Op.QKV,
    "attn_output": Op.ATTENTION_OUT,
    "ffn_gate": Op.GATE_UP,
    "ffn_down": Op.DOWN,
    "output": Op.HEAD,
    "ssm_in": Op.SCAN_IN,
    "ssm_out": Op.SCAN_OUT,
}
_OTHERS: dict[type[Operation], Op] = {
    Attend: Op.ATTENTION,
    Norm: Op.NORM,
    Rotate: Op.ROTATION,
    Remember: Op.CACHE,
    Gate: Op.GATE,
    Cap: Op.CAP,
    Mix: Op.EXPERTS,
    Scan: Op.SCAN,
}


@dataclass(frozen=True, slots=True)
class Source:
    """What a weight is stored as in the model file: its type's name, and its bits, None where not known."""

    name: str
    bits: int | None


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Heads of a layer's attention; ``why_not`` says why they cannot attend on the NPU, "" where they can."""

    heads: int
    kv_heads: int
    head_dim: int
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """``M`` rows times weights of [K, N_i], which share their input; no weights where it is no matmul.

    ``context`` is the number of tokens attended to, ``width`` the values of a row (queries in attention),
    ``scan`` and ``attention`` the shape of these.
    """

    op: Op
    M: int
    K: int = 0
    N: tuple[int, ...] = ()
    source: Source = Source("", None)
    context: int = 0
    width: int = 0
    scan: ScanShape | None = None
    attention: AttentionShape | None = None

    @property
    def is_matmul(self) -> bool:
        return bool(self.N)


@dataclass(frozen=True, slots=True)
class Decision:
    """``rule`` names the row of the rule table that decided, ``why`` says it in words.

    Predicted microseconds of each place; None where that place does not run it at all.
    """

    unit: Unit
    place: Place
    rule: str
    why: str
    npu_us: float | None
    cpu_us: float | None


def project_op(project: Project) -> Op:
    """The kind of a group of products; KeyError for a weight that no plan has."""
    name = project.products[0].weight
    return _BY_TENSOR[name.split(".")[2 if name.startswith("blk.") else 0]]


def project_unit(
    project: Project, shapes: Mapping[str, tuple[int, int]], M: int, sources: Mapping[str, Source]
) -> Unit:
    """A group of products as a unit; ``shapes`` are (K, N) by weight."""
    first = project.products[0].weight
    widths = tuple(shapes[product.weight][1] for product in project.products)
    return Unit(project_op(project), M, shapes[first][0], widths, sources.get(first, Source("", None)))


def operation_unit(
    operation: Operation,
    architecture: Architecture,
    shapes: Mapping[str, tuple[int, int]],
    M: int,
    context: int,
    sources: Mapping[str, Source],
) -> Unit:
    """Any operation of a plan as a unit, with ``context`` tokens held after its rows."""
    match operation:
        case Project():
            return project_unit(operation, shapes, M, sources)
        case Mix():
            experts = architecture.moe.used if architecture.moe else 0
            wide = (architecture.expert_feed_forward,) * (3 * experts)
            source = sources.get(f"{operation.gate}#0", Source("", None))
            return Unit(Op.EXPERTS, M, architecture.embedding, wide, source)
        case Scan():
            scan = scan_shape(architecture.scan) if architecture.scan else None
            return Unit(Op.SCAN, M, width=scan.inner if scan else 0, scan=scan)
        case Attend():
            seen = min(context, operation.window or context)
            why = why_not_on_npu(architecture)
            if not why and operation.window and context > operation.window:
                why = f"its window of {operation.window} moves on, and codes there stay where they are"
            shape = AttentionShape(architecture.heads, architecture.kv_heads, architecture.head_dim, why)
            return Unit(Op.ATTENTION, M, context=seen, width=architecture.q_width, attention=shape)
        case _:
            return Unit(_OTHERS[type(operation)], M, width=_width(operation, architecture))


def _width(operation: Operation, architecture: Architecture) -> int:
    widths = buffer_widths(architecture)
    match operation:
        case Norm():
            return widths[operation.source]
        case Rotate() | Cap():
            return widths[operation.values]
        case Remember():
            return widths[operation.keys] + widths[operation.values]
        case Gate():
            return widths[operation.gate]
        case _:
            raise ValueError(f"{type(operation).__name__} is a unit of its own")
