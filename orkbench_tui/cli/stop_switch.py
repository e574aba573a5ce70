"""Ctrl-C while an answer is written: the first stops the answer, the second the program."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopSwitch"]


class StopSwitch:
    """In its block, SIGINT sets a flag instead of raising, so that nothing is torn in the middle of a step.

    Call it to ask whether to stop. A second SIGINT raises KeyboardInterrupt at once.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __call__(self) -> bool:
        return self._pressed

    def __enter__(self) -> StopSwitch:
        self._pressed = False
        # Signal handlers can be set from the main thread alone; elsewhere nothing can press the switch.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True
