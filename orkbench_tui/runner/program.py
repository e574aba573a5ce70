"""Operations compiled over one set of buffers: runs of native steps, and matmuls between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.scan_steps import ScanRows, convolve, scan
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.runner.kv_cache import KvCache
from orkbench_tui.runner.linear import Buffers, ModelTensors, Part, Projector
from orkbench_tui.runner.npu_attention import NpuAttention
from orkbench_tui.runner.npu_scan import NpuScan
from orkbench_tui.runner.overlap.order import Room, StepFacts
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
from orkbench_tui.runner.scan_states import ScanStates

__all__ = ["Model", "Program", "Step", "compile_program", "make_buffers", "written"]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What all programs of one engine share. ``rotations[layer]`` are cosines and sines.

    ``scans`` are the states of a model of state space layers.
    """

    tensors: ModelTensors
    cache: KvCache
    rotations: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
    threads: int
    scans: ScanStates | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What runs in one room without a break, and the operations that end in it."""

    facts: StepFacts
    run: Part
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Ready to run for any number of rows up to ``buffers.rows``."""

    buffers: Buffers
    steps: tuple[Step, ...]

    def run(self, rows: int, position: int) -> None:
        """``buffers['hidden']`` holds the input; its first row is the token at ``position``."""
        for step in self.steps:
            step.run(rows, position)


def make_buffers(model: Model, rows: int, operations: Sequence[Operation]) -> Buffers:
    """Arrays for the buffers that ``operations`` touch."""
    names = {name for operation in operations for name in _touched(operation)}
    widths = buffer_widths(model.tensors.architecture)
    return Buffers(rows, {name: np.zeros((rows, widths[name]), np.float32) for name in sorted(names)})


def _touched(operation: Operation) -> set[str]:
    """The buffers an operation reads or writes."""
    match operation:
        case Norm():
            return {operation.source, operation.target}
        case Project():
            return {operation.source, *(product.target for product in operation.products)}
        case Rotate() | Cap():
            return {operation.values}
        case Remember():
            return {operation.keys, operation.values}
        case Attend():
            return {operation.queries, operation.target}
        case Scan():
            return {operation.source, operation.convolved, operation.products, operation.target}
        case Gate():
            return {operation.gate, operation.up, operation.target}
        case Mix():
            return {operation.source, operation.target}


def written(operation: Operation) -> set[str]:
    """The buffers an operation leaves results in; none where it writes to the cache."""
    match operation:
        case Norm() | Attend() | Gate() | Mix():
            return {operation.target}
        case Project():
            return {product.target for product in operation.products}
        case Rotate() | Cap():
            return {operation.values}
        case Scan():
            return {operation.convolved, operation.target}
        case Remember():
            return set()


def _facts(room: Room, operations: Sequence[Operation], begun: int) -> StepFacts:
    """``begun`` is the layer of a scan whose first steps are among these and whose last are not."""
    attends = max((o.layer for o in operations if isinstance(o, Attend | Scan)), default=begun)
    remembers = max((o.layer for o in operations if isinstance(o, Remember | Scan)), default=-1)
    return StepFacts(room, attends, remembers)


def _independent(operation: Operation, following: Operation | None) -> bool:
    """Whether threads may begin the next operation, of the same kind on other buffers, before this one is done."""
    if following is None or type(operation) is not type(following):
        return False
    return not _touched(operation) & _touched(following)


def compile_program(
    model: Model,
    operations: Sequence[Operation],
    buffers: Buffers,
    projector: Projector,
    *,
    npu_scan: NpuScan | None = None,
    npu_attention: NpuAttention | None = None,
    one_by_one: bool = False,
) -> Program:
    """Steps for ``operations``: as few as the projector's own parts allow, or one for each operation.

    Scans share their work with the NPU where there is ``npu_scan``, and single rows attend there where there is
    ``npu_attention``.
    """
    compiler = _Compiler(model, buffers, projector, npu_scan, npu_attention)
    for operation, following in zip(operations, [*operations[1:], None], strict=True):
        compiler.add(operation, following)
        if one_by_one:
            compiler.close()
    compiler.close()
    return Program(buffers, tuple(compiler.done))


