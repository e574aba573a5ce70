"""What an engine has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.runner.linear import NpuLike
from orkbench_tui.runner.overlap.choice import OverlapReport

__all__ = ["EngineStats", "NpuUse"]


@dataclass(frozen=True, slots=True)
class NpuUse:
    """What the engine's prompts cost on the NPU; ``hw_ns`` is what its kernel reported for the jobs."""

    submits: int
    tasks: int
    hw_ns: int

    @classmethod
    def of(cls, npu: NpuLike) -> NpuUse:
        """What has run on ``npu`` since it was opened."""
        counters = npu.counters
        return cls(counters.submits, counters.tasks, counters.hw_ns)

    def since(self, earlier: NpuUse) -> NpuUse:
        return NpuUse(self.submits - earlier.submits, self.tasks - earlier.tasks, self.hw_ns - earlier.hw_ns)


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Totals since the engine was made. Times are this machine's wall clock in seconds.

    ``npu`` is None where the engine has none; ``overlap`` is how prompts ran, those of all sessions together.
    """

    prompt_tokens: int = 0
    prompt_s: float = 0.0
    decoded_tokens: int = 0
    decode_s: float = 0.0
    npu: NpuUse | None = None
    overlap: OverlapReport | None = None
