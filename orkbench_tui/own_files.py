"""Failures of the files and folders this program keeps for itself, as errors with a way out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, OrkError

__all__ = ["own_file_error"]

_UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.ELOOP}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_IN_THE_WAY = {errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENXIO}


def own_file_error(error: OSError, path: Path | str, purpose: str) -> OrkError:
    """The error for ``path``, where ``purpose`` is kept and which the system refused with ``error``.

    A folder that may not be written or is none at all is DeniedError, a full disk NoMemoryError, a folder
    or pipe in the place of a file InvalidFileError. Each names the variable that moves our files elsewhere.
    """
    place = Path(os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else path)
    why = error.strerror or str(error)
    variable = locations.variable_of(place)
    elsewhere = f"set {variable} to a folder of yours that can be written" if variable else ""
    if error.errno in _FULL:
        do = f"free some, or {elsewhere}" if elsewhere else "free some and run again"
        return NoMemoryError(f"no space left for {purpose}", why=f"{place}: {why}", do=do)
    if error.errno == errno.ENOMEM:
        return NoMemoryError(
            f"not enough memory for {purpose}", why=f"{place}: {why}", do="close other programs"
        )
    if error.errno in _IN_THE_WAY:
        return InvalidFileError(
            f"{place} is in the way", why=f"{why}, where {purpose} should be", do="remove or rename it"
        )
    if error.errno in _UNUSABLE:
        do = f"check its owner and mode, or {elsewhere}" if elsewhere else "check its owner and mode"
        return DeniedError(f"cannot use {place} for {purpose}", why=why, do=do)
    return InvalidFileError(f"cannot use {place} for {purpose}", why=why, do=elsewhere or "check the disk")
