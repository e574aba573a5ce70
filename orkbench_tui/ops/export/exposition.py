"""Metrics handed out: to a scraper over HTTP, or in a file for node_exporter's textfile collector."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orkbench_tui.errors import BusyError, DeniedError, NoMemoryError, OrkError, UsageError
from orkbench_tui.ops.export.metrics import Series, metrics, metrics_without_board
from orkbench_tui.ops.telemetry.sample import Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

__all__ = ["Exporter", "serve", "write_textfile"]

_NEW_AFTER_S = 1.0


class Exporter:
    """Takes a sample when somebody asks, at most one a second: load is that of the last closed second."""

    def __init__(self, take: Callable[[], Sample], steady: Callable[[], float] = time.monotonic) -> None:
        """``take`` raises OrkError or OSError while the board does not answer."""
        self._take, self._steady = take, steady
        self._lock = threading.Lock()
        self._taken_s: float | None = None
        self._series: list[Series] = []

    def series(self) -> list[Series]:
        with self._lock:
            now_s = self._steady()
            if self._taken_s is None or now_s - self._taken_s >= _NEW_AFTER_S:
                try:
                    self._series = metrics(self._take())
                except (OrkError, OSError, EOFError):
                    self._series = metrics_without_board()
                self._taken_s = now_s
            return self._series

    @property
    def registry(self) -> CollectorRegistry:
        """A registry of its own, without the figures of this process that the default one has."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(self))
        return registry

    def text(self) -> bytes:
        """The exposition format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class _Families:
    """What the client library asks for metrics."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def describe(self) -> list[Family]:
        return []

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for item in self._exporter.series():
            kind = CounterMetricFamily if item.metric.kind == "counter" else GaugeMetricFamily
            family = kind(item.metric.name, item.metric.help, labels=item.metric.labels)
            for labels, value in item.points:
                family.add_metric(labels, value)
            yield family


def serve(exporter: Exporter, host: str, port: int) -> Callable[[], None]:
    """Answer scrapes from a thread until what is returned is called.

    Raises:
        BusyError: the port is taken.
        DeniedError: it may not be used.
        UsageError: the host is none of this machine.
    """
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=exporter.registry)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            raise BusyError(f"port {port} is taken", do="give another with --port") from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise DeniedError(f"port {port} may not be used", why=why, do="give one above 1023") from error
        raise UsageError(f"cannot listen on {host}", why=why, do="give an address of this machine") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def write_textfile(exporter: Exporter, path: Path) -> None:
    """Replace ``path`` at once: a reader sees the old file or the new one, never a part.

    Raises:
        UsageError: its folder is not there.
        DeniedError: it may not be written.
        NoMemoryError: the disk is full.
    """
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(path), exporter.registry)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise UsageError(
            f"cannot write {path}", why=error.strerror or "", do="name a file in a folder"
        ) from error
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoMemoryError(f"no space left for {path}", why=why, do="free some") from error
        raise DeniedError(f"cannot write {path}", why=why, do="check the folder's owner and mode") from error
