"""A server under clients that ask, misbehave and vanish, for as long as ``ORK_BENCH_SERVE_SECONDS`` says."""

from __future__ import annotations

import gc
import json
import os
import random
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.runner.serve.serving import Client, running, served

CLIENTS = 12


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def misbehave(client: Client, luck: random.Random) -> None:
    """One request, or something like one."""
    text = luck.choice(["hello", "x" * luck.randrange(1, 400), "or wor", "<|im_end|>"])
    body = {"messages": [{"role": "user", "content": text}], "stream": luck.random() < 0.5}
    body["max_tokens"] = luck.randrange(1, 40)
    action = luck.randrange(5)
    if action == 0:
        assert client.ask("/v1/chat/completions", luck.randbytes(luck.randrange(200)), "POST")[0] == 400
    elif action == 1:
        assert client.ask(luck.choice(["/metrics", "/health", "/v1/models"]))[0] == 200
    elif action == 2:
        payload = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"
            sent = head.encode() + payload
            connection.sendall(sent[: luck.randrange(1, len(sent) + 1)])
            if luck.random() < 0.5:
                time.sleep(luck.random() * 0.02)
    else:
        status, _, headers = client.ask("/v1/chat/completions", body)
        assert status in (200, 400, 503)
        assert status != 503 or int(headers["retry-after"]) >= 1


@pytest.mark.soak
def test_nothing_leaks_and_the_server_goes_on_answering() -> None:
    seconds = float(os.environ.get("ORK_BENCH_SERVE_SECONDS", "20"))
    model = served("abcdefgh" * 4, before_decode=lambda: time.sleep(0.0005))
    with running(model, queue=6, slots=3) as client:
        client.chat()
        files, threads = open_files(), threading.active_count()
        failures: list[BaseException] = []
        ends = time.monotonic() + seconds

        def work(seed: int) -> None:
            luck = random.Random(seed)
            try:
                while time.monotonic() < ends:
                    misbehave(client, luck)
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failures.append(error)

        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(CLIENTS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(seconds + 60)
        assert failures == []
        deadline = time.monotonic() + 20
        while open_files() > files or threading.active_count() > threads + 1:
            assert time.monotonic() < deadline, (open_files(), files, threading.active_count(), threads)
            time.sleep(0.1)
        state = client.service.queue.queueing
        assert (state.waiting, state.running) == (0, 0)
        assert client.chat(max_tokens=3)[1]["choices"][0]["message"]["content"] == "abc"
