"""The board's trouble in full, with where to go next; the header has room for its beginning only."""

from __future__ import annotations

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.headline import HOT_C, STORM_WORDS, headline, lasting_trouble
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.stillness import STUCK_S

__all__ = ["next_step"]


def next_step(sample: Sample) -> tuple[str, Severity]:
    """Reason and step; "" while there is no trouble, and where the panel itself tells why a value is missing."""
    head = headline(sample)
    if head.severity < Severity.WARNING or sample.reason("npu.load") is not None:
        return "", head.severity
    if any(core.stuck_s >= STUCK_S for core in sample.npu.cores):
        step = "recover (5)"
    elif not sample.npu.cores and not sample.identity.driver:
        step = "doctor (8)"
    elif head.severity >= Severity.ERROR:
        step = "log (4); recover (5) if it goes on"
    elif any(item.celsius >= HOT_C for item in sample.temperatures):
        step = "let it cool; doctor (8)"
    elif lasting_trouble(sample.log.facts):
        step = "log (4); reboot (5)"
    elif head.reason.endswith(STORM_WORDS):
        step = "end the program that asks for them: drain (5)"
    else:
        step = "log (4)"
    return f"{head.reason}; next: {step}", head.severity
