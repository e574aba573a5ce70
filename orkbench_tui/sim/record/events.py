"""The record's lines: JSON objects, the first one a head. Bytes are hex; memory is zlib in base64."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from orkbench_tui.errors import InvalidFileError

__all__ = ["FORMAT", "VERSION", "digest", "packed", "read_events", "unpacked"]

FORMAT = "ork-sim-record"
VERSION = 1
MAX_UNPACKED = 1 << 32


def digest(data: Any) -> str:
    """SHA-256 of a buffer, hex."""
    return hashlib.sha256(np.ascontiguousarray(data).data).hexdigest()


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def unpacked(text: str, size: int) -> bytes:
    """Raises ValueError: not packed bytes, or more than ``size`` of them."""
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode(text, validate=True), min(size, MAX_UNPACKED) + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(str(error)) from None
    if len(data) > size:
        raise ValueError(f"over {size} bytes of memory")
    return data


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The head, then every event in order.

    Raises:
        InvalidFileError: no record, of another version, or a line that is no JSON object.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if not isinstance(event, dict):
                raise InvalidFileError(str(path), why=f"line {number + 1} is no event of a record")
            if number == 0 and (event.get("format"), event.get("version")) != (FORMAT, VERSION):
                raise InvalidFileError(str(path), why=f"it does not begin as a record of version {VERSION}")
            yield event
