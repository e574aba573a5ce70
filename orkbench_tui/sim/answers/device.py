"""Answers about an open file: ioctls, mappings, the dma-heap."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from orkbench_tui.sim.protocol import Operation, Reply, Request
from orkbench_tui.sim.session import Session

__all__ = ["DEVICE_ANSWERS"]


def _ioctl(request: Request, session: Session) -> Reply:
    """``a`` is the ioctl number; the payload goes in and comes out, on failure too.

    ``b`` identifies the descriptor a PRIME call names.
    """
    file = session.device()
    argument = bytearray(request.payload)
    kernel, recorder = session.kernel, session.recorder
    submit = recorder.is_submit(request.a) if recorder is not None else False
    met = recorder.before_submit(kernel, file, request.payload) if recorder is not None and submit else {}
    value = failed = 0
    try:
        value = kernel.ioctl(file, request.a, argument, request.b)
    except OSError as error:
        failed = error.errno or errno.EIO
    if recorder is not None and submit:
        recorder.after_submit(met, bytes(argument), failed)
    elif recorder is not None:
        recorder.called(file, request.a, request.payload, bytes(argument), failed, request.b)
    return Reply(failed, value, bytes(argument))


def _mmap(request: Request, session: Session) -> Reply:
    """``a`` is the offset, ``b`` the length; the reply carries the memfd."""
    return Reply(0, 0, b"", session.kernel.map_fd(session.device(), request.a, request.b))


def _heap_allocate(request: Request, session: Session) -> Reply:
    """``a`` is the size; the reply's value is the size in whole pages, its descriptor the buffer."""
    buffer = session.kernel.memory.heap.allocate(session.heap(), request.a)
    if session.recorder is not None:
        session.recorder.heap("heap", buffer.identity, buffer.size)
    return Reply(0, buffer.size, b"", os.dup(buffer.fd))


def _heap_sync(request: Request, session: Session) -> Reply:
    """``a`` identifies the buffer, ``b`` holds the flags of DMA_BUF_IOCTL_SYNC."""
    session.heap()
    session.kernel.memory.heap.sync(request.a, request.b)
    return Reply(0, 0, b"")


def _heap_release(request: Request, session: Session) -> Reply:
    """``a`` identifies the buffer whose descriptor the client has closed."""
    session.kernel.memory.heap.release(session.heap(), request.a)
    if session.recorder is not None:
        session.recorder.heap("heap-release", request.a)
    return Reply(0, 0, b"")


DEVICE_ANSWERS: dict[int, Callable[[Request, Session], Reply]] = {
    Operation.IOCTL: _ioctl,
    Operation.MMAP: _mmap,
    Operation.HEAP_ALLOCATE: _heap_allocate,
    Operation.HEAP_SYNC: _heap_sync,
    Operation.HEAP_RELEASE: _heap_release,
}
