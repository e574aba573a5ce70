"""Prompts through the layers: cut into micro-batches, compiled once per size, run serially or overlapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.runner.dispatch.rules import LEAST_NPU_ROWS
from orkbench_tui.runner.linear import Buffers, Projector
from orkbench_tui.runner.npu_scan import NpuScan
from orkbench_tui.runner.overlap.choice import OverlapChoice
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK, in_flight, micro_batches, serial_chunks
from orkbench_tui.runner.overlap.rooms import MicroBatch, run_overlapped, run_serial
from orkbench_tui.runner.plan import Operation
from orkbench_tui.runner.program import Model, Program, compile_program, make_buffers

__all__ = ["NPU_ROWS", "Embed", "PromptPass", "program_rows"]

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[int]], Floats]

# NPU programs are compiled for a fixed number of rows, and a chunk is filled up to the next of these. Few
# sizes: compiling one costs as much as running about two hundred rows.
NPU_ROWS = (16, 32, 64, 128, 192, ROWS_PER_CHUNK)


def program_rows(rows: int) -> int:
    """Rows of the NPU program that up to ``ROWS_PER_CHUNK`` rows go through; one row needs none."""
    return rows if rows < LEAST_NPU_ROWS else next(size for size in NPU_ROWS if size >= rows)


class PromptPass:
    """Runs the ``layers`` of one engine.

    ``on_cpu`` makes the projector of a chunk of one row or of an engine without NPU, ``on_npu`` that of a
    lane; a lane's memory is its own, so two lanes may be under way at the same time. ``npu_scan`` gives what
    scans of a lane share with the NPU, where they do.
    """

    def __init__(
        self,
        model: Model,
        layers: Sequence[Operation],
        embed: Embed,
        on_cpu: Callable[[Buffers], Projector],
        on_npu: Callable[[Buffers, int], Projector] | None,
        choice: OverlapChoice,
        npu_scan: Callable[[int], NpuScan] | None = None,
    ) -> None:
        self._model = model
        self._layers = layers
        self._embed = embed
        self._on_cpu = on_cpu
        self._on_npu = on_npu
        self._programs: dict[tuple[int, int], Program] = {}
        self._npu_scan = npu_scan
        self.choice = choice

    def run(
        self,
        tokens: Sequence[int],
        position: int,
        *,
        every: bool,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[int, Floats]:
        """Appends ``tokens``, the first at ``position``; how many it were before ``should_stop`` said yes.

        Second the hidden state after the last layer, float32 [tokens, embedding]: of ``every`` token, or of
        the last one alone. ``should_stop`` is asked between micro-batches; the cache holds all that were run.
        """
        overlapped = self.choice.wanted(len(tokens))
        sizes = micro_batches(len(tokens)) if overlapped else serial_chunks(len(tokens), ROWS_PER_CHUNK)
        hidden = np.empty(
            (len(tokens) if every else 1, self._model.tensors.architecture.embedding), np.float32
        )
        lanes = in_flight(len(sizes)) if overlapped else 1
        batches = []
        first = 0
        for index, rows in enumerate(sizes):
            program = self._program(rows, index % lanes)
            wanted = hidden[first : first + rows] if every else hidden
            room = wanted if every or index == len(sizes) - 1 else None
            batches.append(self._batch(program, tokens[first : first + rows], position + first, room))
            first += rows
        if overlapped:
            count, times = run_overlapped(batches, lanes, should_stop)
        else:
            count, times = run_serial(batches, should_stop)
        done = sum(sizes[:count])
        self.choice.note(overlapped, done, times)
        return done, hidden

    def _batch(
        self, program: Program, tokens: Sequence[int], position: int, room: Floats | None
    ) -> MicroBatch:
        hidden = program.buffers["hidden"]
        rows = len(tokens)

        def begin() -> None:
            hidden[:rows] = self._embed(tokens)

        def end() -> None:
            if room is not None:
                room[:] = hidden[rows - len(room) : rows]

        return MicroBatch(program.steps, rows, position, begin, end)

    def _program(self, rows: int, lane: int) -> Program:
        """Compiled when first needed."""
        npu = self._on_npu if rows >= LEAST_NPU_ROWS else None
        size = ROWS_PER_CHUNK if npu is None else program_rows(rows)
        key = (0 if npu is None else size), lane
        if key not in self._programs:
            buffers = make_buffers(self._model, size, self._layers)
            projector = self._on_cpu(buffers) if npu is None else npu(buffers, lane)
            # Also for a single row: a prompt's bits may not depend on whether one is left over.
            scan = None if self._npu_scan is None else self._npu_scan(lane)
            self._programs[key] = compile_program(
                self._model, self._layers, buffers, projector, npu_scan=scan
            )
        return self._programs[key]
