"""Recordings of a board: a head line, then one line a sample, with the kernel log's new records in it.

Every line goes to the file by itself, so a program that is killed loses the line it was writing and no other.
A name that ends in ``.gz`` packs; each line is then flushed too.
"""

from __future__ import annotations

import bisect
import errno
import json
import os
import re
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.ops.telemetry.sample import KernelLog, Sample
from orkbench_tui.ops.telemetry.sample_stream import LogFollower, decode, parse_line, stream_line
from orkbench_tui.user_files import open_regular

__all__ = ["SCHEMA", "VERSION", "Recording", "RecordingWriter"]

SCHEMA = "ork.board.recording"
VERSION = 1

_HEAD = re.compile(r"ork\.board\.recording/([0-9]{1,6})", re.ASCII)
_STREAM = re.compile(r"ork\.board\.watch/([0-9]{1,6})", re.ASCII)
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
_MAX_UNPACKED = 8 << 30
_MAX_LINE = 64 << 20
_KEPT = 1024
_SYNC_EVERY = 30
_MAKE_ONE = "make one with `ork board record FILE`"


class RecordingWriter:
    """Writes a new recording. ``close`` it; what was written before is whole without that too."""

    def __init__(self, path: Path, *, program: str, started_unix_s: float, interval_s: float) -> None:
        """
        Raises:
            UsageError: the file is there already, or its folder is not.
            DeniedError: it may not be made.
        """
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise UsageError(f"{path} is there already", do="choose another name") from None
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
            raise UsageError(f"cannot make {path}", why=str(error), do="name a file in a folder") from None
        except OSError as error:
            raise DeniedError(f"cannot make {path}", why=error.strerror or str(error)) from None
        self._packer = zlib.compressobj(6, zlib.DEFLATED, 31) if path.name.endswith(".gz") else None
        self._lines = 0
        head = {
            "schema": f"{SCHEMA}/{VERSION}",
            "program": program,
            "started_unix_s": round(started_unix_s, 3),
            "interval_s": interval_s,
        }
        self._put(json.dumps(head, separators=(",", ":")).encode() + b"\n")

    def write(self, sample: Sample, records: Iterable[bytes] = ()) -> None:
        """One sample, with the records of the kernel log that it was the first to see.

        Raises:
            NoMemoryError: the disk is full.
        """
        self._put(stream_line(sample, records))
        self._lines += 1
        if self._lines % _SYNC_EVERY == 0:
            # So that a board that loses power, as wedged ones are made to, keeps all but the last half minute.
            os.fdatasync(self._fd)

    def _put(self, line: bytes) -> None:
        packed = line
        if self._packer is not None:
            packed = self._packer.compress(line) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        view = memoryview(packed)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoMemoryError(
                    f"no space left for {self._path}",
                    why=f"{self._lines} samples are in it",
                    do="free some; the recording so far can be replayed",
                ) from error
            raise

    def close(self) -> None:
        if self._fd < 0:
            return
        try:
            if self._packer is not None:
                os.write(self._fd, self._packer.flush())
        finally:
            os.close(self._fd)
            self._fd = -1


