"""Keys and values of a prompt in a file: the next run on the same model need not compute them again.

Layout: magic, version (u32), length of the header (u32), header (JSON), token ids (u32 each), then every
array of the cache, layer by layer, then notes of who saved it (``chat_file.py`` keeps a conversation there).
The header's digest covers everything after it. Little endian.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, RefusedError, UsageError
from orkbench_tui.plain_text import one_line
from orkbench_tui.user_files import open_regular

if TYPE_CHECKING:
    from orkbench_tui.runner.engine import Engine

__all__ = [
    "Binding",
    "binding_of",
    "common_prefix",
    "load_noted",
    "load_prompt",
    "nothing_kept",
    "save_prompt",
]

MAGIC = b"ORKPRMPT"
PROMPT = "prompt cache"
VERSION = 1
_FIXED = struct.Struct("<8sII")
_HEADER_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Binding:
    """What must be the same for keys and values to mean the same."""

    model_sha256: str
    quant: str
    cache: str
    layers: int
    kv_heads: int
    head_dim: int


def binding_of(engine: Engine, model_sha256: str, quant: str) -> Binding:
    """``model_sha256`` is that of the GGUF file; ``quant`` names the arithmetic."""
    a = engine.architecture
    return Binding(model_sha256, quant, engine.cache_type, a.layers, a.kv_heads, a.head_dim)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens both begin with."""
    shorter = min(len(left), len(right))
    return next((i for i in range(shorter) if left[i] != right[i]), shorter)


def nothing_kept(path: Path) -> bool:
    """Whether ``path`` is free, or the empty file that stands for a name only, as ``mktemp`` makes one."""
    try:
        there = path.stat()
    except OSError:
        return True
    return stat.S_ISREG(there.st_mode) and there.st_size == 0


