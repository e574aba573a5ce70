"""Keys and values of a prompt in a file: the next run on the same model need not compute them again.

Layout: magic, version (u32), length of the header (u32), header (JSON), token ids (u32 each), then every
array of the cache, layer by layer. The header's digest covers everything after it. Little endian.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, RefusedError
from orkbench_tui.plain_text import one_line

if TYPE_CHECKING:
    from orkbench_tui.runner.engine import Engine

__all__ = ["Binding", "binding_of", "common_prefix", "load_prompt", "save_prompt"]

MAGIC = b"ORKPRMPT"
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


def save_prompt(path: Path, engine: Engine, tokens: Sequence[int], binding: Binding) -> None:
    """Write what ``engine`` holds, which came from ``tokens``; the file appears whole or not at all.

    It tells what was asked and answered, so only its owner may read it.

    Raises:
        ValueError: not as many tokens as the engine holds.
        DeniedError, NoMemoryError: the folder is not writable, the disk is full.
    """
    import numpy as np

    if len(tokens) != engine.position:
        raise ValueError(f"{len(tokens)} tokens for an engine that holds {engine.position}")
    parts = [np.asarray(tokens, "<u4").tobytes(), *(np.ascontiguousarray(a).tobytes() for a in engine.held())]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    facts = {**asdict(binding), "tokens": len(tokens), "payload_bytes": sum(map(len, parts))}
    header = json.dumps(facts | {"sha256": digest.hexdigest()}).encode()
    gathering = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(os.open(gathering, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(_FIXED.pack(MAGIC, VERSION, len(header)))
            out.write(header)
            out.writelines(parts)
        gathering.replace(path)
    except PermissionError as error:
        raise DeniedError(f"cannot write {path}", why="permission denied", do="name another file") from error
    except OSError as error:
        raise NoMemoryError(
            f"cannot write {path}", why=error.strerror or str(error), do="name a file on another disk"
        ) from error
    finally:
        gathering.unlink(missing_ok=True)


def load_prompt(path: Path, engine: Engine, binding: Binding) -> list[int]:
    """Put a saved prompt into ``engine`` and return its tokens; the engine is unchanged on any error.

    More tokens than the engine has room for are left out at the end.

    Raises:
        InvalidFileError: not such a file, or damaged.
        RefusedError: made with another model, arithmetic or cache type.
    """
    import numpy as np

    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"cannot read {path}", why=error.strerror or str(error)) from error
    header, payload = _checked(path, content)
    for key, wanted in asdict(binding).items():
        if header.get(key) != wanted:
            raise RefusedError(
                f"prompt cache {path} does not fit",
                why=f"its {key} is {one_line(str(header.get(key)), 40)}, this run's is {wanted}",
                do="use the settings it was made with, or name another file",
            )
    count = header["tokens"]
    shapes = engine.held_shapes(count)
    if 4 * count + sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes) != len(payload):
        raise _damaged(path, f"{len(payload)} bytes do not hold {count} tokens of this model")
    tokens = np.frombuffer(payload, "<u4", count).astype(int).tolist()
    if tokens and max(tokens) >= engine.vocab_size:
        raise _damaged(path, f"token {max(tokens)} is not in the vocabulary")
    at = 4 * count
    arrays: list[np.ndarray] = []
    for shape, dtype in shapes:
        array = np.frombuffer(payload, dtype, math.prod(shape), at).reshape(shape)
        arrays.append(array)
        at += array.nbytes
    engine.restore(count, arrays)
    return tokens[: engine.position]


def _checked(path: Path, content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Header and payload of an undamaged file."""
    if len(content) < _FIXED.size or content[:8] != MAGIC:
        raise InvalidFileError(f"{path} is not a prompt cache", do="name another file")
    _, version, length = _FIXED.unpack_from(content)
    if version != VERSION:
        raise InvalidFileError(
            f"prompt cache {path} cannot be read",
            why=f"its version is {version}, known is {VERSION}",
            do="name another file",
        )
    payload = memoryview(content)[_FIXED.size + length :]
    if length > _HEADER_MAX:
        raise _damaged(path, f"its header would have {length} bytes")
    try:
        header = json.loads(content[_FIXED.size : _FIXED.size + length])
        count, size, digest = header["tokens"], header["payload_bytes"], header["sha256"]
    except (ValueError, KeyError, TypeError):
        raise _damaged(path, "its header cannot be read") from None
    if type(count) is not int or count < 0 or size != len(payload):
        raise _damaged(path, f"it holds {len(payload)} bytes, its header says {one_line(str(size), 20)}")
    if hashlib.sha256(payload).hexdigest() != digest:
        raise _damaged(path, "its content does not have the digest of its header")
    return header, payload


def _damaged(path: Path, why: str) -> InvalidFileError:
    return InvalidFileError(f"prompt cache {path} is damaged", why=why, do="remove it; it is made again")
