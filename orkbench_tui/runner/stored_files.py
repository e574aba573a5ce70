"""Model files and weight packs on this machine, as a list: what each is, and whether its bytes were checked.

A listing reads names, sizes and the notes of earlier checks, and of each pack its header; never a whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import InvalidFileError, OrkError
from orkbench_tui.runner.model_store import StoredFile, listing
from orkbench_tui.runner.orkpack.layout import PACK_EXTENSION
from orkbench_tui.runner.quantize.source_digest import file_stamp, noted_sha256, write_note

__all__ = ["Listed", "list_files", "verify_file"]

_QUANT = re.compile(
    r"(?:^|[-_.])((?:I?Q[2-8](?:_[0-9K](?:_[SML])?|_[A-Z]{1,3})?)|BF16|F16|F32)(?=[-_.]|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Listed:
    """``kind`` is model or pack; ``bytes`` None for a catalogue model that is not here.

    ``state`` is verified, "not checked", damaged, "not usable", partial or "not here"; ``detail`` says more in a few words.
    """

    kind: str
    name: str
    path: Path
    bytes: int | None
    quant: str
    state: str
    detail: str


def list_files(models_dir: Path, packs_dir: Path) -> tuple[Listed, ...]:
    """Models of the catalogue and the folder, then packs. Files that vanish meanwhile are left out."""
    rows = [_model(row, packs_dir) for row in listing(models_dir)]
    packs = sorted(packs_dir.glob(f"*{PACK_EXTENSION}")) if packs_dir.is_dir() else []
    for path in packs:
        try:
            rows.append(_pack(path))
        except FileNotFoundError:
            continue
    return tuple(rows)


def _model(row: StoredFile, packs_dir: Path) -> Listed:
    entry = row.model
    quant = quant_of_name(entry.file_name if entry else row.path.name)
    licence = f"{entry.licence}; {entry.summary}" if entry else "not in the catalogue"
    if row.bytes_present is None:
        state = "partial" if row.partial_bytes else "not here"
        size = entry.size_bytes if entry else 0
        more = (
            f"{(row.partial_bytes or 0) >> 20} of {size >> 20} MiB; "
            if row.partial_bytes
            else f"{size >> 20} MiB to get; "
        )
        return Listed("model", row.name, row.path, None, quant, state, more + licence)
    try:
        noted = noted_sha256(row.path, packs_dir)
    except OSError:
        noted = None
    if entry is not None and row.bytes_present != entry.size_bytes:
        state = "damaged"
    elif noted is None:
        state = "not checked"
    else:
        state = "verified" if entry is None or noted.hex() == entry.sha256 else "damaged"
    return Listed("model", row.name, row.path, row.bytes_present, quant, state, licence)


def _pack(path: Path) -> Listed:
    from orkbench_tui.runner.orkpack.reader import OrkPack

    size = path.stat().st_size
    try:
        with OrkPack.open(path) as pack:
            scheme, source = pack.scheme, str(pack.metadata.get("general.name", ""))
    except (OrkError, OSError) as error:
        why = error.line() if isinstance(error, OrkError) else (error.strerror or str(error))
        return Listed("pack", path.name, path, size, "?", "not usable", why)
    state = "verified" if _checked(path) else "not checked"
    return Listed("pack", path.name, path, size, scheme, state, f"packed from {source}" if source else "")


def _checked(path: Path) -> bool:
    """Whether the note of a full check is of this very file."""
    try:
        return path.with_name(path.name + ".checked").read_text(encoding="ascii") == str(file_stamp(path))
    except (OSError, UnicodeDecodeError):
        return False


def quant_of_name(name: str) -> str:
    """The quantization a file name tells, "" when it tells none; the file itself is not opened."""
    found = _QUANT.search(name.removesuffix(".gguf"))
    return found[1].upper() if found else ""


def verify_file(row: Listed, packs_dir: Path, progress: Callable[[str, int, int], None] | None = None) -> str:
    """Read the whole file and compare; what was found, in words.

    Raises:
        InvalidFileError: it is damaged.
        OSError: it cannot be read.
    """
    if row.kind == "pack":
        from orkbench_tui.runner.orkpack.reader import OrkPack

        with OrkPack.open(row.path) as pack:
            stamp = str(file_stamp(row.path))
            checked = pack.verify("full")
        write_note(row.path.with_name(row.path.name + ".checked"), stamp)
        return f"intact: every checksum holds, {checked >> 20} MiB read"
    from orkbench_tui.runner.catalogue import CATALOGUE
    from orkbench_tui.runner.quantize.source_digest import remember_sha256

    digest = remember_sha256(row.path, packs_dir, progress).hex()
    entry = CATALOGUE.get(row.name)
    if entry is None:
        return f"sha256 {digest}; the catalogue has no digest for it"
    if digest != entry.sha256:
        raise InvalidFileError(
            f"{row.path} is damaged",
            why=f"its sha256 is {digest[:16]}…, expected {entry.sha256[:16]}…",
            do=f"run: ork model pull {entry.name}",
        )
    return f"intact: sha256 is the pinned {digest[:16]}…"
