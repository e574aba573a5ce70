"""A file server on the loopback interface that can misbehave in the ways servers do."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Served:
    """What the server gives and how. ``cut_at`` ends a response after that many bytes, ``cuts`` times.

    With ``hold`` a cut response stays open and sends nothing more; ``held`` is set when it is there.
    """

    body: bytes
    etag: str = '"one"'
    ranges: bool = True
    content_type: str = "application/octet-stream"
    status: int = 200
    cut_at: int | None = None
    cuts: int = 1 << 30
    url: str = ""
    hold: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    requests: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append({name.lower(): value for name, value in self.headers.items()})
            start, status = 0, served.status
            wanted = self.headers.get("Range")
            same = self.headers.get("If-Range", served.etag) == served.etag
            if wanted and served.ranges and same and status == 200:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                status = 206
            if start >= len(served.body) and status == 206:
                self.send_error(416)
                return
            body = served.body[start:]
            self.send_response(status)
            self.send_header("Content-Type", served.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", served.etag)
            if status == 206:
                end = len(served.body) - 1
                self.send_header("Content-Range", f"bytes {start}-{end}/{len(served.body)}")
            self.end_headers()
            if served.cut_at is not None and served.cuts > 0:
                served.cuts -= 1
                body = body[: served.cut_at]
            self.wfile.write(body)
            if served.hold:
                self.wfile.flush()
                served.held.set()
                served.released.wait(30)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/model.gguf"
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
