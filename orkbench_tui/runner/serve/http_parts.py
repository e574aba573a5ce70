"""Pieces of HTTP that every handler needs: bodies with limits, the API key, who may ask, event streams."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from orkbench_tui.runner.serve.api_errors import ApiError, invalid

__all__ = [
    "EventStream",
    "check_host",
    "check_key",
    "check_origin",
    "error_response",
    "read_body",
    "until_gone",
]

# A client that sends nothing for this long has gone.
BODY_SILENCE_S = 30.0


def error_response(error: ApiError) -> JSONResponse:
    return JSONResponse(error.body, error.status, error.headers)


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        ApiError: more than ``limit`` bytes, or it does not come.
        ClientDisconnect: the client went away.
    """
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    total = 0
    stream = request.stream()
    while True:
        try:
            part = await asyncio.wait_for(anext(stream, None), BODY_SILENCE_S)
        except TimeoutError:
            raise invalid("the body did not come", status=408) from None
        if part is None:
            return b"".join(parts)
        total += len(part)
        if total > limit:
            raise _too_large(limit)
        parts.append(part)


def _too_large(limit: int) -> ApiError:
    return invalid(f"the body is too large; allowed: {limit} bytes", code="request_too_large", status=413)


def check_key(request: Request, key: str | None) -> None:
    """Raise ApiError 401 unless the request carries ``key`` as its bearer token."""
    if key is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
        raise ApiError(401, "no or a wrong API key: Authorization: Bearer KEY", code="invalid_api_key")


def check_host(request: Request, names: frozenset[str] | None) -> None:
    """Raise ApiError 403 where a server of this machine is asked under a name that is none of ``names``.

    A page in a browser may point a name of its own at 127.0.0.1; its requests carry that name. Addresses that
    are this machine's alone are always right; ``names`` None takes any.
    """
    if names is None:
        return
    if not _is_local(request.headers.get("host", ""), names):
        raise ApiError(403, "this server answers under names of this machine only", code="host_not_allowed")


def check_origin(request: Request, names: frozenset[str] | None) -> None:
    """Raise ApiError 403 where a page from elsewhere asks a server of this machine.

    A browser sends such a request before it asks whether the page may read the answer, which would hold the NPU
    for whoever wrote the page. Programs send no origin; ``names`` None takes any.
    """
    origin = request.headers.get("origin")
    if names is not None and origin is not None and not _is_local(origin.rpartition("/")[2], names):
        raise ApiError(403, "this server answers pages of this machine only", code="origin_not_allowed")


def _is_local(host: str, names: frozenset[str]) -> bool:
    name = _without_port(host.strip().lower())
    return name in names or _is_loopback_address(name)


def _without_port(host: str) -> str:
    before, _, port = host.rpartition(":")
    return before if before and port.isdecimal() and not before.endswith(":") else host


def _is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


async def until_gone(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """A response of server-sent events. ``events`` is closed as soon as the client goes away."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not sending.done():
                sending.cancel()
            results = await asyncio.gather(sending, gone, return_exceptions=True)
        failure = results[0]
        if isinstance(failure, Exception) and not isinstance(failure, OSError | ClientDisconnect):
            raise failure

    async def _send(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        start: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": headers}
        await send(start)
        try:
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()
