"""Builds the preload library in place; an installation builds the same file through ``setup.py``."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

__all__ = ["LIBRARY", "SOURCE", "build_in_place"]

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "preload.c"
LIBRARY = FOLDER / "_preload.abi3.so"  # as an installation names it


def build_in_place() -> Path:
    """Raises subprocess.CalledProcessError when the compiler refuses, FileNotFoundError without one."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra"]
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".build-") as room:
        built = Path(room) / LIBRARY.name
        subprocess.run([*compiler, *flags, str(SOURCE), "-o", str(built), "-ldl", "-pthread"], check=True)
        return built.replace(LIBRARY)


if __name__ == "__main__":
    build_in_place()
