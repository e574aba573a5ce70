"""Failures of requests, in the shape OpenAI's clients understand."""

from __future__ import annotations

from typing import Any

from orkbench_tui.errors import NoDeviceError, OrkError, UnhealthyError, UsageError
from orkbench_tui.plain_text import one_line

__all__ = ["ApiError", "invalid", "of_failure", "unsupported"]

INVALID = "invalid_request_error"
SERVER = "server_error"


class ApiError(Exception):
    """One refused or failed request.

    ``kind`` is the ``type`` of OpenAI's error object; ``retry_after_s`` becomes a Retry-After header.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = one_line(message, 1000)
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> dict[str, Any]:
        """``{"error": {"message", "type", "param", "code"}}``."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def invalid(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> ApiError:
    """A request that cannot be answered as it is."""
    return ApiError(status, message, param=param, code=code)


def unsupported(param: str, why: str) -> ApiError:
    """A parameter OpenAI has and this server does not compute."""
    return ApiError(400, f"{param!r} is not supported: {why}", param=param, code="unsupported_parameter")


def of_failure(error: BaseException) -> ApiError:
    """What a client hears of a failure while its answer was made."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UsageError):
        return invalid(error.line())
    if isinstance(error, NoDeviceError):
        return ApiError(503, error.line(), kind=SERVER, code="no_device")
    if isinstance(error, UnhealthyError):
        return ApiError(500, error.line(), kind=SERVER, code="unhealthy")
    if isinstance(error, OrkError):
        return ApiError(500, error.line(), kind=SERVER)
    return ApiError(500, "the server failed on this request", kind=SERVER)
