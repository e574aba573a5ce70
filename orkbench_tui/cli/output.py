"""Everything that goes to standard output.

Results are plain text, or with ``--json`` one document in the project's envelope. Nothing else in
the project writes to standard output.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from datetime import UTC, datetime
from typing import Any

from orkbench_tui.plain_text import printable

__all__ = ["bell", "colour_allowed", "columns", "document", "emit", "emit_json", "stdout_is_terminal"]


def stdout_is_terminal() -> bool:
    return sys.stdout.isatty()


def colour_allowed() -> bool:
    return stdout_is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(otherwise: int = 80) -> int:
    """Cells in a row of the terminal; ``otherwise`` where standard output is none."""
    try:
        return (os.get_terminal_size(sys.stdout.fileno()).columns if stdout_is_terminal() else 0) or otherwise
    except (OSError, ValueError):
        return otherwise


def emit(text: str, end: str = "\n") -> None:
    """Print text that may hold foreign content; control characters are shown, not sent."""
    sys.stdout.write(printable(text) + end)
    sys.stdout.flush()


def bell() -> None:
    """Ring the terminal's bell; nothing where standard output is none."""
    if stdout_is_terminal():
        sys.stdout.write("\a")
        sys.stdout.flush()


def document(
    schema: str, data: Any, *, source: str, warnings: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """The JSON envelope. ``source`` is ``board``, ``sim``, ``replay`` or ``host``."""
    return {
        "schema": f"ork.{schema}/1",
        "host": socket.gethostname(),
        "source": source,
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "mono_ns": time.monotonic_ns(),
        "data": data,
        "warnings": warnings or [],
    }


def emit_json(
    schema: str, data: Any, *, source: str, warnings: list[dict[str, str]] | None = None, line: bool = False
) -> None:
    """Print one JSON document; ``line`` keeps it on one line, for streams."""
    text = json.dumps(
        document(schema, data, source=source, warnings=warnings),
        indent=None if line else 2,
        # What cannot be encoded would become an escape that is no JSON.
        ensure_ascii=(sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8",
        allow_nan=False,
    )
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")
    sys.stdout.flush()
