"""Builds the native kernels and the preload library; everything else is declared in pyproject.toml."""

from setuptools import Extension, setup

# No Python module: a library that `ork sim exec` preloads, built and named as one so that it is installed.
preload = Extension(
    "orkbench_tui.sim.preload._preload",
    ["orkbench_tui/sim/preload/preload.c"],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra"],
    libraries=["dl", "pthread"],
    py_limited_api=True,
)

setup(cffi_modules=["orkbench_tui/native/build.py:ffibuilder"], ext_modules=[preload])
