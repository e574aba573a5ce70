"""Model files and weight packs as read-only mappings: opened with care, unmapped in one way."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.runner.file_kinds import HEAD_BYTES, MEANT_FOR, kind_in_words
from orkbench_tui.runner.gguf_values import Metadata

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MappedFile", "forget_pages", "map_file"]


def map_file(path: Path, noun: str, magic: bytes, kind: str) -> mmap.mmap:
    """Map ``path`` read-only after checking that it begins with ``magic``.

    UsageError where there is no such file, DeniedError without permission, InvalidFileError for an
    empty file or one of another kind, which is named when it can be told.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                raise InvalidFileError(
                    f"{path} is a folder", why=f"expected a {kind} file", do="name the file itself"
                )
            if not stat.S_ISREG(status.st_mode):
                raise InvalidFileError(
                    f"{path} is a device or pipe", why=f"expected a {kind} file", do="name a file"
                )
            head = os.pread(handle, HEAD_BYTES, 0)
            if head.startswith(magic):
                return mmap.mmap(handle, status.st_size, access=mmap.ACCESS_READ)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise UsageError(f"{noun} {path} does not exist", do="`ork model list` shows what is here") from None
    except PermissionError:
        raise DeniedError(
            f"{noun} {path} cannot be read", why="permission denied", do="check its owner and mode"
        ) from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise NoMemoryError(
                f"{noun} {path} cannot be mapped",
                why=f"no room for its {status.st_size >> 20} MiB",
                do="close other programs, raise `ulimit -v`, or choose a smaller model",
            ) from None
        raise InvalidFileError(
            f"{noun} {path} cannot be read", why=error.strerror or str(error), do="check the disk"
        ) from error
    if magic.startswith(head) and head:
        found = f"a file of {len(head)} bytes, cut short"
    else:
        found = kind_in_words(head)
    do = MEANT_FOR.get(found, "download or copy the file again")
    raise InvalidFileError(f"{path} is not a {kind} file", why=f"it is {found}", do=do)


def forget_pages(array: np.ndarray) -> None:
    """Take the whole pages of an array over a mapped file out of this process; reading them brings them back.

    For what was copied elsewhere and will not be read soon. Nothing happens to other arrays.
    """
    import numpy as np

    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else None
    if not isinstance(mapping, mmap.mmap):
        return
    begin = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        mapping.madvise(mmap.MADV_DONTNEED, first, length)


class MappedFile:
    """A mapped file that holds metadata. Use as a context manager, or call ``close``."""

    _metadata: Metadata

    def __init__(self, path: Path, mapping: mmap.mmap) -> None:
        self.path = path
        self._mapping: mmap.mmap | None = mapping
        self._view = memoryview(mapping)

    def close(self) -> None:
        """Unmap the file. Arrays that still look into it keep it mapped until they go."""
        if self._mapping is None:
            return
        self._metadata.release()
        with contextlib.suppress(BufferError):
            self._view.release()
            self._mapping.close()
        self._mapping = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
