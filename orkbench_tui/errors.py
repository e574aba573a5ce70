"""What can go wrong, as types, and the exit code each kind ends a command with.

    OrkError
    ├── UsageError            bad flag, bad settings, unknown name            2
    ├── NoDeviceError         no NPU, no driver, simulator gone               3
    │   └── NoDriverError     no rknpu driver at all                          3
    ├── DeniedError           permission                                      4
    ├── BusyError             somebody else holds the device or a lock        5
    ├── UnhealthyError        device answered wrongly, timed out, wedged      6
    ├── RefusedError          a guard said no before anything was touched     7
    ├── RolledBackError       changed, the check failed, undone               8
    ├── InconsistentError     changed and could not be undone                 9
    ├── UnreachableError      another board does not answer                  11
    ├── NoMemoryError         RAM, CMA, IOVA or disk does not suffice        12
    └── InvalidFileError      a file is not what it should be                 1

Every error carries the value that was wrong, why it is wrong and the next step, and prints as one
line. Text that came from files, logs or models is stripped of control characters on the way out.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "BusyError",
    "DeniedError",
    "ExitCode",
    "InconsistentError",
    "InvalidFileError",
    "NoDeviceError",
    "NoDriverError",
    "NoMemoryError",
    "OrkError",
    "RefusedError",
    "RolledBackError",
    "UnhealthyError",
    "UnreachableError",
    "UsageError",
]


class ExitCode(IntEnum):
    """What a command returns to the shell; documented in docs/exit-codes.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_DEVICE = 3
    DENIED = 4
    BUSY = 5
    UNHEALTHY = 6
    REFUSED = 7
    ROLLED_BACK = 8
    INCONSISTENT = 9
    ALERT = 10
    UNREACHABLE = 11
    NO_MEMORY = 12
    TIMEOUT = 124
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class OrkError(Exception):
    """A failure the user can act on.

    ``what`` failed, in the user's nouns; ``why`` with the value seen and the allowed range;
    ``do`` is the next step, a command where there is one.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, why: str = "", do: str = "") -> None:
        self.what = what
        self.why = why
        self.do = do
        super().__init__(self.line())

    def line(self) -> str:
        """The error as the one line a user sees."""
        text = self.what
        if self.why:
            text += f": {self.why}"
        if self.do:
            text += f"; {self.do}"
        return text


class UsageError(OrkError):
    exit_code = ExitCode.USAGE


class NoDeviceError(OrkError):
    exit_code = ExitCode.NO_DEVICE


class NoDriverError(NoDeviceError):
    """No rknpu driver to talk to, as against a device that no longer answers."""


class DeniedError(OrkError):
    exit_code = ExitCode.DENIED


class BusyError(OrkError):
    exit_code = ExitCode.BUSY


class UnhealthyError(OrkError):
    exit_code = ExitCode.UNHEALTHY


class RefusedError(OrkError):
    exit_code = ExitCode.REFUSED


class RolledBackError(OrkError):
    exit_code = ExitCode.ROLLED_BACK


class InconsistentError(OrkError):
    exit_code = ExitCode.INCONSISTENT


class UnreachableError(OrkError):
    exit_code = ExitCode.UNREACHABLE


class NoMemoryError(OrkError):
    exit_code = ExitCode.NO_MEMORY


class InvalidFileError(OrkError):
    """A file, download or pack that is truncated, corrupt or of another kind."""
