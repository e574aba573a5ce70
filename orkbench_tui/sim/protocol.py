"""The simulated board's wire: length-checked frames over a unix socket.

A frame is a fixed header and a payload. The first frame of a connection says who is calling; the
header, the HELLO and the STATUS frames keep their shape in every version, so that two versions can
always tell each other apart.

    request:  u32 payload length, u32 operation, i64 a, i64 b      24 bytes
    reply:    u32 payload length, i32 errno (0 is success), i64 value   16 bytes

MMAP's and HEAP_ALLOCATE's replies carry one file descriptor (SCM_RIGHTS). Where a call names a descriptor
of the client's, its inode number is sent.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from orkbench_tui.ops.files import Access, Reading

__all__ = [
    "PROTOCOL_VERSION",
    "FrameError",
    "Operation",
    "Reply",
    "Request",
    "pack_readings",
    "pack_strings",
    "receive_exactly",
    "receive_reply",
    "receive_request",
    "send_reply",
    "send_request",
    "unpack_readings",
    "unpack_strings",
]

PROTOCOL_VERSION = 3
MAX_REQUEST = 1 << 20
MAX_REPLY = 64 << 20

_REQUEST = struct.Struct("<IIqq")
_REPLY = struct.Struct("<Iiq")


class Operation(IntEnum):
    """``a``, ``b`` and the payload of each are described where the server answers it."""

    HELLO = 1
    STATUS = 2
    IOCTL = 3
    MMAP = 4
    READ = 5
    LIST = 6
    READLINK = 7
    KERNEL_LOG = 8
    SET_PACE = 9
    STOP = 10
    HEAP_ALLOCATE = 11
    HEAP_SYNC = 12
    HEAP_RELEASE = 13
    WRITE = 14
    SYNC = 15
    FAULT_LIST = 16
    FAULT_SET = 17
    FAULT_CLEAR = 18
    RESTART = 19
    TERMINATE = 20


class FrameError(Exception):
    """The other side sent something that is no frame; the connection is of no further use."""


@dataclass(frozen=True, slots=True)
class Request:
    operation: int
    a: int
    b: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    error: int
    value: int
    payload: bytes
    fd: int = -1


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """``size`` bytes; empty when the other side has closed between frames.

    Raises:
        FrameError: closed in the middle.
    """
    data = connection.recv(size)
    if len(data) == size or not data:
        return data
    parts, got = [data], len(data)
    while got < size:
        part = connection.recv(min(size - got, 1 << 20))
        if not part:
            raise FrameError("connection closed inside a frame")
        parts.append(part)
        got += len(part)
    return b"".join(parts)


def send_request(connection: socket.socket, operation: Operation, a: int, b: int, payload: bytes) -> None:
    if len(payload) > MAX_REQUEST:
        raise OSError(errno.EINVAL, "request too large for the simulated board")
    connection.sendall(_REQUEST.pack(len(payload), operation, a, b) + payload)


def receive_request(connection: socket.socket) -> Request | None:
    """The next request; None when the client has gone. Raises FrameError."""
    header = receive_exactly(connection, _REQUEST.size)
    if not header:
        return None
    length, operation, a, b = _REQUEST.unpack(header)
    if length > MAX_REQUEST:
        raise FrameError(f"request of {length} bytes")
    payload = receive_exactly(connection, length) if length else b""
    if length and not payload:
        raise FrameError("connection closed inside a frame")
    return Request(operation, a, b, payload)


def send_reply(connection: socket.socket, reply: Reply) -> None:
    data = _REPLY.pack(len(reply.payload), reply.error, reply.value) + reply.payload
    if reply.fd < 0:
        connection.sendall(data)
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reply.fd]))]
    sent = connection.sendmsg([data], rights)
    connection.sendall(data[sent:])


def receive_reply(connection: socket.socket, with_fd: bool = False) -> Reply:
    """The answer to a request. Raises FrameError when the server is gone or makes no sense."""
    fd = -1
    if with_fd:
        header, fd = _receive_with_fd(connection)
    else:
        header = receive_exactly(connection, _REPLY.size)
    try:
        if not header:
            raise FrameError("the simulated board closed the connection")
        length, error, value = _REPLY.unpack(header)
        if length > MAX_REPLY:
            raise FrameError(f"reply of {length} bytes")
        payload = receive_exactly(connection, length) if length else b""
        if length and not payload:
            raise FrameError("connection closed inside a frame")
    except FrameError:
        if fd >= 0:
            os.close(fd)
        raise
    return Reply(error, value, payload, fd)


def _receive_with_fd(connection: socket.socket) -> tuple[bytes, int]:
    space = socket.CMSG_LEN(array.array("i").itemsize)
    data, ancillary, _, _ = connection.recvmsg(_REPLY.size, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, rights in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(rights[: len(rights) - len(rights) % fds.itemsize])
    if data and len(data) < _REPLY.size:
        data += receive_exactly(connection, _REPLY.size - len(data))
    for extra in fds[1:]:
        with contextlib.suppress(OSError):
            os.close(extra)
    return data, fds[0] if fds else -1


def pack_strings(texts: list[str]) -> bytes:
    return b"\0".join(os.fsencode(text) for text in texts)


def unpack_strings(data: bytes) -> list[str]:
    return [os.fsdecode(text) for text in data.split(b"\0")] if data else []


_READING = struct.Struct("<BHII")
_ACCESS = tuple(Access)


def pack_readings(readings: list[Reading]) -> bytes:
    parts = []
    for reading in readings:
        name = reading.errno_name.encode()
        parts += [
            _READING.pack(_ACCESS.index(reading.access), len(name), len(reading.data), 0),
            name,
            reading.data,
        ]
    return b"".join(parts)


def unpack_readings(data: bytes, paths: list[str]) -> list[Reading]:
    """Raises FrameError when the bytes do not hold one reading per path."""
    readings, at = [], 0
    try:
        for path in paths:
            access, name_length, length, _ = _READING.unpack_from(data, at)
            at += _READING.size
            name = data[at : at + name_length].decode()
            at += name_length
            readings.append(Reading(path, _ACCESS[access], data[at : at + length], name))
            at += length
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FrameError(f"readings: {error}") from error
    if at != len(data):
        raise FrameError(f"readings: {len(data) - at} bytes too many")
    return readings
