"""What probes found, bound to the driver's files they were run with: stale as soon as one of these changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.probes.declaration import Result

__all__ = ["SCHEMA", "Staleness", "attestation", "core_hashes", "staleness"]

SCHEMA = "ork.npu.attestation/1"

_PACKAGE = Path(__file__).resolve().parents[2]
_CORE = ("driver/**/*.py", "native/src/*.c", "native/src/*.h")


@dataclass(frozen=True, slots=True)
class Staleness:
    """Core files that are other, new or gone since; none means that the results still speak of this driver."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def fresh(self) -> bool:
        return not (self.changed or self.added or self.removed)


def _core_files(package: Path) -> Iterator[Path]:
    for pattern in _CORE:
        yield from package.glob(pattern)


def core_hashes(package: Path = _PACKAGE) -> dict[str, str]:
    """SHA-256 of every core file by its path inside the package, in order."""
    return {
        path.relative_to(package).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(_core_files(package))
    }


def attestation(
    results: Sequence[Result],
    *,
    label: str,
    version: str,
    kernel: str,
    hashes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A document of the verdicts. ``label`` is board or sim; ``hashes`` those of this program's core files."""
    return {
        "schema": SCHEMA,
        "label": label,
        "version": version,
        "kernel": kernel,
        "verdicts": {result.probe.name: result.answer.verdict.value for result in results},
        "core": dict(core_hashes() if hashes is None else hashes),
    }


def staleness(document: Any, hashes: Mapping[str, str] | None = None) -> Staleness:
    """How the core files differ from those a document was made with.

    Raises:
        InvalidFileError: it is no attestation.
    """
    core = document.get("core") if isinstance(document, dict) else None
    if not isinstance(core, dict) or document.get("schema") != SCHEMA or not core:
        raise InvalidFileError("an attestation", why=f"its schema is not {SCHEMA}, or it names no files")
    now = core_hashes() if hashes is None else hashes
    return Staleness(
        tuple(sorted(name for name in core if name in now and core[name] != now[name])),
        tuple(sorted(set(now) - set(core))),
        tuple(sorted(set(map(str, core)) - set(now))),
    )
