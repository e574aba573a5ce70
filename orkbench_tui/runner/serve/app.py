"""The HTTP endpoints over a ``Service``: OpenAI's paths, health and metrics.

Importing this module imports starlette.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orkbench_tui.errors import OrkError
from orkbench_tui.runner.chat import Answer
from orkbench_tui.runner.serve.answer_queue import Job
from orkbench_tui.runner.serve.api_errors import ApiError, invalid, of_failure
from orkbench_tui.runner.serve.documents import DONE, Reply, event, finish_reason, model_document
from orkbench_tui.runner.serve.http_parts import (
    EventStream,
    check_host,
    check_key,
    check_origin,
    error_response,
    read_body,
    until_gone,
)
from orkbench_tui.runner.serve.metrics import CONTENT_TYPE
from orkbench_tui.runner.serve.request_fields import ChatRequest, TextRequest, chat_request, text_request
from orkbench_tui.runner.serve.service import Service

__all__ = ["Access", "make_app"]

# A comment this often tells a client in the queue, and what is between, that the connection lives.
KEEP_ALIVE_S = 15.0

Handler = Callable[[Request], Awaitable["Outcome"]]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask: with the key, where there is one, and under one of ``names`` (None: any); bodies up to ``body_bytes``."""

    api_key: str | None = None
    names: frozenset[str] | None = frozenset({"localhost"})
    body_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """A response with its status, for the log; an event stream counts as 200 from its first byte."""

    response: Response | EventStream
    status: int
    note: str = ""


class _Delivery:
    """What the queue's thread says about one job, handed to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[str | Answer | BaseException] = asyncio.Queue()

    def put(self, item: str | Answer | BaseException) -> None:
        """From the queue's thread."""
        # The loop has ended where the server was stopped in the middle of an answer.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def get(self) -> str | Answer | BaseException:
        return await self._items.get()

    async def answer(self) -> Answer:
        """The finished answer; raises what it failed with."""
        while True:
            item = await self.get()
            if isinstance(item, Answer):
                return item
            if isinstance(item, BaseException):
                raise item


