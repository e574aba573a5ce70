"""One file over HTTP(S) or from a file URL: resumable, checked, never half in place.

The bytes gather in ``<target>.part``; beside it ``<target>.part.json`` remembers whose bytes they are,
so that only the same file is resumed. The target appears by an atomic rename after its digest matched.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import shutil
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orkbench_tui.errors import InvalidFileError, NoMemoryError, OrkError
from orkbench_tui.plain_text import one_line
from orkbench_tui.runner.file_kinds import foreign_kind

__all__ = [
    "Expected",
    "Progress",
    "SourceError",
    "WrongFileError",
    "fetch",
    "note_path",
    "part_path",
    "require_space",
    "sha256_of",
    "space_errors",
]

CHUNK = 1 << 20
ATTEMPTS = 8
SPARE_BYTES = 16 << 20

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes expected."""


class SourceError(OrkError):
    """A source that could not be reached or stopped early; another one, or a later try, may do."""


class WrongFileError(InvalidFileError):
    """A source that gave something else than the pinned file; what it gave is discarded."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must arrive: size in bytes, hex digest, first bytes, and what such a file is called."""

    size_bytes: int
    sha256: str
    magic: bytes
    noun: str


class _Response(Protocol):
    status: int | None
    headers: Any

    def read(self, amount: int) -> bytes: ...

    def close(self) -> None: ...


def fetch(
    url: str,
    target: Path,
    expected: Expected,
    *,
    progress: Progress,
    timeout_s: float = 30.0,
    reserve_bytes: int = 0,
) -> int:
    """Bring ``url`` to ``target``; returns how many bytes an earlier, broken-off download had left to reuse.

    Args:
        timeout_s: for the connection and for each read.
        reserve_bytes: space needed on the same disk afterwards, asked for up front.

    Raises:
        SourceError: not reachable, refused, or stopped early (the partial file stays for a resume).
        WrongFileError: other bytes than expected (discarded).
        NoMemoryError: no space (the partial file is removed, a full disk helps nobody).
    """
    part = _Part(target)
    part.forget_unless(expected)
    resumed = part.size
    require_space(target.parent, expected.size_bytes - resumed + reserve_bytes)
    tries_left = ATTEMPTS
    while True:
        before = part.size
        try:
            _transfer(url, part, expected, progress, timeout_s)
            break
        except SourceError:
            # A connection that breaks but changed something is worth another try at once.
            tries_left -= 1
            if tries_left == 0 or part.size == before:
                raise
    found = sha256_of(part.path)
    if found != expected.sha256:
        part.discard()
        if resumed:
            # The old bytes may be to blame; a clean start decides it.
            fetch(url, target, expected, progress=progress, timeout_s=timeout_s, reserve_bytes=reserve_bytes)
            return 0
        raise WrongFileError(
            f"{_shown(url)} does not have the pinned checksum, discarded",
            why=f"sha256 expected {expected.sha256}, found {found}",
            do="try again later or give a good copy with --from FILE",
        )
    part.become(target)
    return resumed


def sha256_of(path: Path) -> str:
    """Hex digest of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raise NoMemoryError when ``folder``'s disk has not ``needed_bytes`` and a little spare."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + SPARE_BYTES:
        raise NoMemoryError(
            f"not enough space in {folder}",
            why=f"{_mib(needed_bytes + SPARE_BYTES)} needed, {_mib(free)} free",
            do="free some space or set XDG_CACHE_HOME to a folder on a larger disk",
        )


@contextmanager
def space_errors(folder: Path, cleanup: Callable[[], None]) -> Iterator[None]:
    """Turn ENOSPC and EDQUOT of the block into NoMemoryError, after ``cleanup``."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        cleanup()
        raise NoMemoryError(
            f"the disk of {folder} is full",
            why=f"{errno.errorcode[error.errno]} while writing; what was written is removed",
            do="free some space or set XDG_CACHE_HOME to a folder on a larger disk",
        ) from error


def part_path(target: Path) -> Path:
    """Where the bytes of ``target`` gather."""
    return target.with_name(target.name + ".part")


def note_path(part: Path) -> Path:
    """The note beside a partial file."""
    return part.with_name(part.name + ".json")


class _Part:
    """The partial file and the note that says whose bytes they are."""

    def __init__(self, target: Path) -> None:
        self.path = part_path(target)
        self.note = note_path(self.path)
        self.etag = ""

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def forget_unless(self, expected: Expected) -> None:
        """Keep what is there only when it is a beginning of the expected file."""
        try:
            known = json.loads(self.note.read_text())
            fits = known["sha256"] == expected.sha256 and self.size <= expected.size_bytes
            self.etag = str(known.get("etag", ""))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            fits = False
        if not fits:
            self.discard()

    def begin(self, expected: Expected, etag: str) -> None:
        self.etag = etag
        self.note.write_text(json.dumps({"sha256": expected.sha256, "etag": etag}))

    def discard(self) -> None:
        self.etag = ""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def become(self, target: Path) -> None:
        with self.path.open("rb") as stream:
            os.fsync(stream.fileno())
        self.path.replace(target)
        self.note.unlink(missing_ok=True)


