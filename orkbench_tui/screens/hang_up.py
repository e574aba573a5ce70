"""The end of a program whose terminal has gone: a connection dropped, a window closed.

Textual's writing thread ends with the first write that fails, and the next writes wait for it for ever; its reading
thread takes the end of input for no input and asks again at once. So this does not rely on either.
"""

from __future__ import annotations

import os
import select
import threading
import time

from orkbench_tui.errors import ExitCode

__all__ = ["end_with_terminal"]

_GRACE_S = 1.0


def end_with_terminal(fd: int) -> None:
    """Watch a terminal without reading it; end the process a second after it is gone, unless it ended by itself."""
    threading.Thread(target=_watch, args=(fd,), name="ork-terminal", daemon=True).start()


def _watch(fd: int) -> None:
    watch = select.poll()
    # No events asked for: what is left is the end of the terminal.
    watch.register(fd, 0)
    while not watch.poll():
        pass
    time.sleep(_GRACE_S)
    # What others wait for is durable already: journals and recordings are written line by line.
    os._exit(int(ExitCode.HANGUP))