class _Compiler:
    def __init__(
        self,
        model: Model,
        buffers: Buffers,
        projector: Projector,
        npu_scan: NpuScan | None,
        npu_attention: NpuAttention | None,
    ) -> None:
        self._model = model
        self._architecture = model.tensors.architecture
        self._buffers = buffers
        self._projector = projector
        self._npu_scan = npu_scan
        self._npu_attention = npu_attention
        self._begun = -1
        self._steps = Steps()
        self._operations: list[Operation] = []
        self.done: list[Step] = []
        self._quantized = ""

    def close(self) -> None:
        """Ends the current run of native steps."""
        if len(self._steps):
            steps, threads = self._steps, self._model.threads
            self._finish(Room.CPU, lambda rows, position: steps.run(rows, position, threads))
        elif self._operations and self.done:
            last = self.done[-1]
            self.done[-1] = replace(last, operations=(*last.operations, *self._operations))
            self._operations = []
        self._steps = Steps()

    def _finish(self, room: Room, run: Part) -> None:
        operations = tuple(self._operations)
        self.done.append(Step(_facts(room, operations, self._begun), run, operations))
        self._operations = []

    def _codes(self, target: str, following: Operation | None) -> Codes | None:
        """Where to quantize ``target`` at once, because the next operation multiplies it."""
        if not isinstance(following, Project) or following.source != target:
            return None
        codes = self._projector.codes(following)
        self._quantized = target if codes is not None else ""
        return codes

    def add(self, operation: Operation, following: Operation | None) -> None:
        buffers, architecture, cache = self._buffers, self._architecture, self._model.cache
        if not isinstance(operation, Project | Mix | Scan | Attend):
            self._operations.append(operation)
        match operation:
            case Norm():
                self._steps.norm(
                    buffers[operation.source],
                    self._model.tensors.raw(operation.weight),
                    buffers[operation.target],
                    epsilon=architecture.norm_eps,
                    groups=operation.groups,
                    accumulate=operation.accumulate,
                    codes=self._codes(operation.target, following) if operation.groups == 1 else None,
                    join=not _independent(operation, following),
                )
            case Project():
                self._project(operation)
            case Rotate():
                cosines, sines = self._model.rotations[operation.layer]
                self._steps.rope(
                    buffers[operation.values],
                    cosines,
                    sines,
                    heads=operation.heads,
                    halves=architecture.rope.pairing == "neox",
                    join=not _independent(operation, following),
                )
            case Remember():
                layer = cache.layers[operation.layer]
                self._steps.append(buffers[operation.keys], buffers[operation.values], layer)
            case Attend():
                if self._npu_attention is None:
                    self._attend(operation, self._steps)
                    self._operations.append(operation)
                else:
                    self._shared_attend(operation, self._npu_attention)
            case Scan():
                self._scan(operation)
            case Gate():
                self._steps.gated(
                    buffers[operation.gate],
                    buffers[operation.up],
                    buffers[operation.target],
                    function=operation.function,
                    codes=self._codes(operation.target, following),
                )
            case Mix():
                self._add_part(operation, self._projector.mix(operation, self._steps))
            case Cap():
                self._steps.cap(buffers[operation.values], operation.limit)

    def _attend(self, operation: Attend, steps: Steps) -> None:
        architecture = self._architecture
        steps.attention(
            self._buffers[operation.queries],
            self._buffers[operation.target],
            self._model.cache.layers[operation.layer],
            heads=architecture.heads,
            scale=architecture.attention_scale,
            window=operation.window,
            cap=architecture.attention_cap,
        )

    def _shared_attend(self, operation: Attend, npu: NpuAttention) -> None:
        """On the NPU where it takes so many tokens, else as always."""
        layer, threads, here = operation.layer, self._model.threads, Steps()
        self._attend(operation, here)
        queries, target = self._buffers[operation.queries], self._buffers[operation.target]

        def attend(rows: int, position: int) -> None:
            if rows == 1 and npu.attends(layer, position + 1):
                npu.attend(layer, position + 1, queries[0], target[0])
            else:
                here.run(rows, position, threads)

        self.close()
        self._operations.append(operation)
        self._finish(Room.NPU, attend)

    def _scan(self, operation: Scan) -> None:
        shape, states, buffers = self._architecture.scan, self._model.scans, self._buffers
        if shape is None or states is None:
            raise ValueError(f"layer {operation.layer} scans, and there are no states")

        def raw(part: str) -> NDArray[np.float32]:
            return self._model.tensors.raw(f"blk.{operation.layer}.{part}")

        source, convolved = buffers[operation.source], buffers[operation.convolved]
        weights = np.ascontiguousarray(raw("ssm_conv1d.weight").T)
        window = states.windows[operation.layer]
        convolve(self._steps, source, shape.inner, weights, raw("ssm_conv1d.bias"), window, convolved)
        rows = ScanRows(
            source,
            convolved,
            buffers[operation.products],
            buffers[operation.target],
            states.scans[operation.layer],
            time_bias=raw("ssm_dt.bias"),
            a=raw("ssm_a").ravel(),
            d=raw("ssm_d").ravel(),
        )
        if self._npu_scan is None:
            scan(self._steps, rows)
        else:
            self._shared_scan(operation.layer, rows, self._npu_scan)
        self._operations.append(operation)

    def _shared_scan(self, layer: int, rows: ScanRows, npu: NpuScan) -> None:
        """All of its steps wait for the micro-batch before, and only the last lets the one after begin."""
        self._begun = layer
        npu.halves.begin(self._steps, rows)
        self.close()
        self._finish(Room.NPU, npu.add)
        npu.halves.carry(self._steps, rows)
        self.close()
        self._finish(Room.NPU, npu.read)
        npu.halves.finish(self._steps, rows)
        self._begun = -1

    def _project(self, project: Project) -> None:
        codes = self._projector.codes(project)
        if codes is not None and self._quantized != project.source:
            self._steps.quantize(self._buffers[project.source], codes)
        self._quantized = ""
        self._add_part(project, self._projector.add(project, self._steps))

    def _add_part(self, operation: Project | Mix, part: Part | None) -> None:
        if part is not None:
            self.close()
            self._finish(self._projector.room, part)
            self._projector.after(operation, self._steps)
        self._operations.append(operation)
