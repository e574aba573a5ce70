"""What inputs a model's weights see on a text, in a small file bound to the model: mean squares, and Hessians.

    header (40 bytes): "ORKCALI1", version, index offset, index size, index checksum
    for each input: float32 mean squares [K], then (if kept) the mean of x xᵀ as its upper triangle, row by row
    index: JSON with model, text, tokens, window, and name, weights, K, rows, offsets, checksums of each input

Everything is little-endian. Weights that share an input share its entry. The mean of x xᵀ is of the inputs as
they are: whoever rotates weights rotates it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.runner.orkpack.pack_file import disk_error, open_exclusive, refuse_folder, sync_folder
from orkbench_tui.user_files import open_regular

__all__ = ["Calibration", "CalibrationWriter", "InputMoments"]

Floats = NDArray[np.float32]
MAGIC = b"ORKCALI1"
VERSION = 1
_HEADER = struct.Struct("<8sIIQQII")
_MAX_INDEX = 16 << 20
_MAX_WIDTH = 1 << 17


@dataclass(frozen=True, slots=True)
class InputMoments:
    """Index entry: the input of ``weights``, K wide, seen in ``rows`` rows. ``hessian_offset`` 0: not kept."""

    name: str
    weights: tuple[str, ...]
    K: int
    rows: int
    offset: int
    crc: int
    hessian_offset: int = 0
    hessian_crc: int = 0

    @property
    def triangle(self) -> int:
        """Bytes of the upper triangle."""
        return 2 * self.K * (self.K + 1)


class CalibrationWriter:
    """Context manager: the file gets its name in ``finish``; leaving without it keeps nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_folder(path)
        self._refuse_others()
        self.temporary = path.with_name(path.name + ".tmp")
        self._handle = open_exclusive(self.temporary)
        self._handle.write(bytes(_HEADER.size))
        self._entries: list[InputMoments] = []
        self._finished = False

    def _refuse_others(self) -> None:
        with contextlib.suppress(OSError), self.path.open("rb") as existing:
            if existing.read(len(MAGIC)) != MAGIC:
                raise RefusedError(f"{self.path} exists and is no calibration", do="choose another name")

    def __enter__(self) -> CalibrationWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            self.temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._handle.close()
        if isinstance(error, OSError):
            raise disk_error(error, self.path) from error

    def add(self, weights: Sequence[str], rows: int, squares: Floats, hessian: Floats | None = None) -> None:
        """``squares`` [K] are means; ``hessian`` [K, K] is the mean of x xᵀ."""
        data = squares.astype("<f4").tobytes()
        offset = self._handle.tell()
        self._handle.write(data)
        hessian_offset = hessian_crc = 0
        if hessian is not None:
            hessian_offset = self._handle.tell()
            for row in range(len(hessian)):
                part = hessian[row, row:].astype("<f4").tobytes()
                self._handle.write(part)
                hessian_crc = zlib.crc32(part, hessian_crc)
        self._entries.append(
            InputMoments(
                weights[0],
                tuple(weights),
                len(squares),
                rows,
                offset,
                zlib.crc32(data),
                hessian_offset,
                hessian_crc,
            )
        )

    def finish(self, *, model_sha256: str, text_sha256: str, tokens: int, window: int) -> None:
        index = json.dumps(
            {
                "model_sha256": model_sha256,
                "text_sha256": text_sha256,
                "tokens": tokens,
                "window": window,
                "inputs": [asdict(entry) for entry in self._entries],
            }
        ).encode()
        at = self._handle.tell()
        self._handle.write(index)
        self._handle.seek(0)
        self._handle.write(_HEADER.pack(MAGIC, VERSION, 0, at, len(index), zlib.crc32(index), 0))
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self.temporary.replace(self.path)
        self._finished = True
        sync_folder(self.path.parent)


