"""The one cffi build: every ``src/*.c`` with the prototypes of every ``src/api/*.h``.

API headers hold plain C prototypes and struct definitions only (no includes, no macros), because
cffi parses them as they stand. Kernels pick their instruction set at run time; nothing here may
assume the build machine's processor is the one that runs the code.
"""

from pathlib import Path

from cffi import FFI

SOURCES = Path(__file__).parent / "src"
ROOT = Path(__file__).parents[2]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _builder() -> FFI:
    api = sorted((SOURCES / "api").glob("*.h"))
    ffi = FFI()
    for header in api:
        ffi.cdef(header.read_text())
    ffi.set_source(
        "orkbench_tui.native._kernels",
        "#include <stdint.h>\n" + "\n".join(f'#include "api/{header.name}"' for header in api),
        sources=[_relative(path) for path in sorted(SOURCES.glob("*.c"))],
        depends=[_relative(path) for path in sorted(SOURCES.glob("**/*.h"))],
        include_dirs=[str(SOURCES)],
        extra_compile_args=["-std=gnu11", "-O3", "-fopenmp", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        extra_link_args=["-fopenmp", "-lm"],
    )
    return ffi


ffibuilder = _builder()

if __name__ == "__main__":
    ffibuilder.compile(tmpdir=str(ROOT), verbose=True)
