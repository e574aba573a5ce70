"""A sequence of operations as runs: which of them share a submit, and what comes between the others.

Pure planning. A sequence is cut wherever two operations may not be linked; a pair nobody has linked is no
error, it becomes two submits. ``op_sequence_run`` carries a plan out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from orkbench_tui.driver.chain_rules import ChainRule, OpGroup, OpKind, chain_rule, op_group
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import FORMATS
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.sdp.formats import FORMATS as SDP_FORMATS
from orkbench_tui.driver.sdp.kinds import OPERATIONS
from orkbench_tui.driver.sdp.quantization import Quantization
from orkbench_tui.driver.sdp.table import TABLE, Operand
from orkbench_tui.driver.task_rules import FULL_K_GRANULE, FULL_K_LIMIT, MATMUL_KINDS, MAX_STEPS

__all__ = ["FUSED_KIND", "Earlier", "How", "PlannedRun", "SeqStep", "plan_sequence"]

MAX_LINKED_ROWS = 64
MAX_LINKED_INT4_SLICES = 16
FUSED_KIND = OpKind.MATMUL_SILU_W8A8


@dataclass(frozen=True, slots=True)
class Earlier:
    """The result of step ``step`` of the same sequence."""

    step: int


Source = np.ndarray | Earlier


@dataclass(frozen=True, slots=True, eq=False)
class SeqStep:
    """One operation. Matmuls have a ``weight``; ``b`` is the second operand of those that take one.

    ``quantization`` holds the scales; of an activation behind a matmul, ``a_scale`` is what one unit of
    the sum is worth. Steps of one ``group`` above 0 run on one core of their own, one group after another.
    """

    kind: OpKind
    rows: int
    a: Source
    b: Source | None = None
    weight: Weight | None = None
    convert: OutputConversion | None = None
    quantization: Quantization = field(default_factory=Quantization)
    group: int = 0


class How(StrEnum):
    """``LINKED``: matmuls of one submit. ``FUSED``: two operations in one program. ``ALONE``: one operation."""

    LINKED = "linked"
    FUSED = "fused"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Steps ``start`` to ``start + len(kinds)``.

    ``before`` says what comes before it: SW nothing, DISALLOW a reset, None at the start. ``cut`` says why
    it does not share the submit of the step before.
    """

    start: int
    kinds: tuple[OpKind, ...]
    how: How
    core: int
    before: ChainRule | None
    cut: str = ""

    @property
    def steps(self) -> range:
        return range(self.start, self.start + len(self.kinds))


_FORMAT_OF: Mapping[OpKind, str] = MappingProxyType({kind: name for name, kind in MATMUL_KINDS.items()})


def _fail(index: int, step: SeqStep, why: str) -> OperandError:
    return OperandError(f"step {index} ({step.kind})", why=why)


@dataclass(frozen=True, slots=True)
class _Result:
    shape: tuple[int, int]
    dtype: np.dtype


class _Sequence:
    """Steps with the shape and type of every result, checked once."""

    def __init__(self, steps: Sequence[SeqStep]) -> None:
        if not 1 <= len(steps) <= MAX_STEPS:
            raise OperandError("sequence", why=f"{len(steps)} steps, allowed: 1 to {MAX_STEPS}")
        self.steps = steps
        self.results: list[_Result] = []
        for index, step in enumerate(steps):
            for source in (step.a, step.b):
                if isinstance(source, Earlier) and not 0 <= source.step < index:
                    raise _fail(index, step, f"it reads step {source.step}; allowed: steps before it")
            self.results.append(self._result(index, step))

    def _given(self, source: Source) -> _Result:
        if isinstance(source, Earlier):
            return self.results[source.step]
        shape = source.shape if source.ndim == 2 else (1, source.size)
        return _Result((shape[0], shape[1]), source.dtype)

    def _require(self, index: int, what: str, source: Source, wanted: _Result) -> None:
        given = self._given(source)
        if given != wanted:
            raise _fail(
                index,
                self.steps[index],
                f"{what} is {given.dtype} {list(given.shape)}; expected {wanted.dtype} {list(wanted.shape)}",
            )

    def _result(self, index: int, step: SeqStep) -> _Result:
        if step.kind in _FORMAT_OF or step.kind is FUSED_KIND:
            return self._matmul_result(index, step)
        if step.kind not in OPERATIONS or OPERATIONS[step.kind][0] == "rmsnorm":
            raise _fail(index, step, "nothing here computes it in a sequence; run it by itself")
        if step.weight is not None:
            raise _fail(index, step, "it takes no weight")
        op, dtype = OPERATIONS[step.kind]
        format, row = SDP_FORMATS[dtype], TABLE.get((op, dtype))
        given = self._given(step.a)
        operand = row.operand if row else Operand.NONE
        fused = self.fuses(index)
        if not fused:
            self._require(index, "A", step.a, _Result((step.rows, given.shape[1]), format.dtype))
        if (step.b is None) != (operand is Operand.NONE):
            raise _fail(index, step, f"a second operand: {operand}")
        if step.b is not None:
            rows = step.rows if operand is Operand.ELEMENT else 1
            type_ = format.dtype if operand is Operand.ELEMENT else format.factor_dtype
            self._require(index, "B", step.b, _Result((rows, given.shape[1]), type_))
        out = SDP_FORMATS[row.out or dtype] if row else format
        return _Result(given.shape, out.dtype)

    def _matmul_result(self, index: int, step: SeqStep) -> _Result:
        format = FORMATS["int8" if step.kind is FUSED_KIND else _FORMAT_OF[step.kind]]
        if step.weight is None or step.b is not None:
            raise _fail(index, step, "it takes a weight and one operand")
        if step.weight.format is not format:
            raise _fail(index, step, f"{step.weight.name} is {step.weight.format.name}, not {format.name}")
        self._require(index, "A", step.a, _Result((step.rows, step.weight.k), np.dtype(format.operand)))
        total = np.dtype(np.int8 if step.kind is FUSED_KIND else format.total)
        return _Result((step.rows, step.weight.n), total)

    def fuses(self, index: int) -> bool:
        """Whether this SiLU is one program with the int8 matmul right before it, whose sums nobody else reads."""
        step = self.steps[index]
        if step.kind is not OpKind.SILU_I8 or not _reads(step.a, index - 1):
            return False
        before = self.steps[index - 1]
        readers = [at for at, s in enumerate(self.steps) for x in (s.a, s.b) if _reads(x, index - 1)]
        weight = before.weight
        whole = weight is not None and len(weight.slices) == len(weight.buffers) == 1
        same = before.group == step.group and before.rows == step.rows
        return before.kind is OpKind.MATMUL_W8A8 and readers == [index] and same and whole

    def cut(self, start: int, index: int) -> tuple[ChainRule, str] | None:
        """Why step ``index`` does not join the run that began at ``start``; None when it does."""
        first, second = self.steps[index - 1], self.steps[index]
        rule = chain_rule(first.kind, second.kind)
        if rule is not ChainRule.HW:
            return rule, f"{first.kind} -> {second.kind} is {rule}"
        apart = ChainRule.SW if _is_matmul(first) and _is_matmul(second) else ChainRule.DISALLOW
        if first.group != second.group:
            return apart, f"group {second.group} after {first.group}"
        for step in (first, second):
            if why := _unlinkable(step):
                return apart, why
        read = [s.step for s in (second.a, second.b) if isinstance(s, Earlier) and s.step >= start]
        if read:
            return apart, f"it reads step {read[0]}, whose result the host has to lay out for it"
        return None