class _Endpoints:
    def __init__(self, service: Service, access: Access, log: Callable[[str], None]) -> None:
        self._service = service
        self._access = access
        self._log = log
        self._rendering = asyncio.Lock()

    async def chat(self, request: Request) -> Outcome:
        asked = chat_request(await read_body(request, self._access.body_bytes))
        return await self._answer(request, asked, lambda: self._service.chat_ids(asked))

    async def text(self, request: Request) -> Outcome:
        asked = text_request(await read_body(request, self._access.body_bytes))
        return await self._answer(request, asked, lambda: self._service.text_ids(asked))

    async def _answer(
        self, request: Request, asked: ChatRequest | TextRequest, ids_of: Callable[[], list[int]]
    ) -> Outcome:
        service = self._service
        service.check_model(asked.model)
        async with self._rendering:
            ids = await asyncio.to_thread(ids_of)
        delivery = _Delivery()
        job = service.submit(
            ids, asked.choice, on_text=delivery.put, on_done=delivery.put, on_failed=delivery.put
        )
        reply = service.reply(asked)
        if asked.stream:
            return Outcome(EventStream(self._events(job, delivery, reply)), 200, "stream")
        return await self._whole(request, job, delivery, reply)

    async def _whole(self, request: Request, job: Job, delivery: _Delivery, reply: Reply) -> Outcome:
        answering = asyncio.create_task(delivery.answer())
        gone = asyncio.create_task(until_gone(request.receive))
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientDisconnect
            answer = answering.result()
        finally:
            self._service.queue.cancel(job)
            for task in (answering, gone):
                task.cancel()
        if (failure := _failure(answer)) is not None:
            raise failure
        return Outcome(JSONResponse(reply.whole(answer)), 200, _figures(job, answer))

    async def _events(self, job: Job, delivery: _Delivery, reply: Reply) -> AsyncIterator[bytes]:
        """The stream of one answer. Closing it cancels the job."""
        try:
            if (first := reply.first()) is not None:
                yield event(first)
            while True:
                try:
                    item = await asyncio.wait_for(delivery.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield _still_waiting(self._service.queue.before(job))
                    continue
                if isinstance(item, str):
                    yield event(reply.piece(item))
                    continue
                if (failure := _failure(item)) is not None:
                    self._log(f"stream failed: {_told(failure, item)}")
                    yield event(failure.body)
                elif isinstance(item, Answer):
                    self._log(f"stream ended: {_figures(job, item)}")
                    for document in reply.last(item):
                        yield event(document)
                    yield DONE
                return
        finally:
            self._service.queue.cancel(job)

    async def models(self, request: Request) -> Outcome:
        served = self._service.served
        rows = [model_document(name, served.loaded_at) for name in served.names]
        return Outcome(JSONResponse({"object": "list", "data": rows}), 200)

    async def model(self, request: Request) -> Outcome:
        name = str(request.path_params["name"])
        self._service.check_model(name)
        return Outcome(JSONResponse(model_document(name, self._service.served.loaded_at)), 200)

    async def health(self, request: Request) -> Outcome:
        state = self._service.queue.queueing
        return Outcome(
            JSONResponse({"status": "ok", "waiting": state.waiting, "running": state.running}), 200
        )

    async def metrics(self, request: Request) -> Outcome:
        return Outcome(Response(self._service.metrics.text(), media_type=CONTENT_TYPE), 200)

    def handling(
        self, path: str, handler: Handler, *, keyed: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        """``handler`` with access checks, errors as documents, counting and a line in the log."""

        async def handle(request: Request) -> Response:
            started = time.monotonic()
            try:
                check_host(request, self._access.names)
                check_origin(request, self._access.names)
                check_key(request, self._access.api_key if keyed else None)
                outcome = await handler(request)
            except ClientDisconnect:
                outcome = Outcome(Response(status_code=499), 499, "client went away")
            except Exception as error:  # noqa: BLE001 - a request that fails must not end the server
                failure = of_failure(error)
                outcome = Outcome(error_response(failure), failure.status, _told(failure, error))
            self._service.metrics.request(path, outcome.status)
            if path.startswith("/v1") or outcome.status >= 400:
                spent = time.monotonic() - started
                self._log(f"{request.method} {path} {outcome.status} {spent:.2f} s {outcome.note}".rstrip())
            return outcome.response  # type: ignore[return-value]

        return handle

    async def not_found(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        self._service.metrics.request("other", status)
        if status == 405:
            return error_response(invalid(f"{request.method} is not for this path", status=405))
        return error_response(invalid("unknown path; see /v1/models, /v1/chat/completions", status=status))


def make_app(
    service: Service, access: Access, log: Callable[[str], None]
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """The ASGI application. ``log`` takes one line a request; it may hold foreign text and must clean it."""
    ends = _Endpoints(service, access, log)

    def route(path: str, handler: Handler, method: str, *, keyed: bool = True) -> Route:
        return Route(path, ends.handling(path, handler, keyed=keyed), methods=[method])

    return Starlette(
        routes=[
            route("/v1/chat/completions", ends.chat, "POST"),
            route("/v1/completions", ends.text, "POST"),
            route("/v1/models", ends.models, "GET"),
            route("/v1/models/{name:path}", ends.model, "GET"),
            route("/metrics", ends.metrics, "GET"),
            route("/health", ends.health, "GET", keyed=False),
        ],
        exception_handlers={404: ends.not_found, 405: ends.not_found},
    )


def _failure(item: Answer | BaseException) -> ApiError | None:
    """Why there is no answer; None where there is a whole one."""
    if isinstance(item, BaseException):
        return of_failure(item)
    if item.stop_reason == "interrupted":
        return ApiError(503, "the server is ending", kind="server_error", code="shutting_down")
    return None


def _told(failure: ApiError, error: object) -> str:
    """A failure in the log. What is a defect here is told to nobody but the one who runs the server."""
    known = failure.status != 500 or isinstance(error, OrkError)
    return failure.message if known else f"{type(error).__name__}: {error}"


def _figures(job: Job, answer: Answer) -> str:
    waited = 0.0 if job.waited_s is None else job.waited_s
    return (
        f"waited {waited:.2f} s, in {answer.prompt_tokens} tok ({answer.reused_tokens} reused), "
        f"out {answer.generated_tokens} tok, {finish_reason(answer)}"
    )


def _still_waiting(before: int | None) -> bytes:
    return b": answering\n\n" if before is None else f": {before} before this one\n\n".encode()
