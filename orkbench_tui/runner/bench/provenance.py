"""What keeps a figure from being a headline, whatever the board did: how it was built, and what was loaded."""

from __future__ import annotations

from orkbench_tui.runner.bench.record import ModelFacts

__all__ = ["provenance_reasons"]


def provenance_reasons(model: ModelFacts, *, commit: str, version: str, changed: bool | None) -> list[str]:
    """Reasons against comparing a figure.

    Args:
        changed: the program's files differ from ``commit``; None where nothing tells.
    """
    reasons = []
    if changed:
        reasons.append(f"built from changes that commit {commit or 'unknown'} does not hold (GRD-38)")
    if not commit and not version:
        reasons.append("the build is pinned by neither commit nor version (GRD-38)")
    loaded, expected = model.weights, model.expected
    if loaded is not None and expected is not None and loaded < expected:
        reasons.append(f"{loaded} of {expected} weights were loaded into the NPU (GRD-38)")
    elif loaded == 0:
        reasons.append("nothing was loaded into the NPU: a figure of the processor (GRD-38)")
    return reasons