def _transfer(url: str, part: _Part, expected: Expected, progress: Progress, timeout_s: float) -> None:
    """One connection: continue or start the part until it has the expected size."""
    if part.size == expected.size_bytes:
        return
    response = _opened(url, part, timeout_s)
    try:
        start = _start_of(response, part, expected, url)
        etag = response.headers.get("ETag") or ""
        with space_errors(part.path.parent, part.discard):
            if start == 0:
                part.begin(expected, etag)
            with part.path.open("r+b" if start else "wb") as out:
                out.seek(start)
                out.truncate()
                _pour(response, out, start, part, expected, progress, url)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise _stopped(url, part, expected, str(error) or type(error).__name__) from error
    finally:
        response.close()


def _pour(
    response: _Response, out: Any, start: int, part: _Part, expected: Expected, progress: Progress, url: str
) -> None:
    done = start
    progress(done, expected.size_bytes)
    while piece := response.read(CHUNK):
        if done == 0:
            _check_kind(piece, part, expected, url)
        done += len(piece)
        if done > expected.size_bytes:
            part.discard()
            raise WrongFileError(
                f"{_shown(url)} is larger than the pinned {expected.size_bytes} bytes, discarded",
                do="try again later or give a good copy with --from FILE",
            )
        out.write(piece)
        progress(done, expected.size_bytes)
    if done < expected.size_bytes:
        out.flush()
        raise _stopped(url, part, expected, "the connection ended early")


def _check_kind(head: bytes, part: _Part, expected: Expected, url: str) -> None:
    if not head.startswith(expected.magic):
        kind = foreign_kind(head) or f"a file that begins with {head[:8]!r}"
        part.discard()
        raise WrongFileError(
            f"{_shown(url)} gave {kind}, not {expected.noun}; discarded",
            do="the source may need a login or be behind a proxy page; try later or give a good copy with --from FILE",
        )


def _opened(url: str, part: _Part, timeout_s: float) -> _Response:
    headers = {"User-Agent": "ork", "Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
        if part.etag and not part.etag.startswith("W/"):
            headers["If-Range"] = part.etag
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.urlopen(request, timeout=timeout_s, context=_tls(url))
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and part.size:
            part.discard()
            raise SourceError(
                f"{_shown(url)} no longer has the rest of the file", do="run the command again"
            ) from error
        raise SourceError(f"{_shown(url)} answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise SourceError(f"{_shown(url)} is not reachable", why=one_line(str(error.reason), 160)) from error
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(f"{_shown(url)} is not reachable", why=one_line(str(error), 160)) from error


def _tls(url: str) -> ssl.SSLContext | None:
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise SourceError(
            f"{_shown(url)} cannot be fetched", why=f"scheme {scheme!r} is not http, https or file"
        )
    if scheme != "https":
        return None
    context = ssl.create_default_context()
    for variable in ("REQUESTS_CA_BUNDLE", "PIP_CERT"):
        bundle = os.environ.get(variable, "")
        if bundle and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return context


def _start_of(response: _Response, part: _Part, expected: Expected, url: str) -> int:
    """Where in the file the response begins; a server that ignores the range begins at 0."""
    # A file URL has no status and no ranges.
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    words = (response.headers.get("Content-Range") or "").removeprefix("bytes ").partition("/")
    first = words[0].partition("-")[0]
    if first != str(part.size) or words[2] not in ("*", str(expected.size_bytes)):
        part.discard()
        raise SourceError(
            f"{_shown(url)} answered another range than asked for",
            why=f"Content-Range {one_line(words[0] + words[1] + words[2], 60)!r}",
            do="run the command again: it starts from the beginning",
        )
    return part.size


def _stopped(url: str, part: _Part, expected: Expected, why: str) -> SourceError:
    return SourceError(
        f"download from {_shown(url)} stopped at {_mib(part.size)} of {_mib(expected.size_bytes)}",
        why=one_line(why, 160),
        do="run the command again: it resumes there",
    )


def _shown(url: str) -> str:
    """The URL without user, password or query, which may hold secrets."""
    pieces = urllib.parse.urlsplit(url)
    host = pieces.hostname or ""
    port = f":{pieces.port}" if pieces.port else ""
    return one_line(f"{pieces.scheme}://{host}{port}{pieces.path}", 200)


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
