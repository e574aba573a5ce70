"""Tells when a folder of models or packs changes: the kernel's own notices, no polling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["FolderWatch"]

_SETTLE_S = 0.3


class FolderWatch:
    """``changed`` is called on a thread of the watch, once for a burst of changes. A folder may come later."""

    def __init__(self, folders: Sequence[Path], changed: Callable[[], None]) -> None:
        self._folders = folders
        self._changed = changed
        self._waiting = False
        self._lock = threading.Lock()
        self._observer: object | None = None

    def start(self) -> str:
        """Begin; "" or why folders cannot be watched (the list is then read again when the page is opened)."""
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        watch = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                # Reading a list opens files, which must not make the list be read again.
                if event.event_type in ("created", "deleted", "moved", "modified", "closed"):
                    watch._soon()

        observer = Observer()
        observer.daemon = True
        try:
            for folder in dict.fromkeys(_nearest(folder) for folder in self._folders):
                observer.schedule(Handler(), str(folder), recursive=False)
            observer.start()
        except OSError as error:
            return f"folders are not watched: {error.strerror or error}"
        self._observer = observer
        return ""

    def _soon(self) -> None:
        with self._lock:
            if self._waiting:
                return
            self._waiting = True
        timer = threading.Timer(_SETTLE_S, self._settled)
        timer.daemon = True
        timer.start()

    def _settled(self) -> None:
        with self._lock:
            # From here on a change is news again: it may come while the list is being read.
            self._waiting = False
        self._changed()

    def stop(self) -> None:
        if self._observer is not None:
            self._observer.stop()  # type: ignore[attr-defined]
            self._observer = None


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there: its making is seen from there."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