def _reads(source: Source | None, step: int) -> bool:
    return isinstance(source, Earlier) and source.step == step


def _is_matmul(step: SeqStep) -> bool:
    return op_group(step.kind) is OpGroup.MATMUL


def _unlinkable(step: SeqStep) -> str:
    """What keeps a step out of a linked run; empty when nothing does."""
    if not _is_matmul(step):
        row = TABLE.get(OPERATIONS[step.kind])
        if row is None or not row.linkable:
            return f"{step.kind} uses stages that stall behind a matmul"
        return ""
    weight = step.weight
    if weight is None:
        return "it has no weight"
    bits = weight.format.precision.input_bits
    if bits == 4:
        if step.rows != 1 or len(weight.slices) > MAX_LINKED_INT4_SLICES:
            return f"{step.rows} rows and {len(weight.slices)} slices of int4; linked: 1 and {MAX_LINKED_INT4_SLICES}"
    elif weight.k % FULL_K_GRANULE or weight.k > FULL_K_LIMIT:
        return f"K = {weight.k}; linked: multiples of {FULL_K_GRANULE} up to {FULL_K_LIMIT}"
    elif step.rows > MAX_LINKED_ROWS:
        return f"{step.rows} rows; linked: up to {MAX_LINKED_ROWS}"
    if weight.n > weight.format.n_limit:
        return f"N = {weight.n}; linked: up to {weight.format.n_limit}"
    return f"{weight.name} lies in domain {weight.domain}; linked: domain 0" if weight.domain else ""


def plan_sequence(steps: Sequence[SeqStep], *, cores: int, core: int = 0) -> tuple[PlannedRun, ...]:
    """Cut a sequence into runs. Ungrouped steps go to ``core``, group g to core ``(core + g) % cores``.

    Raises:
        OperandError: no steps or too many, operands that do not fit, a kind nothing here computes.
    """
    sequence = _Sequence(steps)
    runs: list[PlannedRun] = []
    for start, length in _units(sequence):
        kinds = tuple(step.kind for step in steps[start : start + length])
        how = How.FUSED if length == 2 else How.ALONE
        before: ChainRule | None = None
        why = ""
        if runs:
            last = runs[-1]
            found = sequence.cut(last.start, start)
            if found is None and How.FUSED not in (how, last.how):
                runs[-1] = replace(last, kinds=last.kinds + kinds, how=How.LINKED)
                continue
            before, why = found or (ChainRule.SW, "an activation in one program with its matmul stands alone")
        runs.append(PlannedRun(start, kinds, how, (core + steps[start].group) % cores, before, why))
    return tuple(runs)


def _units(sequence: _Sequence) -> Iterator[tuple[int, int]]:
    """(first step, steps) of what one program computes."""
    at = 0
    while at < len(sequence.steps):
        length = 2 if at + 1 < len(sequence.steps) and sequence.fuses(at + 1) else 1
        yield at, length
        at += length
