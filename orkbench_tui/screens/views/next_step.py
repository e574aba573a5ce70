"""The board's trouble in full, with where to go next; the header has room for its beginning only."""

from __future__ import annotations

from rich.cells import cell_len

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.headline import HOT_C, STORM_WORDS, Headline, headline, lasting_trouble
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.stillness import STUCK_S
from orkbench_tui.screens.text_line import Span, fit, foreign, plain

__all__ = ["next_operation", "next_step"]


def next_step(sample: Sample, room: int = 1000, cut: str = "…") -> tuple[str, Severity]:
    """Reason and step in ``room`` cells; what does not fit is cut from the reason, for the header has that too.

    "" while there is no trouble, and where the panel itself tells why a value is missing.
    """
    head = headline(sample)
    step, _ = _step(sample, head)
    if not step:
        return "", head.severity
    reason, after = foreign(head.reason), f"; next: {step}"
    if cell_len(reason + after) > room:
        reason = plain(fit((Span(reason),), max(8, room - cell_len(after)), cut))
    return reason + after, head.severity


def next_operation(sample: Sample) -> str:
    """The operation that step names; "" for none."""
    return _step(sample, headline(sample))[1]


def _step(sample: Sample, head: Headline) -> tuple[str, str]:
    """In words, and the operation in them."""
    if head.severity < Severity.WARNING or sample.reason("npu.load") is not None:
        return "", ""
    if any(core.stuck_s >= STUCK_S for core in sample.npu.cores):
        return "recover (5)", "recover"
    if not sample.npu.cores and not sample.identity.driver:
        return "doctor (8)", ""
    if head.severity >= Severity.ERROR:
        return "log (4); recover (5) if it goes on", "recover"
    if any(item.celsius >= HOT_C for item in sample.temperatures):
        return "let it cool; doctor (8)", ""
    if lasting_trouble(sample.log.facts):
        return "log (4); reboot (5)", "reboot"
    if head.reason.endswith(STORM_WORDS):
        return "end the program that asks for them: drain (5)", "drain"
    return "log (4)", ""
