"""The endpoints as a plain HTTP client sees them, over a scripted model."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from orkbench_tui.errors import NoDeviceError, UnhealthyError
from orkbench_tui.runner.serve.app import Access
from orkbench_tui.runner.serve.metrics import NpuTotals
from tests.runner.serve.serving import Client, running, served

WAIT_S = 20.0


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


SERVED = served()
"""Made before any test puts something else in a tokenizer's place."""


class Gate:
    """Holds the model before each token until opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.steps = 0

    def __call__(self) -> None:
        self.steps += 1
        self.reached.set()
        assert self.open.wait(WAIT_S)


def test_chat_document_has_the_recorded_shape() -> None:
    with running() as client:
        status, data, _ = client.chat()
    assert status == 200
    assert data.pop("id").startswith("chatcmpl-")
    assert abs(data.pop("created") - time.time()) < 60
    assert data.pop("system_fingerprint").startswith("ork-")
    prompt = data["usage"]["prompt_tokens"]
    assert data == {
        "object": "chat.completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "wor ld", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": 5,
            "total_tokens": prompt + 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


def test_chat_stream_has_the_recorded_shape() -> None:
    with running() as client:
        first, *pieces, last, usage, done = client.events(stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in (first, *pieces, last, usage)}) == 1
    assert {chunk["object"] for chunk in (first, *pieces, last, usage)} == {"chat.completion.chunk"}
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(piece["choices"][0]["delta"]["content"] for piece in pieces) == "wor ld"
    assert all(piece["choices"][0]["finish_reason"] is None and piece["usage"] is None for piece in pieces)
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 5)


def test_without_asking_there_is_no_usage_in_a_stream() -> None:
    with running() as client:
        events = client.events()
    assert all("usage" not in chunk for chunk in events[:-1])
    assert events[-2]["choices"][0]["finish_reason"] == "stop"


def test_completions_continue_plain_text() -> None:
    with running() as client:
        status, data, _ = client.ask("/v1/completions", {"prompt": "hello", "max_tokens": 2})
        ids, _, _ = client.ask("/v1/completions", {"prompt": [1, 2, 3]})
        _, content, _ = client.ask("/v1/completions", {"prompt": "hello", "stream": True})
    assert (status, ids) == (200, 200)
    assert (data["object"], data["choices"][0]["finish_reason"]) == ("text_completion", "length")
    assert data["choices"][0]["text"] == "wor"
    assert data["usage"]["prompt_tokens"] == 1
    chunks = [json.loads(line[6:]) for line in content.splitlines() if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "wor ld"
    assert content.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("asked", "text", "reason"),
    [
        ({"max_tokens": 1}, "w", "length"),
        ({"max_completion_tokens": 2, "max_tokens": 1}, "wor", "length"),
        ({"stop": " l"}, "wor", "stop"),
        ({"stop": ["zzz", "r l"]}, "wo", "stop"),
    ],
)
def test_limits_and_stop_texts(asked: dict[str, Any], text: str, reason: str) -> None:
    with running() as client:
        _, data, _ = client.chat(**asked)
        streamed = client.events(**asked)
    assert (data["choices"][0]["message"]["content"], data["choices"][0]["finish_reason"]) == (text, reason)
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in streamed[:-1]) == text
    assert streamed[-2]["choices"][0]["finish_reason"] == reason


def test_a_full_context_ends_with_length() -> None:
    endless = served("abcdefgh" * 8, context=64)
    with running(endless) as client:
        _, data, _ = client.chat()
    assert data["choices"][0]["finish_reason"] == "length"
    assert data["usage"]["total_tokens"] == 65


def test_models_and_names() -> None:
    with running() as client:
        _, models, _ = client.ask("/v1/models")
        status, one, _ = client.ask("/v1/models/tiny")
        lost, error, _ = client.ask("/v1/models/other")
        known, _, _ = client.chat(model="alias")
        unknown, why, _ = client.chat(model="other")
    assert [row["id"] for row in models["data"]] == ["tiny", "alias"]
    assert (status, one["object"], one["owned_by"]) == (200, "model", "ork")
    assert (lost, error["error"]["code"]) == (404, "model_not_found")
    assert (known, unknown, why["error"]["code"], why["error"]["param"]) == (
        200,
        404,
        "model_not_found",
        "model",
    )


def test_prompt_longer_than_the_context() -> None:
    with running() as client:
        status, data, _ = client.chat("x" * 300)
        text, error, _ = client.ask("/v1/completions", {"prompt": "x" * 300})
        empty, why, _ = client.ask("/v1/completions", {"prompt": ""})
        ids, outside, _ = client.ask("/v1/completions", {"prompt": [99999]})
    assert (status, data["error"]["code"], data["error"]["param"]) == (
        400,
        "context_length_exceeded",
        "messages",
    )
    assert (text, error["error"]["code"], error["error"]["param"]) == (
        400,
        "context_length_exceeded",
        "prompt",
    )
    assert (empty, why["error"]["param"]) == (400, "prompt")
    assert (ids, outside["error"]["param"]) == (400, "prompt")


def test_megabytes_are_refused_without_cutting_them_into_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> list[int]:
        raise AssertionError("was cut into tokens")

    monkeypatch.setattr("orkbench_tui.runner.tokenizer.Tokenizer.encode", never)
    with running(SERVED) as client:
        chat, data, _ = client.chat("the rain " * 100_000)
        text, _, _ = client.ask("/v1/completions", {"prompt": "the rain " * 100_000})
        short, _, _ = client.ask("/v1/completions", {"prompt": "the rain"})
    assert (chat, text, data["error"]["code"]) == (400, 400, "context_length_exceeded")
    assert "at least" in data["error"]["message"]
    # Control: a short text is cut.
    assert short == 500


def test_bodies_that_are_no_request_do_not_reach_the_model() -> None:
    model = served()
    with running(model) as client:
        for body in (b"", b"\xff", b"{", b"[]", b'{"messages": 5}', b"\0" * 100):
            status, data, _ = client.ask("/v1/chat/completions", body, "POST")
            assert (status, data["error"]["type"]) == (400, "invalid_request_error")
    assert model.engine.position == 0


def test_bodies_have_a_limit_stated_or_not() -> None:
    with running(access=Access(body_bytes=1000)) as client:
        stated, data, _ = client.chat("x" * 2000)
        chunks = (b"x" * 100 for _ in range(20))
        unstated, _, _ = client.ask("/v1/chat/completions", chunks, "POST")  # type: ignore[arg-type]
    assert (stated, unstated, data["error"]["code"]) == (413, 413, "request_too_large")


def test_unknown_paths_and_methods() -> None:
    with running() as client:
        path, data, _ = client.ask("/v1/nothing%1b")
        method, why, _ = client.ask("/v1/models", b"", "DELETE")
    assert (path, data["error"]["type"]) == (404, "invalid_request_error")
    assert (method, why["error"]["type"]) == (405, "invalid_request_error")


def test_key_is_asked_for_everywhere_but_health() -> None:
    with running(access=Access(api_key="secret")) as client:
        codes = [client.ask(path)[0] for path in ("/v1/models", "/metrics", "/health")]
        wrong, data, _ = client.ask("/v1/models", authorization="Bearer secre")
        right, _, _ = client.ask("/v1/models", authorization="Bearer secret")
        chat, _, _ = client.chat()
    assert codes == [401, 401, 200]
    assert (wrong, right, chat, data["error"]["code"]) == (401, 200, 401, "invalid_api_key")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.2:1", 200),
        ("[::1]:1", 200),
        ("[::1]", 200),
        ("own.name:1", 200),
        ("evil.example", 403),
        ("evil.example:1", 403),
        ("10.0.0.1:1", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:1:1", 403),
        ("", 403),
    ],
)
def test_a_local_server_answers_under_local_names_only(host: str, status: int) -> None:
    with running(access=Access(names=frozenset({"localhost", "own.name"}))) as client:
        assert client.ask("/v1/models", Host=host)[0] == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1:8080", 200),
        ("http://[::1]", 200),
        ("https://page.example", 403),
        ("https://localhost.page.example:80", 403),
        ("null", 403),
    ],
)
def test_a_local_server_answers_pages_of_this_machine_only(origin: str, status: int) -> None:
    with running() as client:
        asked = {"messages": [{"role": "user", "content": "hello"}]}
        assert client.ask("/v1/chat/completions", asked, Origin=origin)[0] == status


def test_a_server_for_other_machines_answers_under_any_name() -> None:
    with running(access=Access(names=None)) as client:
        assert client.ask("/v1/models", Host="any.example:1")[0] == 200


def test_without_a_template_chats_are_refused_and_completions_work() -> None:
    with running(served(template=None)) as client:
        chat, data, _ = client.chat()
        text, _, _ = client.ask("/v1/completions", {"prompt": "hello"})
    assert (chat, text) == (400, 200)
    assert "no chat template" in data["error"]["message"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('only \x1b[2J two roles') }}", "two roles"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "steps"),
    ],
)
def test_a_template_that_raises_or_loops_is_a_bad_request(template: str, said: str) -> None:
    started = time.monotonic()
    with running(served(template=template)) as client:
        status, data, _ = client.chat()
        after, _, _ = client.ask("/v1/completions", {"prompt": "hello"})
    assert (status, after) == (400, 200)
    assert said in data["error"]["message"]
    assert "\x1b" not in data["error"]["message"]
    assert "ork run" not in data["error"]["message"]
    # The sandbox's own limit is 5 s.
    assert time.monotonic() - started < 15


def test_a_full_queue_says_when_to_come_back() -> None:
    gate = Gate()
    with running(served(before_decode=gate), queue=2) as client:
        results: list[int] = []
        threads = [threading.Thread(target=lambda: results.append(client.chat()[0])) for _ in range(3)]
        threads[0].start()
        assert gate.reached.wait(WAIT_S)
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: client.service.queue.queueing.waiting == 2)
        assert (client.metric("ork_serve_requests_waiting"), client.metric("ork_serve_requests_running")) == (
            2,
            1,
        )
        status, data, headers = client.chat()
        assert (status, data["error"]["code"]) == (503, "queue_full")
        assert int(headers["retry-after"]) >= 1
        gate.open.set()
        for thread in threads:
            thread.join(WAIT_S)
    assert results == [200, 200, 200]


def test_a_hundred_requests_at_once_are_all_answered() -> None:
    with running() as client:
        results: list[str] = []

        def ask(number: int) -> None:
            status, data, _ = client.chat(f"question {number}")
            results.append(data["choices"][0]["message"]["content"] if status == 200 else str(status))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert client.metric("ork_serve_queue_wait_seconds_count") == 100
    assert results == ["wor ld"] * 100


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_its_answer(stream: bool) -> None:
    gate = Gate()
    with running(served("abcdefgh" * 20, before_decode=gate)) as client:
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": stream}).encode()
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            assert gate.reached.wait(WAIT_S)
        wait_until(lambda: bool(client.service.queue._running and client.service.queue._running.cancelled))
        gate.open.set()
        wait_until(lambda: client.service.queue.queueing.running == 0)
        assert gate.steps <= 2
        assert client.chat(max_tokens=1)[0] == 200


def test_a_client_that_goes_away_leaves_the_queue() -> None:
    gate = Gate()
    with running(served(before_decode=gate)) as client:
        first = threading.Thread(target=client.chat)
        first.start()
        assert gate.reached.wait(WAIT_S)
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            wait_until(lambda: client.service.queue.queueing.waiting == 1)
        wait_until(lambda: client.service.queue.queueing.waiting == 0)
        gate.open.set()
        first.join(WAIT_S)


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_an_answer_that_fails_is_one_failure() -> None:
    broken = [UnhealthyError("logits that are not numbers", why="layer 3")]

    def once() -> None:
        if broken:
            raise broken.pop()

    with running(served(before_decode=once)) as client:
        status, data, _ = client.chat()
        again, _, _ = client.chat()
        assert client.metric('ork_serve_answers_total{reason="failed"}') == 1
    assert (status, again) == (500, 200)
    assert "layer 3" in data["error"]["message"]


def test_a_failure_in_a_stream_is_its_last_event() -> None:
    with running(served(before_decode=failing(UnhealthyError("no numbers")))) as client:
        events = client.events()
    assert events[-1]["error"]["code"] == "unhealthy"
    assert "[DONE]" not in events


def test_an_answer_the_server_breaks_off_ends_its_stream_with_the_error_alone() -> None:
    gate = Gate()
    with running(served("wor ld", before_decode=gate)) as client:
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.extend(client.events()))
        asking.start()
        assert gate.reached.wait(WAIT_S)
        client.service.queue.drop()
        gate.open.set()
        asking.join(WAIT_S)
        assert found[-1]["error"]["code"] == "shutting_down"
        assert "[DONE]" not in found
        assert "stream failed: the server is ending" in client.lines
        assert not any("stream ended" in line for line in client.lines)


def test_a_defect_does_not_tell_its_details_to_clients_and_is_one_clean_line_in_the_log() -> None:
    with running(served(before_decode=failing(ZeroDivisionError("secret \x1b[2J")))) as client:
        status, data, _ = client.chat()
        lines = client.lines
    assert (status, data["error"]["message"]) == (500, "the server failed on this request")
    assert any("ZeroDivisionError" in line for line in lines)


def test_a_lost_npu_fails_what_waits_and_ends_the_queue() -> None:
    with running(served(before_decode=failing(NoDeviceError("the NPU is gone")))) as client:
        status, data, _ = client.chat()
        after, why, headers = client.chat()
    assert (status, data["error"]["code"]) == (503, "no_device")
    assert (after, why["error"]["code"], headers["retry-after"]) == (503, "shutting_down", "5")


def test_a_question_that_goes_on_computes_only_what_is_new() -> None:
    turns = [{"role": "user", "content": "hello"}]
    with running() as client:
        _, first, _ = client.ask("/v1/chat/completions", {"messages": turns})
        turns += [
            {"role": "assistant", "content": first["choices"][0]["message"]["content"]},
            {"role": "user", "content": "or"},
        ]
        _, second, _ = client.ask("/v1/chat/completions", {"messages": turns})
        reused = client.metric("ork_serve_prompt_tokens_reused_total")
    before = first["usage"]["total_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= before
    assert reused == second["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_metrics_are_prometheus_text_and_say_where_times_are_from() -> None:
    with running() as client:
        client.chat()
        status, content, headers = client.ask("/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE ork_serve_queue_wait_seconds histogram" in content
    assert 'ork_serve_requests_total{path="/v1/chat/completions",status="200"} 1.0' in content
    assert 'ork_serve_npu_core_seconds_total{source="predicted"} 0.5' in content
    assert 'ork_serve_info{model="tiny",quant="w8a8",target="sim"' in content
    from prometheus_client.parser import text_string_to_metric_families

    names = {family.name for family in text_string_to_metric_families(content)}
    assert all(name.startswith("ork_serve_") for name in names)


def test_a_driver_that_reports_no_times_gives_no_seconds() -> None:
    with running(dataclasses.replace(served(), npu=lambda: NpuTotals(7, None))) as client:
        _, content, _ = client.ask("/metrics")
    assert "ork_serve_npu_jobs_total 7.0" in content
    assert "ork_serve_npu_core_seconds_total{" not in content


def test_the_log_has_the_servers_own_paths_only() -> None:
    with running() as client:
        client.chat()
        client.ask("/%1b%7fbad")
        client.chat("x" * 300)
        lines: list[str] = client.lines
    assert [line.split()[:3] for line in lines] == [
        ["POST", "/v1/chat/completions", "200"],
        ["POST", "/v1/chat/completions", "400"],
    ]


def test_client_is_what_it_says() -> None:
    """Positive control of the helper: a server that is not there is an error."""
    with running() as client:
        port = client.port
    with pytest.raises(ConnectionError):
        Client(port, client.service).ask("/health")
