"""Files that a user names, opened so that nothing named by mistake can hang or fill this program.

A pipe would wait for its writer and a device may never end, so only regular files are taken, and what is
read whole has a limit that the error tells.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from orkbench_tui.errors import DeniedError, InvalidFileError, UsageError

__all__ = ["check_place", "decoded", "mebibytes", "open_regular", "read_bounded", "read_text_bounded"]

_CHUNK = 1 << 20


def open_regular(path: Path | str, noun: str, *, do: str = "") -> BinaryIO:
    """Open ``path`` for reading. ``noun`` says what it is for, ``do`` what to give instead.

    Raises:
        UsageError: an empty name, no such file, or no regular file.
        DeniedError: it may not be read.
        InvalidFileError: it cannot be read for another reason.
    """
    if not str(path) or "\0" in str(path):
        raise UsageError(f"the name of the {noun} is empty or holds a NUL", do=do or "name a file")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"no file {path}", do=do or f"name a {noun}") from None
    except NotADirectoryError:
        raise UsageError(f"no file {path}", why="a part of its path is a file", do=do) from None
    except PermissionError:
        raise DeniedError(
            f"{path} cannot be read", why="permission denied", do="check its owner and mode"
        ) from None
    except OSError as error:
        raise InvalidFileError(f"{path} cannot be read", why=error.strerror or str(error), do=do) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise UsageError(f"{path} is {found}", why=f"expected a {noun}", do=do or "name a regular file")
    return os.fdopen(handle, "rb")


def check_place(path: Path, noun: str) -> None:
    """Raise unless a file can be made at ``path``, or is there and regular: before the work whose result it gets.

    Raises:
        UsageError: its folder is not there, or no regular file is.
        DeniedError: the folder takes no files, or the file may not be read.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", why=f"the {noun} is to be made there", do="make it first")
    if path.exists():
        open_regular(path, noun).close()
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DeniedError(
            f"{path} cannot be written", why=f"{folder} is not writable", do="name another file"
        )


def read_bounded(
    stream: BinaryIO, limit: int, name: str, *, do: str = "", wait: Callable[[], None] = lambda: None
) -> bytes:
    """All bytes of ``stream``, at most ``limit``. ``wait`` is called before each piece: where a read may block for
    ever, it returns when there is something, and lets signals be heard meanwhile.

    Raises:
        UsageError: there are more.
        InvalidFileError: reading failed.
    """
    parts: list[bytes] = []
    total = 0
    while True:
        wait()
        try:
            piece = stream.read(_CHUNK)
        except OSError as error:
            raise InvalidFileError(f"{name} cannot be read", why=error.strerror or str(error)) from error
        if piece is None:
            # Somebody made it non-blocking.
            select.select([stream], [], [])
            continue
        if not piece:
            return b"".join(parts)
        total += len(piece)
        if total > limit:
            raise UsageError(f"{name} is too long", why=f"allowed: up to {mebibytes(limit)}", do=do)
        parts.append(piece)


def read_text_bounded(path: Path | str, limit: int, noun: str, *, do: str = "") -> str:
    """A UTF-8 file as text. Raises what ``open_regular``, ``read_bounded`` and ``decoded`` raise."""
    with open_regular(path, noun, do=do) as stream:
        return decoded(read_bounded(stream, limit, str(path), do=do), str(path))


def decoded(data: bytes, name: str) -> str:
    """UTF-8 text, or UsageError with the first byte that does not fit."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8 text", why=f"byte {error.start}", do="give UTF-8 text"
        ) from None


def mebibytes(count: int) -> str:
    """``count`` bytes as ``4 MiB``."""
    return f"{count / (1 << 20):.4g} MiB"