class Calibration:
    """An open calibration; use as a context manager. ``digest`` is the sha256 of its index."""

    def __init__(self, path: Path, handle: BinaryIO) -> None:
        self.path = path
        self._handle = handle
        head = handle.read(_HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(MAGIC):
            raise self._bad("it does not begin as one")
        _, version, _, at, size, crc, _ = _HEADER.unpack(head)
        if version != VERSION:
            raise self._bad(f"it has version {version}, known is {VERSION}")
        end = os.fstat(handle.fileno()).st_size
        if size > _MAX_INDEX or at + size != end:
            raise self._bad(f"its index of {size} bytes at {at} does not end its {end} bytes")
        handle.seek(at)
        index = handle.read(size)
        if zlib.crc32(index) != crc:
            raise self._bad("the checksum of its index does not match")
        self.digest = hashlib.sha256(index).hexdigest()
        try:
            facts = json.loads(index)
            self.model_sha256, self.text_sha256 = str(facts["model_sha256"]), str(facts["text_sha256"])
            self.tokens, self.window = int(facts["tokens"]), int(facts["window"])
            self.inputs = tuple(self._entry(row, at) for row in facts["inputs"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._bad(f"its index: {error or type(error).__name__}") from None
        self._by_weight = {weight: entry for entry in self.inputs for weight in entry.weights}

    @classmethod
    def open(cls, path: Path) -> Calibration:
        """InvalidFileError where it is none or damaged; checksums of the figures are checked when read."""
        try:
            handle = open_regular(path, "calibration")
        except OSError as error:
            raise InvalidFileError(
                f"{path} cannot be read", why=error.strerror or "", do="see ork pack calibrate --help"
            ) from error
        try:
            return cls(path, handle)
        except BaseException:
            handle.close()
            raise

    def __enter__(self) -> Calibration:
        return self

    def __exit__(self, *error: object) -> None:
        self._handle.close()

    @property
    def has_hessians(self) -> bool:
        return all(entry.hessian_offset for entry in self.inputs)

    def require_model(self, sha256: str) -> None:
        """InvalidFileError where it was gathered from another model."""
        if self.model_sha256 != sha256:
            raise InvalidFileError(
                f"calibration {self.path.name} is of another model",
                why=f"sha256 {self.model_sha256[:16]}…, this one has {sha256[:16]}…",
                do="run: ork pack calibrate",
            )

    def squares(self, weight: str) -> Floats | None:
        """Mean squares [K] of the inputs of ``weight``; None where it was not seen."""
        entry = self._by_weight.get(weight)
        if entry is None:
            return None
        values = self._read(entry.offset, 4 * entry.K, entry.crc, weight)
        if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
            raise self._bad(f"the figures of {weight} are no mean squares")
        return values

    def hessian(self, weight: str) -> Floats | None:
        """Mean of x xᵀ [K, K] of the inputs of ``weight``; None where it was not kept."""
        entry = self._by_weight.get(weight)
        if entry is None or not entry.hessian_offset:
            return None
        values = self._read(entry.hessian_offset, entry.triangle, entry.hessian_crc, weight)
        if not bool(np.isfinite(values).all()):
            raise self._bad(f"the Hessian of {weight} is not finite")
        full = np.zeros((entry.K, entry.K), np.float32)
        at = np.triu_indices(entry.K)
        full[at] = values
        full.T[at] = values
        return full

    def _read(self, offset: int, size: int, crc: int, weight: str) -> Floats:
        self._handle.seek(offset)
        data = self._handle.read(size)
        if len(data) != size or zlib.crc32(data) != crc:
            raise self._bad(f"the checksum of the figures of {weight} does not match")
        return np.frombuffer(data, "<f4").astype(np.float32)

    def _entry(self, row: dict[str, object], end: int) -> InputMoments:
        names = row.pop("weights")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("weights are no list of names")
        entry = InputMoments(weights=tuple(names), **row)  # type: ignore[arg-type]
        numbers = (entry.K, entry.rows, entry.offset, entry.crc, entry.hessian_offset, entry.hessian_crc)
        if (
            not all(type(number) is int and number >= 0 for number in numbers)
            or not 1 <= entry.K <= _MAX_WIDTH
        ):
            raise ValueError(f"the numbers of {entry.name}")
        if entry.offset + 4 * entry.K > end or entry.hessian_offset + entry.triangle > end + entry.triangle:
            raise ValueError(f"{entry.name} lies outside the file")
        return entry

    def _bad(self, why: str) -> InvalidFileError:
        return InvalidFileError(
            f"{self.path.name} is no calibration that can be used", why=why, do="run: ork pack calibrate"
        )