class Recording:
    """A recording opened for reading at any sample. Lines are found at once and read when asked for.

    ``damaged`` are the numbers of lines that are no JSON objects, ``broken_off`` is whether the last line is not whole.
    A saved ``ork board watch --json`` is taken too.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            UsageError, DeniedError: no such file, or it may not be read.
            InvalidFileError: it is no recording, a newer version's, or holds no sample.
        """
        self._path = path
        self.damaged: list[int] = []
        self.broken_off = False
        self._starts: list[int] = []
        self._numbers: list[int] = []
        self._with_records: list[int] = []
        # What the log adds up to from each sample on that brought records; the first entry is before all.
        self._logs: list[KernelLog] = []
        self._follower = LogFollower()
        self._kept: OrderedDict[int, Sample] = OrderedDict()
        self._stream: IO[bytes] = _unpacked(open_regular(path, "recording", do=_MAKE_ONE), path)
        try:
            self._index()
        except BaseException:
            self._stream.close()
            raise

    def __len__(self) -> int:
        return len(self._starts)

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self) -> None:
        position, expects_head = 0, True
        for number, line in enumerate(_lines(self._stream, self._path), 1):
            start, position = position, position + len(line)
            if expects_head:
                expects_head = False
                if self._is_head(line):
                    continue
            if not line.endswith(b"\n"):
                self.broken_off = True
            elif not line.startswith(b"{") or not line.rstrip().endswith(b"}"):
                self.damaged.append(number)
            else:
                if b'"records":' in line:
                    self._with_records.append(len(self._starts))
                self._starts.append(start)
                self._numbers.append(number)
        if not self._starts:
            raise InvalidFileError(f"{self._path} holds no sample", do=_MAKE_ONE)

    def _is_head(self, line: bytes) -> bool:
        """Whether the first line is a recording's head; False for the first of a saved stream."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        schema = value.get("schema") if isinstance(value, dict) else None
        for pattern in (_HEAD, _STREAM):
            if isinstance(schema, str) and (found := pattern.fullmatch(schema)):
                if int(found[1]) > VERSION:
                    raise InvalidFileError(
                        f"{self._path} was written by a newer version",
                        why=f"its form is {found[1]}, this program reads up to {VERSION}",
                        do="use the program that made it, or a newer one",
                    )
                return pattern is _HEAD
        raise InvalidFileError(f"{self._path} is no recording of a board", do=_MAKE_ONE)

    def sample(self, index: int) -> Sample:
        """The sample at ``index``, which counts from 0. Its source is ``replay``.

        Raises:
            InvalidFileError: its line is damaged.
            IndexError: there is none.
        """
        if not 0 <= index < len(self._starts):
            raise IndexError(index)
        if (found := self._kept.get(index)) is not None:
            self._kept.move_to_end(index)
            return found
        value = self._value(index)
        said = value.get("source")
        detail = f"of {'the simulated board' if said == 'sim' else 'a board'}"
        try:
            sample = decode(value, self._log(index), source="replay", detail=detail)
        except ValueError as error:
            raise self._damage(index, error) from error
        self._kept[index] = sample
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return sample

    def _log(self, index: int) -> KernelLog:
        wanted = bisect.bisect_right(self._with_records, index)
        while len(self._logs) < wanted:
            at = self._with_records[len(self._logs)]
            try:
                self._logs.append(self._follower.take(self._value(at)["data"]))
            except (ValueError, InvalidFileError):
                # The sample itself says so when it is asked for; the log goes on without its records.
                self._logs.append(self._logs[-1] if self._logs else KernelLog())
        return self._logs[wanted - 1] if wanted else KernelLog()

    def line_number(self, index: int) -> int:
        """Where the sample stands in the file, counted from 1."""
        return self._numbers[index]

    def object(self, index: int) -> dict[str, Any]:
        """The line as it was written: ``source``, ``data`` and ``warnings``."""
        return self._value(index)

    def _value(self, index: int) -> dict[str, Any]:
        self._stream.seek(self._starts[index])
        try:
            return parse_line(self._stream.readline(_MAX_LINE))
        except ValueError as error:
            raise self._damage(index, error) from error

    def _damage(self, index: int, error: Exception) -> InvalidFileError:
        return InvalidFileError(f"{self._path}: line {self._numbers[index]} is damaged", why=str(error)[:120])


def _lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    stream.seek(0)
    while line := stream.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise InvalidFileError(
                f"{path} is no recording of a board", why="a line has no end", do=_MAKE_ONE
            )
        yield line


def _unpacked(stream: BinaryIO, path: Path) -> IO[bytes]:
    """The stream itself, or for a packed one its content in a file without a name."""
    if stream.read(2) != _GZIP:
        return stream
    stream.seek(0)
    plain = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever reads it
    unpacker, total = zlib.decompressobj(31), 0
    try:
        with stream:
            while (piece := stream.read(_PIECE)) and not unpacker.eof:
                while piece:
                    text = unpacker.decompress(piece, _PIECE)
                    piece = unpacker.unconsumed_tail
                    total += len(text)
                    if total > _MAX_UNPACKED:
                        raise InvalidFileError(f"{path} is too long", why="more than 8 GiB unpacked")
                    plain.write(text)
    except zlib.error as error:
        # What came before the damage can be read; the line it broke off in is left out.
        if total == 0:
            plain.close()
            raise InvalidFileError(f"{path} is damaged", why=str(error), do=_MAKE_ONE) from error
    except BaseException:
        plain.close()
        raise
    return plain
