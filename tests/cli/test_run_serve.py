"""``ork run serve`` as a program: its address, who may reach it, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat_terminal import PROGRAM, environment

WAIT_S = 30.0


def command(*words: str) -> list[str]:
    return [sys.executable, str(PROGRAM), "run", "serve", *words]


def refused(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("--port", "0", *words),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@contextmanager
def serving(*words: str, **extra: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The program and its port."""
    program = subprocess.Popen(
        command("--port", "0", *words),
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        line = program.stdout.readline()
        assert " at http://127.0.0.1:" in line, program.stderr.read() if program.stderr else ""
        yield program, int(line.rpartition(":")[2].removesuffix("/v1\n"))
    finally:
        if program.poll() is None:
            program.kill()
        program.communicate(timeout=WAIT_S)


def ask(port: int, **fields: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    body = {"messages": [{"role": "user", "content": "hello"}]} | fields
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_what_is_there_and_ends_well(number: int, tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    with serving(ORK_TEST_STEP_S="0.1", ORK_TEST_CLOSED=str(mark)) as (program, port):
        results: list[tuple[int, Any]] = []
        threads = [threading.Thread(target=lambda: results.append(ask(port))) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for_running(port)
        program.send_signal(number)
        for thread in threads:
            thread.join(WAIT_S)
        _, notes = program.communicate(timeout=WAIT_S)
        assert program.returncode == 0, notes
    assert [status for status, _ in results] == [200, 200]
    assert {data["choices"][0]["message"]["content"] for _, data in results} == {"wor ld"}
    assert "ending: " in notes and " first, up to " in notes
    # The model was closed, once, after the last answer.
    assert mark.read_text() == "closed\n"


def test_under_nohup_it_outlives_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = command
    monkeypatch.setitem(
        globals(), "command", lambda *words: ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *plain(*words)]
    )
    with serving() as (program, port):
        program.send_signal(signal.SIGHUP)
        assert ask(port)[0] == 200
        program.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=WAIT_S)
        assert program.returncode == 0


def wait_for_running(port: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        connection.request("GET", "/health")
        state = json.loads(connection.getresponse().read())
        connection.close()
        if state["running"] and state["waiting"]:
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_second_signal_drops_what_is_left() -> None:
    with serving(ORK_TEST_STEP_S="0.3", ORK_TEST_SCRIPT="abcdefgh" * 20) as (program, port):
        results: list[tuple[int, Any]] = []
        threads = [threading.Thread(target=lambda: results.append(ask(port))) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for_running(port)
        program.send_signal(signal.SIGINT)
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        for thread in threads:
            thread.join(WAIT_S)
        _, notes = program.communicate(timeout=WAIT_S)
    assert program.returncode == 130, notes
    assert [(status, data["error"]["code"]) for status, data in results] == [(503, "shutting_down")] * 2


def test_a_lost_npu_ends_the_program_with_its_code() -> None:
    with serving(ORK_TEST_DIE_AT="2") as (program, port):
        status, data = ask(port)
        _, notes = program.communicate(timeout=WAIT_S)
    assert (status, data["error"]["code"], program.returncode) == (503, "no_device", 3)
    assert notes.splitlines()[-1].startswith("error: the simulated NPU is gone")


def test_addresses_others_can_reach_need_a_word() -> None:
    done = refused("--host", "0.0.0.0")
    assert done.returncode == 7
    assert "--allow-remote" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_taken_port_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command("--port", port),
            env=environment(ORK_TEST_CLOSED=str(mark)),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert (done.returncode, port in done.stderr) == (5, True)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--port", "70000"), "--port 70000"),
        (("--queue", "0"), "--queue 0"),
        (("--slots", "0"), "--slots 0"),
        (("--drain", "-1"), "--drain"),
        (("--host", "no.such.host.invalid"), "--host"),
        (("--api-key", "two words"), "key"),
        (("--api-key", ""), "key"),
        (("--api-key", "a", "--api-key-file", "b"), "--api-key-file"),
        (("--api-key-file", "/nowhere"), "/nowhere"),
    ],
)
def test_values_out_of_range_are_one_line(words: tuple[str, ...], named: str) -> None:
    done = refused(*words)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_key_file_must_be_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    assert refused("--api-key-file", str(tmp_path / "key")).returncode == 2


def test_key_from_a_file_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    with serving("--api-key-file", str(tmp_path / "key")) as (_, port):
        assert ask(port)[0] == 401


def test_other_commands_do_not_pay_for_the_server() -> None:
    """Their libraries are imported by the command that serves alone."""
    code = (
        "import sys, orkbench_tui.cli.run, orkbench_tui.cli.chat_loop; "
        "print(sorted({'uvicorn', 'starlette', 'prometheus_client', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
