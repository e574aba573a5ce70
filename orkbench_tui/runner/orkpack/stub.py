"""A stub of a model file: everything but the weights a pack has, for tools that want a GGUF.

Header, metadata and tensor table are the source's bytes, every tensor keeps its offset, and the weights the pack
holds are holes that take no blocks on disk. Whoever reads a stub must check it against its pack first: a tensor
that reads as zeros is only right where the pack has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import split_expert_name
from orkbench_tui.runner.orkpack.layout import EntryFlag, Kind
from orkbench_tui.runner.orkpack.pack_file import disk_error, open_exclusive, sync_folder
from orkbench_tui.runner.orkpack.reader import OrkPack

__all__ = ["StubReport", "check_stub", "write_stub"]

_COPY_BYTES = 4 << 20
_ZEROS = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class StubReport:
    """``bytes`` is the size it appears to have, ``kept`` what was copied; ``holes`` names what only the pack has."""

    bytes: int
    kept: int
    holes: tuple[str, ...]


def write_stub(source: Path, pack: OrkPack, path: Path) -> StubReport:
    """Make ``path`` from the model file ``pack`` was made of; it exists whole or not at all.

    Raises:
        InvalidFileError: the pack lacks a tensor, or has it in another shape.
        RefusedError: ``path`` exists.
        NoMemoryError: the disk is full.
    """
    if path.exists():
        raise RefusedError(f"{path} exists", do="choose another name or delete it")
    with GgufFile.open(source) as model:
        holes = tuple(name for name in model.tensors if _packed_shape(pack, name) is not None)
        for name in holes:
            _require(pack, model, name)
        temporary = path.with_name(path.name + ".tmp")
        with open_exclusive(temporary) as handle:
            try:
                kept = 0
                with source.open("rb") as original:
                    for first, last in _kept_ranges(model, holes):
                        original.seek(first)
                        handle.seek(first)
                        left = last - first
                        while left and (block := original.read(min(left, _COPY_BYTES))):
                            handle.write(block)
                            left -= len(block)
                        kept += last - first
                handle.truncate(model.file_bytes)
                handle.flush()
                os.fsync(handle.fileno())
                temporary.replace(path)
            except BaseException as error:
                temporary.unlink(missing_ok=True)
                if isinstance(error, OSError):
                    raise disk_error(error, path) from error
                raise
        sync_folder(path.parent)
        return StubReport(model.file_bytes, kept, holes)


def check_stub(stub: Path, pack: OrkPack) -> tuple[str, ...]:
    """Names of the tensors that read as zeros, each of which the pack can serve.

    Raises:
        InvalidFileError: naming the first that it cannot.
    """
    empty: list[str] = []
    with GgufFile.open(stub) as model:
        for name in model.tensors:
            if not _is_zero(model.raw(name)):
                continue
            if _packed_shape(pack, name) is None:
                # A bias may be zeros by right: then the pack's own copy is the same.
                same = name in pack.raw_names and _is_zero(memoryview(pack.raw(name).tobytes()))
                if not same:
                    raise _unserved(stub, name, "the pack does not have it")
            else:
                _require(pack, model, name)
            empty.append(name)
    return tuple(empty)


def _packed_shape(pack: OrkPack, name: str) -> tuple[int, ...] | None:
    """Shape of the packed weight (or of all experts' together) a tensor is stored as; None where it is not."""
    parts = [
        entry
        for key, entry in pack.tensors.items()
        if entry.kind == Kind.PACKED
        and not entry.flags & EntryFlag.TIED
        and split_expert_name(key)[0] == name
    ]
    if not parts:
        return None
    shape: tuple[int, ...] = parts[0].shape
    return shape if split_expert_name(_first_name(pack, name))[1] is None else (*shape, len(parts))


def _first_name(pack: OrkPack, name: str) -> str:
    return name if name in pack.tensors else f"{name}#0"


def _require(pack: OrkPack, model: GgufFile, name: str) -> None:
    shape, wanted = _packed_shape(pack, name), tuple(model.tensors[name].shape)
    if shape != wanted:
        raise _unserved(model.path, name, f"the pack has it as {list(shape or ())}, not {list(wanted)}")


def _unserved(path: Path, name: str, why: str) -> InvalidFileError:
    return InvalidFileError(
        f"{path.name}: tensor {name} is all zeros and cannot be served",
        why=why,
        do="name the pack the stub was made with",
    )


def _range(model: GgufFile, name: str) -> tuple[int, int]:
    info = model.tensors[name]
    return info.offset, info.offset + info.nbytes


def _kept_ranges(model: GgufFile, holes: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Byte ranges of the file that are not the data of ``holes``, in order."""
    at = 0
    for begin, end in sorted(_range(model, name) for name in holes):
        if begin > at:
            yield at, begin
        at = max(at, end)
    if at < model.file_bytes:
        yield at, model.file_bytes


def _is_zero(data: memoryview) -> bool:
    return all(
        data[at : at + len(_ZEROS)] == _ZEROS[: min(len(_ZEROS), len(data) - at)]
        for at in range(0, len(data), len(_ZEROS))
    )
