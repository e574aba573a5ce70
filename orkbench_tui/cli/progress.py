"""Progress on standard error: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time

from orkbench_tui.cli import diagnostics

__all__ = ["ProgressDisplay"]

BAR_CELLS = 24
REDRAW_S = 0.1
PLAIN_LINES = 4


class ProgressDisplay:
    """Shows how far named phases are. Call it with phase, bytes done and total; ``close`` clears the bar.

    With a ``unit`` the numbers count these instead of bytes.

    Phases with the same first word are one piece of work. Work shorter than ``patience_s`` is not shown.
    """

    def __init__(self, *, terminal: bool | None = None, patience_s: float = 0.0, unit: str = "") -> None:
        self._unit = unit
        self._patience_s = patience_s
        self._terminal = diagnostics.stderr_is_terminal() if terminal is None else terminal
        self._phase = ""
        self._began = 0.0
        self._first = 0
        self._drawn = 0.0
        self._said = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        # "packing blk.0.attn_q" and "packing blk.1.attn_q" are one piece of work.
        if phase.partition(" ")[0] != self._phase.partition(" ")[0]:
            self.close()
            self._began, self._first, self._said = now, done, 0
        self._phase = phase
        if now - self._began < self._patience_s:
            return
        if self._terminal:
            if now - self._drawn >= REDRAW_S or done >= total:
                self._drawn = now
                diagnostics.status(self._line(done, total, now))
        else:
            self._say_quarters(done, total, now)

    def close(self) -> None:
        """Clear the bar, if there is one."""
        if self._terminal and self._drawn:
            diagnostics.status("")
            self._drawn = 0.0

    def _say_quarters(self, done: int, total: int, now: float) -> None:
        quarter = PLAIN_LINES * done // total if total else PLAIN_LINES
        if quarter > self._said:
            self._said = quarter
            diagnostics.note(self._line(done, total, now, bar=False))

    def _line(self, done: int, total: int, now: float, *, bar: bool = True) -> str:
        share = min(done / total, 1.0) if total else 1.0
        filled = round(share * BAR_CELLS)
        parts = [self._phase]
        if bar:
            parts.append("[" + "#" * filled + "." * (BAR_CELLS - filled) + "]")
        parts.append(f"{share:4.0%}")
        elapsed, moved = now - self._began, done - self._first
        if self._unit:
            parts.append(f"{done} of {total} {self._unit}")
        else:
            parts.append(f"{done / (1 << 20):.1f} of {total / (1 << 20):.1f} MiB")
        if elapsed > 0.2 and moved > 0 and not self._unit:
            parts.append(f"{moved / elapsed / (1 << 20):.1f} MiB/s")
        left_s = (total - done) * elapsed / moved if moved > 0 else 0.0
        if elapsed > 1.0 and left_s >= 1.0:
            parts.append(f"{left_s:.0f} s left")
        return "  ".join(parts)
