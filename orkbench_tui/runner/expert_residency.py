"""What all experts of a model would take in NPU memory, and whether that can be: arithmetic before anything runs.

Upstream found out by running: past about 1909 experts in one window every call failed.
"""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver import guards
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.orkpack.placement import MAX_DOMAINS, Policy
from orkbench_tui.runner.orkpack.residency import resident_bytes

__all__ = ["ExpertResidency", "expert_residency", "require_experts_resident", "weights_of_window"]


@dataclass(frozen=True, slots=True)
class ExpertResidency:
    """``weights`` is one for each projection of each expert of each layer; ``bytes`` what they take as int8.

    ``window_bytes`` is one domain, ``windows`` how many the weights fill; ``memory_bytes`` None where unknown.
    """

    weights: int
    bytes: int
    window_bytes: int
    windows: int
    memory_bytes: int | None

    @property
    def refusal(self) -> str:
        """Why they cannot all be resident, "" where they can."""
        if self.windows > MAX_DOMAINS:
            return f"{self.weights} weights of {self.bytes} bytes fill {self.windows} windows, allowed: {MAX_DOMAINS}"
        if self.memory_bytes is not None and self.bytes > self.memory_bytes:
            return f"{self.weights} weights of {self.bytes} bytes, {self.memory_bytes} bytes of memory"
        return ""


def weights_of_window(K: int, N: int, *, want_full_k: bool = False, window_bytes: int | None = None) -> int:
    """How many int8 weights of K inputs and N outputs one domain holds."""
    size = sum(resident_bytes(K, N, 8, want_full_k=want_full_k))
    return (window_bytes or Policy().ceiling_bytes) // size


def expert_residency(
    architecture: Architecture, memory_bytes: int | None, policy: Policy | None = None
) -> ExpertResidency:
    """Of all experts as int8, packed as densely as whole weights allow.

    Raises:
        ValueError: a model without experts.
    """
    if architecture.moe is None:
        raise ValueError(f"{architecture.name} has no experts")
    window = (policy or Policy()).ceiling_bytes
    sizes = [
        sum(resident_bytes(linear.K, linear.N, 8))
        for linear in architecture.all_linears()
        if linear.index is not None
    ]
    windows, left = 0, 0
    for size in sizes:
        if size > left:
            windows, left = windows + 1, window
        left -= size
    return ExpertResidency(len(sizes), sum(sizes), window, windows, memory_bytes)


def require_experts_resident(residency: ExpertResidency) -> None:
    """Raises RefusedError (GRD-28) where they cannot all be in NPU memory; nothing was loaded."""
    if residency.refusal:
        guards.refuse("GRD-28", seen=residency.refusal)
