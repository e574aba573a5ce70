"""A server over a scripted model on the loopback interface, and a plain HTTP client for it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from orkbench_tui.runner.chat_template import ChatTemplate
from orkbench_tui.runner.serve.app import Access, make_app
from orkbench_tui.runner.serve.metrics import NpuTotals
from orkbench_tui.runner.serve.server import listener
from orkbench_tui.runner.serve.service import Served, Service
from tests.runner.byte_vocabulary import tokenizer
from tests.runner.scripted_engine import Hook, ScriptedEngine

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WAIT_S = 20.0


def served(
    script: str = "wor ld",
    *,
    template: str | None = TEMPLATE,
    context: int = 256,
    before_decode: Hook | None = None,
) -> Served:
    """What a loaded model would be: it says ``script`` to everything."""
    words = tokenizer()
    says = [*words.encode(script), words.eos_id or 0]
    engine = ScriptedEngine(words.vocab_size, says, context=context, before_decode=before_decode)
    return Served(
        names=("tiny", "alias"),
        target="sim",
        quant="w8a8",
        engine=engine,
        another=engine.another,
        tokenizer=words,
        template=None if template is None else ChatTemplate(template),
        metadata={},
        npu=lambda: NpuTotals(7, 0.5),
    )


@dataclass
class Client:
    """Requests to one port; each on a connection of its own."""

    port: int
    service: Service
    lines: list[str] = field(default_factory=list)

    def open(
        self, path: str, body: bytes | dict[str, Any] | None = None, method: str = "", **headers: str
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        payload = json.dumps(body).encode() if isinstance(body, dict) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method or ("GET" if body is None else "POST"), path, payload, named)
        return connection, connection.getresponse()

    def ask(
        self, path: str, body: bytes | dict[str, Any] | None = None, method: str = "", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body (decoded where it is JSON) and headers."""
        connection, response = self.open(path, body, method, **headers)
        content = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        connection.close()
        if found.get("content-type", "").startswith("application/json"):
            return response.status, json.loads(content), found
        return response.status, content.decode(), found

    def chat(self, text: str = "hello", **more: Any) -> tuple[int, Any, dict[str, str]]:
        return self.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})

    def events(self, text: str = "hello", **more: Any) -> list[Any]:
        """The data of a chat's stream; ``[DONE]`` as text."""
        status, content, headers = self.chat(text, stream=True, **more)
        assert status == 200, content
        assert headers["content-type"].startswith("text/event-stream")
        *blocks, end = content.split("\n\n")
        assert end == ""
        data = [block.removeprefix("data: ") for block in blocks if not block.startswith(":")]
        return [text if text == "[DONE]" else json.loads(text) for text in data]

    def metric(self, name: str) -> float:
        _, content, _ = self.ask("/metrics")
        return float(next(line for line in content.splitlines() if line.startswith(name)).rpartition(" ")[2])


@contextmanager
def running(
    model: Served | None = None, *, queue: int = 128, slots: int = 4, access: Access | None = None
) -> Iterator[Client]:
    """A server in a thread of its own."""
    service = Service(model or served(), queue=queue, slots=slots)
    lines: list[str] = []
    started = threading.Event()
    taken = listener("127.0.0.1", 0)
    config = uvicorn.Config(
        make_app(service, access or Access(), lines.append),
        http="h11",
        lifespan="off",
        log_config=None,
        access_log=False,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(config)
    service.queue.start()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[taken])), daemon=True)
    port = taken.getsockname()[1]
    thread.start()
    assert started.wait(WAIT_S)
    try:
        yield Client(port, service, lines)
    finally:
        server.should_exit = True
        service.queue.close(drop=True)
        thread.join(WAIT_S)
        taken.close()
        assert not thread.is_alive()
