"""The NPU's part of an engine: which weights it holds, and who multiplies by them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.kv_cache import KvCache
from orkbench_tui.runner.linear import Buffers, Int8Store, ModelTensors, NpuLike, Projector
from orkbench_tui.runner.linear_projectors import Int8Projector, Matmuls, NpuProjector, RoutedProjector
from orkbench_tui.runner.models.architecture import HEAD_NAME, Architecture
from orkbench_tui.runner.npu_attention import NpuAttention
from orkbench_tui.runner.npu_scan import NpuScan
from orkbench_tui.runner.prompt_pass import NPU_ROWS
from orkbench_tui.runner.scan_states import scan_shape

__all__ = ["npu_attention", "npu_projectors", "npu_scans", "npu_weights"]


def npu_weights(architecture: Architecture, dispatch: ModelDispatch | None) -> list[str]:
    """What to load into the NPU: what a prompt's program may multiply there."""
    if dispatch is not None:
        return dispatch.resident(NPU_ROWS)
    linears = architecture.all_linears()
    return [linear.name for linear in linears if linear.name != HEAD_NAME and linear.index is None]


def npu_attention(
    npu: NpuLike, architecture: Architecture, dispatch: ModelDispatch | None
) -> Callable[[KvCache], NpuAttention] | None:
    """What lets single tokens attend on the NPU, for a session's cache; None where they are the processor's."""
    if dispatch is None or not dispatch.attention_on_npu():
        return None
    return lambda cache: NpuAttention(npu, architecture, cache)


def npu_scans(
    npu: NpuLike, architecture: Architecture, dispatch: ModelDispatch | None
) -> Callable[[int], NpuScan] | None:
    """What the scans of a prompt share with the NPU, by lane; None where they are the processor's alone."""
    space = architecture.scan
    if space is None or dispatch is None or not dispatch.scans_on_npu():
        return None
    return lru_cache(maxsize=None)(lambda _lane: NpuScan(npu, scan_shape(space)))


def npu_projectors(
    npu: NpuLike, store: Int8Store, tensors: ModelTensors, dispatch: ModelDispatch | None
) -> Callable[[Buffers, int], Projector]:
    """Makes the projector of a prompt's program, by its buffers and lane."""
    matmuls: Matmuls = {}

    def make(buffers: Buffers, lane: int) -> Projector:
        on_npu = NpuProjector(npu, store, tensors, buffers, lane, matmuls)
        if dispatch is None:
            return on_npu
        on_cpu = Int8Projector(store, tensors, buffers)
        return RoutedProjector(on_cpu, on_npu, lambda project: dispatch.decide(project, buffers.rows).place)

    return make
