"""A model that runs: tokens in, logits out.

Prompts go through in micro-batches, multiplied on the NPU where there is one, several of them at a time where
that is faster; single tokens go through one native call on the CPU, from the same int8 weights. All ways
give the same bits, but for scans and attention where the dispatcher brings them to the NPU, which rounds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.host_memory import require_memory
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.engine_limits import checked_context, require_known_heads, require_tokens
from orkbench_tui.runner.engine_stats import EngineStats, NpuUse
from orkbench_tui.runner.expert_trace import expert_choices
from orkbench_tui.runner.first_trouble import not_finite
from orkbench_tui.runner.kv_cache import CacheType, KvCache
from orkbench_tui.runner.linear import (
    Buffers,
    FloatWeights,
    Int8Store,
    ModelTensors,
    NpuLike,
    PackedWeights,
    Projector,
)
from orkbench_tui.runner.linear_projectors import FloatProjector, Int8Projector
from orkbench_tui.runner.models.architecture import EMBEDDING_NAME
from orkbench_tui.runner.npu_attention import NpuAttention
from orkbench_tui.runner.npu_scan import NpuScan
from orkbench_tui.runner.npu_side import npu_attention, npu_projectors, npu_scans, npu_weights
from orkbench_tui.runner.overlap.choice import OverlapChoice, OverlapSetting
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK
from orkbench_tui.runner.plan import Operation, head_operations, layer_operations
from orkbench_tui.runner.processors import fast_processors
from orkbench_tui.runner.program import Model, Program, compile_program, make_buffers
from orkbench_tui.runner.prompt_pass import PromptPass
from orkbench_tui.runner.residence import Residence
from orkbench_tui.runner.rotary import layer_rotations
from orkbench_tui.runner.scan_states import scan_states

__all__ = ["ROWS_PER_CHUNK", "Engine", "EngineStats", "NpuUse"]

Floats = NDArray[np.float32]

HEAD_ROWS = 32


class Engine:
    """Made by ``from_pack`` (int8) or ``from_floats`` (float32). Not safe for concurrent calls."""

    # What loading the weights into the NPU came to; None where there is no NPU.
    residence: Residence | None = None

    def __init__(
        self,
        tensors: ModelTensors,
        projector: Callable[[Buffers], Projector],
        *,
        quant: str,
        context: int | None,
        cache_type: CacheType,
        threads: int | None,
        npu: NpuLike | None = None,
        npu_projector: Callable[[Buffers, int], Projector] | None = None,
        npu_scan: Callable[[int], NpuScan] | None = None,
        npu_attention: Callable[[KvCache], NpuAttention] | None = None,
        overlap: OverlapChoice | None = None,
    ) -> None:
        architecture = tensors.architecture
        self.quant = quant
        self.architecture = architecture
        require_known_heads(architecture)
        self._context = checked_context(architecture, context)
        self._position = 0
        self._stats = EngineStats()
        self._npu = npu
        self._npu_before = None if npu is None else NpuUse.of(npu)
        self._projector = projector
        self._npu_projector = npu_projector
        self._npu_scan = npu_scan
        self._make_npu_attention = npu_attention
        rotations = layer_rotations(architecture, self._context)
        attending = architecture.attending
        require_memory(
            f"the keys and values of {self._context} tokens",
            KvCache.bytes_for(
                len(attending), architecture.kv_heads, architecture.head_dim, self._context, cache_type
            ),
            "lower --context, or take --kv-cache int8",
        )
        cache = KvCache(attending, architecture.kv_heads, architecture.head_dim, self._context, cache_type)
        self._npu_attention = None if npu_attention is None else npu_attention(cache)
        scans = scan_states(architecture)
        self._model = Model(tensors, cache, rotations, threads or fast_processors(), scans)
        self._layers = tuple(
            operation
            for layer in range(architecture.layers)
            for operation in layer_operations(architecture, layer)
        )
        self._head = head_operations(architecture)
        self._programs: dict[str, Program] = {}
        choice = overlap or OverlapChoice("off", possible=False)
        self._prompts = PromptPass(
            self._model, self._layers, self._embedded, projector, npu_projector, choice, npu_scan
        )

    @classmethod
    def from_pack(
        cls,
        pack: PackedWeights,
        npu: NpuLike | None = None,
        *,
        context: int | None = None,
        cache_type: CacheType = "f16",
        threads: int | None = None,
        overlap: OverlapSetting = "off",
        dispatch: ModelDispatch | None = None,
    ) -> Engine:
        """An int8 engine over an open pack, which must stay open as long as the engine.

        With ``npu`` the layers' weights are loaded into it and its copy serves the CPU too. The head
        stays in the pack, because only single rows go through it, and so do experts, to which few go.
        ``dispatch`` says which matmuls of prompts run there; without one all do.
        ``context`` is in tokens and defaults to the model's own. ``overlap`` says whether two micro-batches
        of a prompt may be under way, one on the NPU while the CPU has the other.

        Raises:
            UsageError: a context the model does not have.
            RefusedError: heads of a size the kernels do not compute.
            NoMemoryError: the weights do not fit the NPU, or the full cache does not fit the memory there is.
        """
        store = Int8Store(pack, npu, npu_weights(pack.architecture, dispatch))
        on_npu = None if npu is None else npu_projectors(npu, store, pack, dispatch)
        engine = cls(
            pack,
            lambda buffers: Int8Projector(store, pack, buffers),
            quant=pack.scheme,
            context=context,
            cache_type=cache_type,
            threads=threads,
            npu=npu,
            npu_projector=on_npu,
            npu_scan=None if npu is None else npu_scans(npu, pack.architecture, dispatch),
            npu_attention=None if npu is None else npu_attention(npu, pack.architecture, dispatch),
            overlap=OverlapChoice(overlap, possible=npu is not None),
        )
        engine.residence = store.residence
        return engine

    @classmethod
    def from_floats(
        cls,
        model: FloatWeights,
        *,
        context: int | None = None,
        cache_type: CacheType = "f32",
        threads: int | None = None,
    ) -> Engine:
        """A float32 engine: the same steps with every weight as float32 in memory."""
        weights = {linear.name: model.raw(linear.name) for linear in model.architecture.all_linears()}
        return cls(
            model,
            lambda buffers: FloatProjector(weights, model, buffers),
            quant="f32",
            context=context,
            cache_type=cache_type,
            threads=threads,
        )

    def another(self, *, context: int | None = None) -> Engine:
        """A second session over the same weights: a cache and a position of its own, no copy of the model.

        Sessions take turns; none may run while another does. They share compiled matmuls and what was
        measured of overlap. ``context`` is this one's unless given.

        Raises:
            NoMemoryError: its full cache does not fit the memory there is.
        """
        return Engine(
            self._model.tensors,
            self._projector,
            quant=self.quant,
            context=self._context if context is None else context,
            cache_type=self.cache_type,
            threads=self._model.threads,
            npu=self._npu,
            npu_projector=self._npu_projector,
            npu_scan=self._npu_scan,
            npu_attention=self._make_npu_attention,
            overlap=self._prompts.choice,
        )

    @property
    def vocab_size(self) -> int:
        return self.architecture.vocab_size

    @property
    def context(self) -> int:
        """Tokens there is room for."""
        return self._context

    @property
    def position(self) -> int:
        """Tokens held."""
        return self._position

    @property
    def stats(self) -> EngineStats:
        if self._npu is None or self._npu_before is None:
            return replace(self._stats, overlap=self._prompts.choice.report)
        used = NpuUse.of(self._npu).since(self._npu_before)
        return replace(self._stats, npu=used, overlap=self._prompts.choice.report)

    def prefill(self, tokens: Sequence[int]) -> Floats:
        """Append ``tokens``; float32 [vocab_size] logits after the last.

        Raises:
            UsageError: no tokens, unknown tokens, or more than there is room for.
            UnhealthyError: the logits are not finite; ``position`` has not moved then, or is 0 where the model
                has state space layers.
        """
        logits = self.prefill_until(tokens, lambda: False)
        assert logits is not None
        return logits

    def prefill_until(self, tokens: Sequence[int], should_stop: Callable[[], bool]) -> Floats | None:
        """``prefill`` that asks between micro-batches whether to stop; None when it did.

        ``position`` then tells how many of the tokens were appended. Raises what ``prefill`` does.
        """
        started = time.perf_counter()
        require_tokens(tokens, self._position, self._context, self.vocab_size)
        logits = None
        with self._moving():
            done, hidden = self._prompts.run(tokens, self._position, every=False, should_stop=should_stop)
            if done == len(tokens):
                logits = self._logits(hidden)[0].copy()
                self._require_finite(logits, tokens)
            self._position += done
        spent = self._stats.prompt_s + time.perf_counter() - started
        self._stats = replace(self._stats, prompt_tokens=self._stats.prompt_tokens + done, prompt_s=spent)
        return logits

    def decode(self, token: int) -> Floats:
        """Append one token; float32 [vocab_size] logits. Errors as in ``prefill``."""
        started = time.perf_counter()
        require_tokens((token,), self._position, self._context, self.vocab_size)
        program = self._program("decode", 1, (*self._layers, *self._head), self._projector)
        program.buffers["hidden"][0] = self._embedded((token,))
        with self._moving():
            program.run(1, self._position)
            logits = program.buffers["logits"][0].copy()
            self._require_finite(logits, (token,))
            self._position += 1
        spent = self._stats.decode_s + time.perf_counter() - started
        self._stats = replace(self._stats, decoded_tokens=self._stats.decoded_tokens + 1, decode_s=spent)
        return logits

    def logit_blocks(self, tokens: Sequence[int]) -> Iterator[Floats]:
        """Append ``tokens``; yield the logits after each of them in blocks [some rows, vocab_size].

        A block is valid until the next one. Errors as in ``prefill``; ``position`` moves at the end.
        """
        require_tokens(tokens, self._position, self._context, self.vocab_size)
        with self._moving():
            _, hidden = self._prompts.run(tokens, self._position, every=True)
            for first in range(0, len(tokens), HEAD_ROWS):
                block = self._logits(hidden[first : first + HEAD_ROWS])
                self._require_finite(block, tokens)
                yield block
            self._position += len(tokens)

    def logits_of(self, tokens: Sequence[int]) -> Floats:
        """Append ``tokens``; the logits after each of them, float32 [len(tokens), vocab_size]."""
        return np.concatenate([block.copy() for block in self.logit_blocks(tokens)])

    def expert_choices(self, tokens: Sequence[int]) -> NDArray[np.int32]:
        """Append ``tokens``; the experts each of them took, int32 [layers, tokens, used], all on the CPU.

        Raises:
            UsageError: as ``prefill``.
            RefusedError: the model has no experts.
        """
        require_tokens(tokens, self._position, self._context, self.vocab_size)
        choices = expert_choices(
            self._model, self._layers, self._projector, self._embedded, tokens, self._position
        )
        self._position += len(tokens)
        return choices

    def rewind(self, position: int) -> None:
        """Forget all tokens from ``position`` on; a model of state space layers then forgets those before too.

        ``self.position`` tells what is still held.

        Raises:
            ValueError: a position the engine has not reached.
        """
        if not 0 <= position <= self._position:
            raise ValueError(f"cannot go back to position {position} from {self._position}")
        whole = self._model.scans is None or position == self._position
        self._position = position if whole else 0
        self._forget()

    @property
    def cache_type(self) -> CacheType:
        return self._model.cache.kind

    def held(self) -> list[np.ndarray]:
        """Views of the keys and values of the tokens held, layer by layer, then the states of scans."""
        return self._model.cache.filled(self._position) + self._states()

    def _states(self) -> list[np.ndarray]:
        return [] if self._model.scans is None else self._model.scans.arrays

    def held_shapes(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types ``held`` has for so many tokens."""
        return self._model.cache.filled_shapes(tokens) + [(a.shape, a.dtype) for a in self._states()]

    def restore(self, tokens: int, arrays: Sequence[np.ndarray]) -> None:
        """Hold what ``held`` gave when the engine held ``tokens``, as far as there is room; states not in part.

        Raises:
            ValueError: arrays of another shape or type.
        """
        if [(array.shape, array.dtype) for array in arrays] != self.held_shapes(tokens):
            raise ValueError(f"these are not the keys and values of {tokens} tokens")
        states = self._states()
        kept = min(tokens, self._context) if not states or tokens <= self._context else 0
        for room, array in zip(
            self._model.cache.filled(kept), arrays[: len(arrays) - len(states)], strict=True
        ):
            room[...] = array[:, : room.shape[1]]
        for room, array in zip(states, arrays[len(arrays) - len(states) :], strict=True):
            room[...] = array
        self._position = kept
        if self._npu_attention is not None:
            self._npu_attention.forget(0)

    def _forget(self) -> None:
        """What the NPU holds of tokens that are no longer there."""
        if self._npu_attention is not None:
            self._npu_attention.forget(self._position)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Around what moves the session on: where it fails, states have gone part of the way and count no more."""
        try:
            yield
        except BaseException:
            if self._model.scans is not None:
                self._position = 0
            self._forget()
            raise

    def _embedded(self, tokens: Sequence[int]) -> Floats:
        rows = self._model.tensors.raw_rows(EMBEDDING_NAME, tokens)
        scale = self.architecture.embedding_scale
        return rows if scale == 1.0 else rows * np.float32(scale)

    def _logits(self, hidden: Floats) -> Floats:
        program = self._program("head", HEAD_ROWS, self._head, self._projector)
        program.buffers["hidden"][: len(hidden)] = hidden
        program.run(len(hidden), 0)
        return program.buffers["logits"][: len(hidden)]

    def _require_finite(self, logits: Floats, tokens: Sequence[int]) -> None:
        """UnhealthyError where they are not; ``tokens`` are those appended since ``position``."""
        if not np.isfinite(logits).all():
            operations = (*self._layers, *self._head)
            raise not_finite(self._model, operations, self._projector, self._embedded, tokens, self._position)

    def _program(
        self, name: str, rows: int, operations: Sequence[Operation], projector: Callable[[Buffers], Projector]
    ) -> Program:
        """Compiled when first needed."""
        if name not in self._programs:
            buffers = make_buffers(self._model, rows, operations)
            self._programs[name] = compile_program(
                self._model, operations, buffers, projector(buffers), npu_attention=self._npu_attention
            )
        return self._programs[name]
