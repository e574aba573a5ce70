"""The one cffi build: every ``src/*.c`` with the prototypes of every ``src/api/*.h``.

API headers hold plain C prototypes and struct definitions only (no includes, no macros), because
cffi parses them as they stand. Kernels pick their instruction set at run time; nothing here may
assume the build machine's processor is the one that runs the code.

``setup.py`` uses ``ffibuilder``; run as a script, this file builds the module in place.
"""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cffi import FFI

NATIVE = Path(__file__).resolve().parent
SOURCES = NATIVE / "src"
ROOT = NATIVE.parents[1]
MODULE = "orkbench_tui.native._kernels"
BUILT_NAME = "_kernels.abi3.so"  # as an installation names it: cffi uses the limited API

# Contracted multiply-adds would make results differ between processors.
COMPILE_ARGUMENTS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unused-parameter"]
LINK_ARGUMENTS = ["-lm", "-pthread"]


def _builder(base: Path, sources: Path) -> FFI:
    """The module's description, with source paths relative to ``base`` (setuptools wants them so)."""

    def named(paths: Iterable[Path]) -> list[str]:
        return [str(path.relative_to(base)) for path in sorted(paths)]

    api = sorted((sources / "api").glob("*.h"))
    ffi = FFI()
    for header in api:
        ffi.cdef(header.read_text())
    ffi.set_source(
        MODULE,
        "#include <stdint.h>\n" + "\n".join(f'#include "api/{header.name}"' for header in api),
        sources=named(sources.glob("*.c")),
        depends=named(sources.glob("**/*.h")),
        include_dirs=[str(sources)],
        extra_compile_args=COMPILE_ARGUMENTS,
        extra_link_args=LINK_ARGUMENTS,
    )
    return ffi


def build_in_place() -> Path:
    """Compiles and replaces the module beside this file; processes that have it loaded keep the old one."""
    with tempfile.TemporaryDirectory(prefix="ork-native-") as folder:
        # Outside the project, so that an old setuptools does not try to read its pyproject.toml.
        room = Path(folder).resolve()
        shutil.copytree(SOURCES, room / "src")
        built = Path(_builder(room, room / "src").compile(tmpdir=str(room), verbose=True))
        beside = NATIVE / f"{BUILT_NAME}.new"
        shutil.copyfile(built, beside)
        for other in NATIVE.glob("_kernels.*.so"):
            if other.name != BUILT_NAME:
                other.unlink()  # a name with the Python version would be preferred at import
        return beside.replace(NATIVE / BUILT_NAME)


ffibuilder = _builder(ROOT, SOURCES)

if __name__ == "__main__":
    build_in_place()