def save_prompt(
    path: Path, engine: Engine, tokens: Sequence[int], binding: Binding, notes: bytes = b""
) -> None:
    """Write what ``engine`` holds, which came from ``tokens``; the file appears whole or not at all.

    It tells what was asked and answered, so only its owner may read it.

    Raises:
        ValueError: not as many tokens as the engine holds.
        UsageError, RefusedError: something else is there already: no regular file, or a file of another kind; or
            there is no such folder.
        DeniedError, NoMemoryError: the folder is not writable, the disk is full.
    """
    import numpy as np

    if len(tokens) != engine.position:
        raise ValueError(f"{len(tokens)} tokens for an engine that holds {engine.position}")
    _check_replaceable(path)
    arrays = (np.ascontiguousarray(array).tobytes() for array in engine.held())
    parts = [np.asarray(tokens, "<u4").tobytes(), *arrays, notes]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    facts = {**asdict(binding), "tokens": len(tokens), "notes_bytes": len(notes)}
    facts |= {"payload_bytes": sum(map(len, parts)), "sha256": digest.hexdigest()}
    header = json.dumps(facts).encode()
    gathering = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        gathering.unlink(missing_ok=True)
        with os.fdopen(os.open(gathering, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(_FIXED.pack(MAGIC, VERSION, len(header)))
            out.write(header)
            out.writelines(parts)
        gathering.replace(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no folder {path.absolute().parent}", do="make it first") from error
    except PermissionError as error:
        raise DeniedError(f"cannot write {path}", why="permission denied", do="name another file") from error
    except OSError as error:
        raise NoMemoryError(
            f"cannot write {path}", why=error.strerror or str(error), do="name a file on another disk"
        ) from error
    finally:
        gathering.unlink(missing_ok=True)


def _check_replaceable(path: Path) -> None:
    """Raise unless ``path`` is free, or one of our files, which may be replaced."""
    try:
        there = path.stat()
    except OSError:
        return
    if not stat.S_ISREG(there.st_mode):
        raise UsageError(f"{path} is no regular file", do="name a file that is not there yet")
    with open_regular(path, "prompt cache") as file:
        if there.st_size and file.read(len(MAGIC)) != MAGIC:
            raise RefusedError(
                f"{path} is another kind of file", why="it would be overwritten", do="name another file"
            )


def load_prompt(path: Path, engine: Engine, binding: Binding) -> list[int]:
    """Put a saved prompt into ``engine`` and return its tokens; the engine is unchanged on any error.

    More tokens than the engine has room for are left out at the end.

    Raises:
        UsageError, DeniedError: there is no regular file that can be read.
        InvalidFileError: not such a file, or damaged.
        RefusedError: made with another model, arithmetic or cache type; or with notes, which a prompt that is
            saved over it would lose.
    """
    header, payload = _checked(path, PROMPT)
    if header.get("notes_bytes"):
        raise RefusedError(
            f"{path} holds a conversation",
            why="a prompt kept there would replace it",
            do="go on with it with: ork run chat --session, or name another file",
        )
    return _restored(path, header, payload, engine, binding, PROMPT)[0]


def load_noted(path: Path, engine: Engine, binding: Binding, noun: str) -> tuple[list[int], bytes]:
    """As ``load_prompt``, with the notes beside it; b"" where there are none. ``noun`` is what it is to its user."""
    return _restored(path, *_checked(path, noun), engine, binding, noun)


def _restored(
    path: Path, header: dict[str, Any], payload: memoryview, engine: Engine, binding: Binding, noun: str
) -> tuple[list[int], bytes]:
    import numpy as np

    for key, wanted in asdict(binding).items():
        if header.get(key) != wanted:
            raise RefusedError(
                f"{noun} {path} does not fit",
                why=f"its {key} is {_told(header.get(key))}, this run's is {_told(wanted)}",
                do="use the model and settings it was made with, or name another file",
            )
    count, notes = header["tokens"], header.get("notes_bytes", 0)
    shapes = engine.held_shapes(count)
    arrays_bytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes)
    if type(notes) is not int or notes < 0 or 4 * count + arrays_bytes + notes != len(payload):
        raise _damaged(path, noun, f"{len(payload)} bytes do not hold {count} tokens of this model")
    tokens = np.frombuffer(payload, "<u4", count).astype(int).tolist()
    if tokens and max(tokens) >= engine.vocab_size:
        raise _damaged(path, noun, f"token {max(tokens)} is not in the vocabulary")
    at = 4 * count
    arrays: list[np.ndarray] = []
    for shape, dtype in shapes:
        array = np.frombuffer(payload, dtype, math.prod(shape), at).reshape(shape)
        arrays.append(array)
        at += array.nbytes
    engine.restore(count, arrays)
    return tokens[: engine.position], bytes(payload[at:])


def _checked(path: Path, noun: str) -> tuple[dict[str, Any], memoryview]:
    """Header and payload of an undamaged file; nothing large is read before the header is known to fit it."""
    with open_regular(path, noun) as file:
        size = os.fstat(file.fileno()).st_size
        fixed = file.read(_FIXED.size)
        if len(fixed) < _FIXED.size or fixed[:8] != MAGIC:
            raise InvalidFileError(f"{path} is not a {noun}", do="name another file")
        _, version, length = _FIXED.unpack(fixed)
        if version != VERSION:
            raise InvalidFileError(
                f"{noun} {path} cannot be read",
                why=f"its version is {version}, known is {VERSION}",
                do="name another file",
            )
        if length > _HEADER_MAX:
            raise _damaged(path, noun, f"its header would have {length} bytes")
        try:
            header = json.loads(file.read(length))
            count, stated, digest = header["tokens"], header["payload_bytes"], header["sha256"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _damaged(path, noun, "its header cannot be read") from None
        there = size - _FIXED.size - length
        if type(count) is not int or count < 0 or stated != there:
            raise _damaged(path, noun, f"it holds {there} bytes, its header says {one_line(str(stated), 20)}")
        payload = memoryview(file.read(there))
    if hashlib.sha256(payload).hexdigest() != digest:
        raise _damaged(path, noun, "its content does not have the digest of its header")
    return header, payload


def _told(value: object) -> str:
    """A value of a binding in a message; of a digest the beginning tells it from others."""
    return one_line(str(value), 16)


def _damaged(path: Path, noun: str, why: str) -> InvalidFileError:
    do = "remove it; it is made again" if noun == PROMPT else "name another file"
    return InvalidFileError(f"{noun} {path} is damaged", why=why, do=do)
